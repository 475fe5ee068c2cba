"""Groups that read what is committed wait for transactions that are open before it; histories by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import Wait

LONG = {"transactional_id": "t0", "producer": 0, "transaction": 7, "first_seq": 10, "last_seq": 10}


def _history(ended_ms: int | None, outcome: str = "committed", isolation: str = "read_committed") -> History:
    """Producer 1 sends a message every 100 ms, and producer 0 one at 2 s, in a transaction. Until that is
    ended billing is given nothing that is behind it.
    """
    history = History(
        producers=[{"topic": "orders", "acks": "all"}] * 2,
        topics=[{"name": "orders", "partitions": 1}],
        groups={"billing": True},
    )
    history.led(1, 0, -100, [1, 2, 3])
    history.blocks["billing"] = {"config": {"isolation.level": isolation}}
    for seq in range(100):
        ms, offset = 100 * seq, seq + (seq >= 20)
        shown = 8_000 if 2_000 <= ms < 8_000 else ms + 6
        history.acked(1, seq, offset, attempt_ns=at(ms), done_ns=at(ms + 5)).handed(offset, 1, seq, shown)
    history.acked(0, 10, 20, attempt_ns=at(1_950), done_ns=at(1_990))
    if outcome == "committed":
        history.handed(20, 0, 10, 8_000)
    else:
        history.rows["log"][-1]["visible"] = False
    end_ns = None if ended_ms is None else at(ended_ms)
    return history.add("transactions", **LONG, outcome=outcome, begin_ns=at(1_950), end_ns=end_ns, error=None)


def _waits(found: Findings) -> list[tuple[str, float, float]]:
    """Of the silence of billing in the partition, from 1,906 ms or the first that waits then, to 8 s."""
    return [(w.condition, (w.from_ns - at(0)) / 1e6, (w.to_ns - at(0)) / 1e6) for w in _of_billing(found)]


def _of_billing(found: Findings) -> list[Wait]:
    (one,) = (one for one in found.standstills if (one.group, one.partition) == ("billing", 0))
    return one.waited_for


def test_group_waits_until_the_transaction_before_what_it_is_delivered_is_committed(tmp_path: Path) -> None:
    """Its producer learned so 10 ms before the delivery."""
    found = judged(_history(7_990), tmp_path)
    assert _waits(found) == [("transaction", 1_950, 7_990), ("client", 7_990, 8_000)]
    assert _of_billing(found)[0].record == "transaction 7 of producer 0 was committed"


def test_group_waits_for_an_aborted_transaction_that_it_is_never_given(tmp_path: Path) -> None:
    found = judged(_history(7_990, "aborted"), tmp_path)
    assert _waits(found)[-2:] == [("transaction", 2_000, 7_990), ("client", 7_990, 8_000)]
    assert _of_billing(found)[-2].record == "transaction 7 of producer 0 was aborted"


def test_delivery_before_the_producer_learned_it_shows_that_it_was_ended(tmp_path: Path) -> None:
    assert _waits(judged(_history(12_000), tmp_path)) == [("transaction", 1_950, 8_000)]


def test_group_that_reads_everything_waits_for_no_transaction(tmp_path: Path) -> None:
    assert _waits(judged(_history(7_990, isolation="read_uncommitted"), tmp_path)) == []


def test_transaction_behind_what_is_delivered_first_holds_nothing_up(tmp_path: Path) -> None:
    """What producer 1 sent before it was there to be read."""
    history = _history(7_990)
    for row in history.rows["deliveries"]:
        if row["offset"] == 19:
            row["polled_ns"] = at(7_999)
    (one, *_) = (one for one in judged(history, tmp_path).standstills if one.group == "billing")
    assert (one.to_ns, one.ended_by) == (at(7_999), "unknown")


@pytest.mark.parametrize(
    ("outcome", "held_ms", "until", "record"),
    [
        ("committed", (6_500, 7_500), 7_490, "transaction 7 of producer 0 was committed"),
        ("committed", (7_000, 7_700), 8_000, "the last stable offset of orders/0 went past transaction 7"),
        ("unknown", (6_500, 7_500), 7_900, "the last stable offset of orders/0 went past transaction 7"),
    ],
    ids=["over by the next sample", "markers pending", "outcome not learned"],
)
def test_samples_show_that_a_transaction_is_still_open(
    outcome: str, held_ms: tuple[int, int], until: int, record: str, tmp_path: Path
) -> None:
    """Until one is above its first record, or something behind that is delivered."""
    history = _history(7_490 if outcome == "committed" else None, outcome)
    first, last = held_ms
    history.stable(20, 70, first)
    if outcome == "unknown" or last > 7_500:
        history.stable(20, 75, last)
    if outcome == "unknown":
        history.stable(70, 79, 7_900)
    found = judged(history, tmp_path)
    waits = [one for one in _waits(found) if one[0] == "transaction"]
    assert [end for _, _, end in waits] == [until]
    assert _of_billing(found)[len(_waits(found)) - (1 if until == 8_000 else 2)].record.startswith(record)


def test_transaction_of_unknown_end_decides_nothing(tmp_path: Path) -> None:
    """Neither its producer nor a sample tells when it was ended."""
    assert _waits(judged(_history(None, "unknown"), tmp_path)) == []


def test_transaction_that_was_open_for_less_than_a_second_decides_nothing(tmp_path: Path) -> None:
    assert _waits(judged(_history(2_900), tmp_path)) == []


def test_transaction_without_messages_before_it_holds_nothing_up(tmp_path: Path) -> None:
    """It was open for long, and the next one, which was not, begins with the same message."""
    history = _history(2_900)
    history.add(
        "transactions", **LONG | {"transaction": 6, "last_seq": 9}, outcome="aborted", begin_ns=at(100),
        end_ns=at(1_900), error=None,
    )  # fmt: skip
    assert _waits(judged(history, tmp_path)) == []


def test_coordinator_and_the_last_acknowledgement_elsewhere_are_named(tmp_path: Path) -> None:
    """Its second message was acknowledged in orders/1 at 7.5 s; its coordinator was down for 5 s."""
    history = _history(7_990)
    history.topics = [{"name": "orders", "partitions": 2}]
    history.rows["transactions"][0]["last_seq"] = 11
    history.acked(0, 11, 0, partition=1, attempt_ns=at(1_960), done_ns=at(7_500))
    history.handed(0, 0, 11, 8_000, partition=1)
    history.fault(
        2, 2_500, 7_500, target="transaction-coordinator-of producer 0", fault="pause", id="1-pause"
    )
    history.led(1, 0, -50, [1, 3], kind="isr").led(1, 0, -50, [1, 3], partition=1)
    found = judged(history, tmp_path)
    assert _waits(found) == [("transaction", 1_950, 7_990), ("client", 7_990, 8_000)]
    assert _of_billing(found)[0].record == (
        "transaction 7 of producer 0 was committed, 0.5 s after the last acknowledgement in it, on orders/1 "
        "(its coordinator was down for 5.0 s of it)"
    )


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("producer 0", True),
        ("producer 1", False),
        ("member 1 of pipe", True),
        ("member 2 of pipe", False),
        ("member 1 of billing", False),
    ],
)
def test_fault_on_the_producer_of_an_open_transaction_is_a_cause(
    target: str, named: bool, tmp_path: Path
) -> None:
    """Also on the member of a pipe that made it, whose group is another one than the one that waits."""
    history = _history(7_990).fault(1, 2_500, 7_900, fault="pause", id="1-pause", target=target)
    history.rows["faults"][0]["brokers"] = []
    if "pipe" in target:
        history.rows["transactions"][0]["transactional_id"] = "kaput-pipe-member-1"
    found = judged(history, tmp_path)
    (one,) = (one for one in found.standstills if (one.group, one.partition) == ("billing", 0))
    assert ("1-pause" in (one.cause or "")) is named
