"""What pipes made of their inputs, judged on histories of a few events: what is an anomaly, what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.judging import counts, judged
from kaput.errors import EvidenceError

BILLS = {"topic": "bills", "partition": 0}


def pipe(inputs: int = 2, drained: bool = True) -> History:
    """Orders, and a group that is to make a bill of each; it is assigned the orders, and makes none yet."""
    history = History(
        topics=[{"name": "orders"}, {"name": "bills"}],
        groups={"billing": drained},
        subscriptions={"billing": ["orders"]},
        blocks={"billing": {"produces": {"topic": "bills"}}},
    )
    for seq in range(inputs):
        history.acked(0, seq, seq)
    return history.event("joined", 1, topic=None, partition=None).event("assigned", 2, 0)


def made(history: History, seq: int, offset: int, of: int) -> History:
    """A bill, made of the order at that offset."""
    return history.acked(1, seq, offset, **BILLS).output(1, seq, of)


def test_pipe_without_output_leaves_inputs_unprocessed(tmp_path: Path) -> None:
    """That it is one the scenario says."""
    history = pipe().handed(0, 0, 0, 10).handed(1, 0, 1, 11)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"unprocessed": 2}
    assert findings.verdict == "violated"


def test_undrained_pipe_is_inconclusive(tmp_path: Path) -> None:
    """Inconclusive, without any output, too."""
    findings = judged(pipe(drained=False).handed(0, 0, 0, 10).handed(1, 0, 1, 11), tmp_path)
    assert counts(findings) == {}
    assert findings.verdict == "inconclusive"


def test_a_row_of_outputs_that_is_there_twice_is_malformed(tmp_path: Path) -> None:
    """It would have been an input with two outputs, which it has not."""
    history = made(made(pipe(), 0, 0, 0), 1, 1, 1).handed(0, 0, 0, 10).handed(1, 0, 1, 11)
    assert counts(judged(history, tmp_path / "once")) == {}
    history.rows["end_offsets"].clear()
    with pytest.raises(
        EvidenceError, match="outputs: message 1 of producer 1 has 2 rows with the same input"
    ):
        judged(history.output(1, 1, 1), tmp_path / "twice")


def back(history: History, seek_ms: float | None = None) -> History:
    """Both orders are polled, and polled again: their first transaction was aborted, their second was not."""
    for seq in (0, 1):
        history.handed(seq, 0, seq, 10)
        history.sent(1, seq, seq, **BILLS).stored(seq, 1, seq, visible=False, **BILLS).output(1, seq, seq)
    if seek_ms is not None:
        history.event("seek", seek_ms, 0)
    for seq in (0, 1):
        history.handed(seq, 0, seq, 40)
        made(history, 2 + seq, 3 + seq, seq)
    return history.event("committed", 50, 2)


def transactions(history: History, outcome: str, begin: float, end: float) -> History:
    """That of the first two bills, which took from one time to the other, and that of the next two."""
    history.transaction(0, 0, 1, outcome, 1).transaction(1, 2, 3, "committed", 1)
    history.rows["transactions"][0] |= {"begin_ns": at(begin), "end_ns": at(end)}
    return history


def test_redelivery_after_a_seek_is_permitted(tmp_path: Path) -> None:
    """It is on record that it did, and is no change of owner: it has the partition all the time."""
    findings = judged(transactions(back(pipe(), 30), "aborted", 900, 950), tmp_path)
    assert counts(findings) == {"redelivered": 2}
    assert findings.verdict == "held", findings.reasons
    assert len(findings.rebalances) == 1


def test_a_seek_is_of_its_own_partition_and_member(tmp_path: Path) -> None:
    history = back(pipe()).event("seek", 30, 0, partition=1).event("seek", 30, 0, member="m2")
    findings = judged(history, tmp_path)
    assert counts(findings)["nonmonotonic-poll"] == 1
    assert findings.verdict == "violated"


def test_a_seek_that_names_no_partition_is_of_all(tmp_path: Path) -> None:
    """As what is revoked or lost as a whole."""
    history = transactions(back(pipe()), "aborted", 900, 950).event("seek", 30, topic=None, partition=None)
    assert counts(judged(history, tmp_path)) == {"redelivered": 2}


def test_jump_ahead_after_a_seek_is_no_poll_skip(tmp_path: Path) -> None:
    """Whoever seeks goes where it likes; what it never was delivered is unseen all the same."""
    history = pipe(3).handed(0, 0, 0, 10).event("seek", 20, 2).handed(2, 0, 2, 30)
    made(made(made(history, 0, 0, 0), 1, 1, 1), 2, 2, 2)
    assert counts(judged(history, tmp_path)) == {"unseen": 1}


@pytest.mark.parametrize("outcome", ["aborted", "unknown"])
@pytest.mark.parametrize(("begin", "end"), [(20, 30), (5, 20), (20, 60)])
def test_abort_between_two_polls_implies_a_seek(
    outcome: str, begin: float, end: float, tmp_path: Path
) -> None:
    """Of runs that recorded none."""
    findings = judged(transactions(back(pipe()), outcome, begin, end), tmp_path)
    assert counts(findings) == {"redelivered": 2}
    assert findings.verdict == "held", findings.reasons


def test_commit_between_two_polls_implies_no_seek(tmp_path: Path) -> None:
    """Nor is an abort before the first poll, or after the second."""
    history = pipe().handed(0, 0, 0, 10).handed(1, 0, 1, 10).handed(0, 0, 0, 40)
    made(made(history, 0, 0, 0), 1, 1, 1).transaction(0, 0, 1, "committed", 1)
    history.rows["transactions"][0] |= {"begin_ns": at(20), "end_ns": at(30)}
    assert counts(judged(history, tmp_path / "committed")) == {"redelivered": 1, "nonmonotonic-poll": 1}
    history.transaction(1, 2, 1, "aborted", 1)
    history.rows["transactions"][1] |= {"begin_ns": at(50), "end_ns": at(60)}
    history.rows["end_offsets"].clear()
    assert counts(judged(history, tmp_path / "later")) == {"redelivered": 1, "nonmonotonic-poll": 1}


def test_a_member_without_an_assignment_on_record_may_seek(tmp_path: Path) -> None:
    """And owns no partition by that."""
    history = pipe()
    history.rows["group_events"].clear()
    transactions(back(history, 30), "aborted", 900, 950)
    assert counts(judged(history, tmp_path / "unknown")) == {"redelivered": 2}
    history.rows["end_offsets"].clear()
    history.event("assigned", 1, 0, member="m2")
    assert counts(judged(history, tmp_path / "of another")) == {"redelivered": 2, "unassigned-delivery": 4}
