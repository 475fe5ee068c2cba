"""What became of transactions, judged on histories of a few events: what is an anomaly, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.histories import History
from fakes.judging import counts, findings_in, judged
from kaput.errors import EvidenceError

Case = Callable[[History], History]


def paid(isolation: str = "read_committed", drained: bool = True) -> History:
    """Messages 0 and 1 committed, then two that were aborted, then another that was committed; holes where
    the markers are.
    """
    history = History(
        producers=[{"topic": "orders", "acks": "all", "idempotence": True}],
        groups={"billing": drained},
        blocks={"billing": {"config": {"isolation.level": isolation}}},
    )
    history.acked(0, 0, 0).acked(0, 1, 1).transaction(0, 0, 1)
    history.hidden(0, 2, 3).hidden(0, 3, 4).transaction(1, 2, 3, "aborted")
    history.acked(0, 4, 6).transaction(2, 4, 4)
    for offset, seq in ((0, 0), (1, 1), (6, 4)):
        history.handed(offset, 0, seq, 100 + seq)
    return history


INNOCENT: dict[str, Case] = {
    "aborted messages and markers are no gaps": lambda h: h.event("committed", 120, 7),
    "an aborted message that a reader with read_committed alone has looked for": lambda h: h.sent(
        0, 5, 8
    ).transaction(3, 5, 5, "aborted"),
    "its outcome is unknown, and nothing of it is there": lambda h: (
        h.sent(0, 5, 8).sent(0, 6, 9).transaction(3, 5, 6, "unknown")
    ),
    "its outcome is unknown, and it is all hidden": lambda h: (
        h.hidden(0, 5, 8).hidden(0, 6, 9).transaction(3, 5, 6, "unknown")
    ),
    "its outcome is unknown, and all of it is there": lambda h: (
        h.acked(0, 5, 8).handed(8, 0, 5, 110).transaction(3, 5, 5, "unknown")
    ),
    "nobody tells of its transaction, and it is hidden": lambda h: h.hidden(0, 5, 8),
    "aborted before it was acknowledged": lambda h: h.sent(0, 5, None, "unknown").transaction(
        3, 5, 5, "aborted"
    ),
    "a transaction of no messages": lambda h: h.transaction(3, 5, 4),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_innocent_history_has_no_transaction_anomaly(name: str, tmp_path: Path) -> None:
    """Nobody promised what was not committed."""
    findings = judged(INNOCENT[name](paid()), tmp_path)
    assert counts(findings) == {}
    assert findings.verdict == "held", findings.reasons
    assert sum(fate.count for fate in findings.fates) == findings.totals.sent


def test_uncommitted_messages_have_their_own_fate(tmp_path: Path) -> None:
    """Acknowledged, and yet not lost."""
    findings = judged(paid(), tmp_path)
    assert {(f.outcome, f.stored): f.count for f in findings.fates} == {
        ("acked", "1"): 3,
        ("acked", "uncommitted"): 2,
    }
    assert (findings.totals.uncommitted, findings.totals.log_records) == (2, 5)
    assert findings.transactions is not None
    told = findings.transactions
    assert (told.committed, told.aborted, told.unknown, told.messages) == (2, 1, 0, 5)


GUILTY: dict[str, tuple[dict[str, int], Case]] = {
    "an aborted message is shown": (
        {"torn-transaction": 1, "unseen": 1},
        lambda h: h.acked(0, 5, 8).transaction(3, 5, 5, "aborted"),
    ),
    "half of what was committed is there": (
        {"torn-transaction": 1, "lost": 1},
        lambda h: h.acked(0, 5, 8).handed(8, 0, 5, 110).sent(0, 6, 9).transaction(3, 5, 6),
    ),
    "half of what was committed is hidden": (
        {"torn-transaction": 1, "lost": 1},
        lambda h: h.acked(0, 5, 8).handed(8, 0, 5, 110).hidden(0, 6, 9).transaction(3, 5, 6),
    ),
    "half of it is there, and what the commit did is not known": (
        {"torn-transaction": 1},
        lambda h: h.acked(0, 5, 8).handed(8, 0, 5, 110).hidden(0, 6, 9).transaction(3, 5, 6, "unknown"),
    ),
    "nothing of what was committed is there": (
        {"lost-commit": 1, "lost": 2},
        lambda h: h.sent(0, 5, 8).hidden(0, 6, 9).transaction(3, 5, 6),
    ),
    "a message of unknown outcome is not there, though the commit was confirmed": (
        {"torn-transaction": 1},
        lambda h: (
            h.acked(0, 5, 8)
            .handed(8, 0, 5, 110)
            .sent(0, 6, None, "unknown", partition=None)
            .transaction(3, 5, 6)
        ),
    ),
    "nothing of what was committed is there, and nothing of it was acknowledged": (
        {"lost-commit": 1},
        lambda h: h.sent(0, 5, None, "unknown").transaction(3, 5, 5),
    ),
    "an aborted message was delivered": ({"aborted-read": 1}, lambda h: h.handed(3, 0, 2, 102)),
    "a message was delivered and never committed": (
        {"aborted-read": 1},
        lambda h: h.hidden(0, 5, 8).transaction(3, 5, 5, "unknown").handed(8, 0, 5, 110),
    ),
}


@pytest.mark.parametrize("name", GUILTY)
def test_history_shows_exactly_its_transaction_anomaly(name: str, tmp_path: Path) -> None:
    """And nothing else; the verdict is that a promise was broken."""
    wanted, case = GUILTY[name]
    findings = judged(case(paid()), tmp_path)
    assert counts(findings) == wanted
    assert findings.verdict == "violated"
    assert next(iter(wanted)) in " ".join(findings.reasons) or "transaction" in " ".join(findings.reasons)
    assert all(len(a.examples) == a.count for a in findings.anomalies)


def test_read_uncommitted_group_must_receive_aborted_messages(tmp_path: Path) -> None:
    """It may be delivered what was aborted, and may neither jump over it nor commit past it."""
    history = paid("read_uncommitted").event("committed", 120, 7)
    findings = judged(history, tmp_path / "jumped")
    assert counts(findings) == {"poll-skip": 1, "commit-ahead": 1}
    history = paid("read_uncommitted")
    history.rows["deliveries"].clear()
    for offset, seq in ((0, 0), (1, 1), (3, 2), (4, 3), (6, 4)):
        history.handed(offset, 0, seq, 100 + seq)
    findings = judged(history, tmp_path / "all")
    assert counts(findings) == {}
    assert findings.groups[0].isolation == "read_uncommitted"


def test_group_of_unknown_isolation_level_is_not_judged(tmp_path: Path) -> None:
    """A group that the scenario does not have jumps over aborted messages, and another is delivered them."""
    history = paid()
    for offset, seq in ((0, 0), (1, 1), (6, 4)):
        history.handed(offset, 0, seq, 100 + seq, group="unheard", member="m2")
    history.handed(3, 0, 2, 99, group="unheard", member="m3")
    assert counts(judged(history, tmp_path)) == {}


def test_transaction_torn_by_a_permitted_loss_is_permitted(tmp_path: Path) -> None:
    """Where losses are permitted, so are the transactions that they tear."""
    history = paid()
    history.topics = [{"name": "orders", "config": {"unclean.leader.election.enable": True}}]
    history.led(1, 0, -10, [1, 2, 3]).led(1, 0, 5, [1]).led(2, 1, 500, [2])
    history.sent(0, 5, 7).acked(0, 6, 8, leader_epoch=1).handed(8, 0, 6, 600).transaction(3, 5, 6)
    history.stored(7, None, None, leader_epoch=1)
    findings = judged(history, tmp_path)
    (torn,) = findings.anomaly("torn-transaction")
    (lost,) = findings.anomaly("lost")
    assert lost.causes == {"unclean-election": 1}
    assert (torn.count, torn.permitted, lost.permitted) == (1, 1, 1)


@pytest.mark.parametrize(
    ("to_ms", "count", "permitted"), [(60_000, 0, 0), (60_101, 1, 1), (75_000, 1, 1), (75_001, 1, 0)]
)
def test_lso_stall_is_compared_with_the_transaction_timeout(
    to_ms: int, count: int, permitted: int, tmp_path: Path
) -> None:
    """A minute is what a transaction may take, ten seconds and five more what aborting it may."""
    history = paid().stable(3, 5, 0).stable(3, 5, 30_000).stable(3, 7, to_ms).stable(7, 7, to_ms + 1)
    findings = judged(history, tmp_path)
    (found,) = findings.anomaly("hanging-transaction")
    assert (found.count, found.permitted) == (count, permitted)
    assert findings.verdict == ("held" if count == permitted else "violated")
    assert findings.transactions is not None
    assert findings.transactions.longest_standstill_ms == to_ms


def test_lso_stall_uses_the_producers_own_timeout(tmp_path: Path) -> None:
    """And how often the coordinator looks, the brokers'."""
    history = paid().stable(3, 5, 0).stable(3, 5, 3_500)
    history.producers[0]["config"] = {"transaction.timeout.ms": 3_000}
    history.cluster = {"config": {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}}
    (found,) = judged(history, tmp_path).anomaly("hanging-transaction")
    assert (found.count, found.permitted) == (1, 1)
    assert "behind producer 0's message 2" in found.examples[0].story


def test_idle_partition_has_no_lso_stall(tmp_path: Path) -> None:
    """An idle partition's last stable offset is its high watermark."""
    findings = judged(paid().stable(7, 7, 0).stable(7, 7, 900_000), tmp_path)
    assert counts(findings) == {}
    assert findings.transactions is not None
    assert findings.transactions.longest_standstill_ms is None


def test_invalid_lso_samples_are_ignored(tmp_path: Path) -> None:
    """Whatever anybody writes into samples: no number, no partition, no topic of the run."""
    history = paid().stable(3, 5, 0).stable(3, 5, 90_000, topic="elsewhere")
    for value in (float("nan"), float("inf"), -1.0, 1e300):
        history.stable(0, 1, 1)
        history.rows["samples"][-1]["value"] = value
    for labels in (
        None,
        [],
        [("topic", None), ("partition", "0")],
        [("topic", "orders"), ("partition", "\u00b2")],
    ):
        history.stable(0, 1, 2)
        history.rows["samples"][-1]["labels"] = labels
        history.rows["samples"][-2]["labels"] = labels
    assert counts(judged(history, tmp_path)) == {}


def test_transaction_in_an_unread_partition_is_not_torn(tmp_path: Path) -> None:
    """The missing part may be there."""
    history = paid().acked(0, 5, 8).handed(8, 0, 5, 110).sent(0, 6, 9).transaction(3, 5, 6)
    history.add("end_offsets", topic="orders", partition=0, end_offset=11, drained_to=9)
    findings = findings_in(history.write(tmp_path))
    assert counts(findings) == {}
    assert findings.verdict == "inconclusive"


def test_a_transaction_across_blocks_is_one(tmp_path: Path) -> None:
    """Its parts are examined apart, and judged together."""
    edge = 65_536
    history = paid().acked(0, edge - 1, 10).handed(10, 0, edge - 1, 200).sent(0, edge, 11)
    history.transaction(3, edge - 1, edge)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"torn-transaction": 1, "lost": 1}
    assert findings.transactions is not None
    assert (findings.transactions.committed, findings.transactions.messages) == (3, 7)


@pytest.mark.parametrize("ids", [("a", "b"), ("a", "a")])
def test_transactions_with_the_same_number_are_separate(ids: tuple[str, str], tmp_path: Path) -> None:
    """A client may have several transactional.ids, or count anew: what tells them apart is their messages.

    One is all there and one is all gone: taken for one they would be torn.
    """
    history = paid().acked(0, 5, 8).handed(8, 0, 5, 110).sent(0, 6, 9)
    history.transaction(3, 5, 5).transaction(3, 6, 6)
    for row, id_ in zip(history.rows["transactions"][-2:], ids, strict=True):
        row["transactional_id"] = id_
    findings = judged(history, tmp_path)
    assert counts(findings) == {"lost-commit": 1, "lost": 1}


def test_failed_message_does_not_tear_a_committed_transaction(tmp_path: Path) -> None:
    """It was refused, and its producer knew."""
    history = paid().acked(0, 5, 8).handed(8, 0, 5, 110).sent(0, 6, None, "failed").transaction(3, 5, 6)
    findings = judged(history, tmp_path)
    assert counts(findings) == {}
    assert findings.verdict == "held"


def test_message_in_two_transactions_is_malformed(tmp_path: Path) -> None:
    """Evidence that says otherwise contradicts itself."""
    with pytest.raises(EvidenceError, match="message 4 of producer 0 is of more than one"):
        judged(paid().transaction(3, 4, 5, "aborted"), tmp_path)


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (5, 3), (0, 2**31)])
def test_transaction_with_impossible_message_range_is_malformed(
    first: int, last: int, tmp_path: Path
) -> None:
    """Numbered from 0, in order, and not more than anybody can send."""
    with pytest.raises(EvidenceError, match="a transaction of the messages"):
        judged(paid().transaction(3, first, last), tmp_path)


def test_evidence_without_transactions_has_no_transaction_block(tmp_path: Path) -> None:
    """As all evidence had been."""
    findings = judged(History(groups={"billing": True}).acked(0, 0, 0).handed(0, 0, 0, 5), tmp_path)
    assert findings.transactions is None
    assert findings.verdict == "held"
    assert findings.groups[0].isolation == "read_committed"
