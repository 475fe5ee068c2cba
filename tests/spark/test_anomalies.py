"""Each anomaly in a history of at most ten events, with its exact count and the sentence that tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History
from fakes.in_process import InProcess
from fakes.kinds_of_anomalies import OF_MIRRORS
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from kaput.scenario.anomalies import ANOMALIES


def _clean() -> History:
    """Two messages, acknowledged and stored."""
    return History().acked(0, 0, 0).acked(0, 1, 1)


def _group() -> History:
    """The same, handed to the only member of a group that owns the partition."""
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 1, 1).acked(0, 2, 2)
    return history.event("joined", 0, topic=None, partition=None).event("assigned", 0, 0)


def lost() -> History:
    """Message 1 was acknowledged under epoch 0, and epoch 1 begins at its offset."""
    history = History(producers=[{"topic": "orders", "acks": 1}]).acked(0, 0, 0).sent(0, 1, 1)
    history.led(1, 0, -10, [1, 2, 3]).led(2, 1, 500, [2, 3])
    return history.acked(0, 2, 1, leader_epoch=1, attempt_ns=_ns(600), done_ns=_ns(601))


def _ns(ms: float) -> int:
    from fakes.histories import at

    return at(ms)


def removed() -> History:
    """Both messages have the same key, and the topic is compacted."""
    history = History(producers=[{"topic": "orders", "key": "producer"}])
    history.topics[0]["config"] = {"cleanup.policy": "compact"}
    return history.sent(0, 0, 0).acked(0, 1, 1)


def lost_in_store() -> History:
    """Message 2 was kept, and is neither stored nor in the store."""
    history = _clean().sent(0, 2, None, "kept").kept(0, 2)
    history.stores = {"local": True}
    return history


def duplicate() -> History:
    """Message 1 is stored twice."""
    return _clean().stored(2, 0, 1)


def recovered() -> History:
    """Message 1's outcome was never learned, and it is stored."""
    return History().acked(0, 0, 0).sent(0, 1, None, "unknown", error="_MSG_TIMED_OUT").stored(1, 0, 1)


def ghost() -> History:
    """Message 1 was refused, and is stored."""
    return History().acked(0, 0, 0).sent(0, 1, None, "failed").stored(1, 0, 1)


def phantom() -> History:
    """The log holds a message that was never sent."""
    return _clean().stored(2, 0, 8_123)


def corrupt() -> History:
    """A damaged record, also as delivered: one offset, so one."""
    history = _group().stored(3, None, None, intact=False)
    for offset in (0, 1, 2):
        history.handed(offset, 0, offset, 10 + offset)
    return history.handed(3, None, None, 20, intact=False)


def reordered() -> History:
    """Message 0 is stored after message 1."""
    return History().acked(0, 1, 0).acked(0, 0, 1)


def inconsistent_offset() -> History:
    """Offset 1 was given to message 1, whose acknowledgement the log does not bear out, and to message 2."""
    return lost()


def unseen() -> History:
    """Message 2 is never handed out."""
    return _group().handed(0, 0, 0, 10).handed(1, 0, 1, 11)


def redelivered() -> History:
    """Offset 1 is handed out again before it was committed, after a change of assignment."""
    history = _group().handed(0, 0, 0, 10).handed(1, 0, 1, 11).event("committed", 12, 1)
    return history.event("revoked", 13).event("assigned", 14).handed(1, 0, 1, 15).handed(2, 0, 2, 16)


def poll_skip() -> History:
    """The member jumps from offset 0 to 2; offset 1 comes later, after it was given the partition anew."""
    history = _group().handed(0, 0, 0, 10).handed(2, 0, 2, 11)
    return history.event("revoked", 12).event("assigned", 12).handed(1, 0, 1, 13)


def nonmonotonic_poll() -> History:
    """The member is handed offset 0 again, though nothing changed its assignment."""
    return _group().handed(0, 0, 0, 10).handed(1, 0, 1, 11).handed(2, 0, 2, 12).handed(0, 0, 0, 13)


def commit_ahead() -> History:
    """Offset 3 is committed before offset 2 is delivered."""
    history = _group().handed(0, 0, 0, 10).handed(1, 0, 1, 11)
    return history.event("committed", 12, 3).handed(2, 0, 2, 13)


def unassigned_delivery() -> History:
    """Offset 2 is handed to the member after it lost the partition."""
    return _group().handed(0, 0, 0, 10).handed(1, 0, 1, 11).event("lost", 12).handed(2, 0, 2, 13)


def vanished() -> History:
    """Message 1 was delivered, and epoch 1 begins at its offset; its producer never learned what became of
    it.
    """
    history = History(producers=[{"topic": "orders", "acks": 1}], groups={"billing": True})
    history.acked(0, 0, 0).sent(0, 1, None, "unknown").led(1, 0, -10, [1, 2, 3]).led(2, 1, 500, [2, 3])
    return history.handed(0, 0, 0, 10).handed(1, 0, 1, 11)


def _queue() -> History:
    """Three messages, of which a member of a share group has accepted the first two."""
    history = History(groups={"billing": True}, blocks={"billing": {"type": "share"}})
    history.acked(0, 0, 0).acked(0, 1, 1).acked(0, 2, 2)
    for offset in (0, 1):
        history.shared("acquired", offset, 10, 1).shared("accepted", offset, 11)
    return history


def double_accept() -> History:
    """Member m1 accepts message 2 after its lock has timed out and m2 has accepted it."""
    history = _queue().shared("acquired", 2, 12, 1).shared("acquired", 2, 20, 2, member="m2")
    return history.shared("accepted", 2, 21, member="m2").shared("accepted", 2, 22)


def delivered_after_accept() -> History:
    """Message 2 is handed out again although it was accepted."""
    history = _queue().shared("acquired", 2, 12, 1).shared("accepted", 2, 13)
    return history.shared("acquired", 2, 20, 1, member="m2")


def over_delivered() -> History:
    """Message 2 is delivered for the sixth time."""
    return _queue().shared("acquired", 2, 12, 6).shared("accepted", 2, 13)


def lost_release() -> History:
    """Message 2 is released, and never handed out again."""
    return _queue().shared("acquired", 2, 12, 1).shared("released", 2, 13)


def _two_transactions() -> History:
    """Messages 0 and 1 committed, 2 and 3 aborted; a group has been handed what was committed."""
    history = _group().transaction(0, 0, 1).hidden(0, 3, 3).transaction(1, 3, 3, "aborted")
    history.transaction(2, 2, 2)
    return history.handed(0, 0, 0, 10).handed(1, 0, 1, 11).handed(2, 0, 2, 12)


def torn_transaction() -> History:
    """Message 4 of an aborted transaction is shown."""
    history = _two_transactions().acked(0, 4, 4).hidden(0, 5, 5).transaction(3, 4, 5, "aborted")
    history.groups.clear()
    history.rows["deliveries"].clear()
    history.rows["group_events"].clear()
    return history


def lost_commit() -> History:
    """Messages 4 and 5 were committed, and are nowhere."""
    return _two_transactions().sent(0, 4, 4).sent(0, 5, 5).transaction(3, 4, 5)


def hanging_transaction() -> History:
    """Behind message 2 nothing is shown for 90 s."""
    history = _two_transactions().stable(0, 1, 100).stable(2, 3, 200)
    return history.stable(2, 4, 60_000).stable(2, 4, 90_200).stable(4, 4, 95_000)


def aborted_read() -> History:
    """Message 3 was aborted, and is delivered."""
    return _two_transactions().handed(3, 0, 3, 13)


def _pipe() -> History:
    """Of messages 0 to 2 the group made one each, as producer 1's."""
    history = _two_transactions()
    history.producers = [{"topic": "orders"}, {"topic": "made"}]
    history.topics.append({"name": "made"})
    history.subscriptions["billing"] = ["orders"]
    for seq in (0, 1):
        history.acked(1, seq, seq, topic="made").output(1, seq, seq)
    return history


def processed_twice() -> History:
    """There are two of message 1, one of message 2, and one that was aborted."""
    history = (
        _pipe().acked(1, 2, 2, topic="made").output(1, 2, 2).acked(1, 3, 3, topic="made").output(1, 3, 1)
    )
    history.sent(1, 4, 4, topic="made").stored(4, 1, 4, topic="made", visible=False).output(1, 4, 0)
    return history.transaction(0, 4, 4, "aborted", producer=1)


def unprocessed() -> History:
    """What was made of message 2 is aborted."""
    history = _pipe().sent(1, 2, 2, topic="made").stored(2, 1, 2, topic="made", visible=False).output(1, 2, 2)
    return history.transaction(0, 2, 2, "aborted", producer=1)


# The history, the exact count of every anomaly that it shows, and the story of the first of them.
CASES = {
    "lost": (
        lost,
        {"lost": 1, "inconsistent-offset": 1},
        "producer 0's message 1 was acknowledged at 22:13:20.002 as orders/0 offset 1 under epoch 0; "
        "epoch 1 began there 498 ms later at offset 1, and offset 1 now holds producer 0's message 2",
    ),
    "duplicate": (
        duplicate,
        {"duplicate": 1},
        "producer 0's message 1 is stored 2 times, first as orders/0 offset 1",
    ),
    "lost-in-store": (
        lost_in_store,
        {"lost-in-store": 1},
        "producer 0's message 2 was kept by a store, and neither a store nor orders has it",
    ),
    "recovered": (
        recovered,
        {"recovered": 1},
        "producer 0's message 1 was given up by its producer (_MSG_TIMED_OUT), "
        "yet is stored as orders/0 offset 1",
    ),
    "ghost": (
        ghost,
        {"ghost": 1},
        "producer 0's message 1 was definitely refused (no error given), yet is stored as orders/0 offset 1",
    ),
    "phantom": (
        phantom,
        {"phantom": 1},
        "orders/0 offset 2 holds producer 0's message 8,123, which was never sent in this run",
    ),
    "corrupt": (
        corrupt,
        {"corrupt": 1},
        "the record at orders/0 offset 3 is damaged: its checksum does not match, so its producer is unknown",
    ),
    "reordered": (
        reordered,
        {"reordered": 1},
        "producer 0's message 0 is at orders/0 offset 1, after message 1 of the same producer",
    ),
    "inconsistent-offset": (
        inconsistent_offset,
        {"lost": 1, "inconsistent-offset": 1},
        "orders/0 offset 1 was assigned to producer 0's message 1 and to producer 0's message 2",
    ),
    "unseen": (
        unseen,
        {"unseen": 1},
        "producer 0's message 2 is stored as orders/0 offset 2 and was never delivered to the group",
    ),
    "redelivered": (
        redelivered,
        {"redelivered": 1},
        "orders/0 offset 1 was delivered 2 times",
    ),
    "poll-skip": (
        poll_skip,
        {"poll-skip": 1},
        "member m1 received orders/0 offset 2 at 22:13:20.011, right after offset 0, "
        "past records stored between",
    ),
    "nonmonotonic-poll": (
        nonmonotonic_poll,
        {"nonmonotonic-poll": 1, "redelivered": 1},
        "member m1 received orders/0 offset 0 at 22:13:20.013, after it had already received offset 2",
    ),
    "commit-ahead": (
        commit_ahead,
        {"commit-ahead": 1},
        "member m1 committed orders/0 offset 3 at 22:13:20.012, "
        "when offset 2 had not been delivered to the group",
    ),
    "unassigned-delivery": (
        unassigned_delivery,
        {"unassigned-delivery": 1},
        "member m1 received orders/0 offset 2 while the partition was not assigned to it",
    ),
    "vanished": (
        vanished,
        {"vanished": 1},
        "producer 0's message 1 was delivered as orders/0 offset 1 at 22:13:20.011, "
        "and is stored nowhere any more",
    ),
    "double-accept": (
        double_accept,
        {"double-accept": 1},
        "orders/0 offset 2 was accepted 2 times, the first time confirmed at 22:13:20.021",
    ),
    "delivered-after-accept": (
        delivered_after_accept,
        {"delivered-after-accept": 1},
        "member m2 received orders/0 offset 2 at 22:13:20.020, although its accept had been confirmed at "
        "22:13:20.013",
    ),
    "over-delivered": (
        over_delivered,
        {"over-delivered": 1},
        "orders/0 offset 2 was delivered with delivery count 6, above the limit of 5",
    ),
    "lost-release": (
        lost_release,
        {"lost-release": 1},
        "member m1 received orders/0 offset 2 at 22:13:20.012 with delivery count 1 (the limit is 5), "
        "neither accepted nor rejected it, and nobody received it again",
    ),
    "torn-transaction": (
        torn_transaction,
        {"torn-transaction": 1},
        "transaction 3 of producer 0 was aborted, yet its message 4 is stored",
    ),
    "lost-commit": (
        lost_commit,
        {"lost-commit": 1, "lost": 2},
        "transaction 3 of producer 0 was committed, but none of its messages (from 4 on) is visible",
    ),
    "hanging-transaction": (
        hanging_transaction,
        {"hanging-transaction": 1},
        "the last stable offset stalled at orders/0 offset 2 for 90.0 s from 22:13:20.200 on, "
        "behind producer 0's message 2",
    ),
    "aborted-read": (
        aborted_read,
        {"aborted-read": 1},
        "producer 0's message 3 was delivered to the group (orders/0 offset 3), though its transaction was "
        "aborted",
    ),
    "processed-twice": (
        processed_twice,
        {"processed-twice": 1},
        "producer 0's message 1, the input at orders/0 offset 1, has 2 outputs",
    ),
    "unprocessed": (
        unprocessed,
        {"unprocessed": 1},
        "producer 0's message 2, the input at orders/0 offset 2, has no output",
    ),
    "removed": (
        removed,
        {"removed": 1},
        "producer 0's message 0 was acknowledged at 22:13:20.001 as orders/0 offset 0; a later message with "
        "the same key is stored",
    ),
}


def _judge(history: History, path: Path, played: InProcess) -> Findings:
    return analyse(check(history.read_to_end().write(path)), played)


def test_every_anomaly_has_its_history() -> None:
    """No anomaly of the vocabulary is without a history that shows it, those of mirrors in
    fakes/mirror_histories.py.
    """
    assert set(CASES) == set(ANOMALIES) - OF_MIRRORS


@pytest.mark.parametrize("name", CASES)
def test_history_shows_its_anomaly(name: str, tmp_path: Path, played: InProcess) -> None:
    """The history shows the anomaly, exactly so often, with its story, and nothing else."""
    history, counts, story = CASES[name]
    findings = _judge(history(), tmp_path, played)
    assert {a.name: a.count for a in findings.anomalies if a.count} == counts
    assert findings.anomaly(name)[0].examples[0].story.startswith(story)
    assert sum(f.count for f in findings.fates) == findings.totals.sent


def test_clean_history_has_no_anomalies(tmp_path: Path, played: InProcess) -> None:
    """A run in which nothing happened is held, with a zero for every anomaly."""
    history = _group().handed(0, 0, 0, 10).handed(1, 0, 1, 11).handed(2, 0, 2, 12).event("committed", 13, 3)
    findings = _judge(history, tmp_path, played)
    assert findings.verdict == "held", findings.reasons
    assert [(a.name, a.count) for a in findings.anomalies] == [(name, 0) for name in ANOMALIES]
    assert findings.latency_ms.ack.max == 1.0
    assert findings.latency_ms.end_to_end.max == 10.0
    assert findings.groups[0].delivered_messages == 3
    assert findings.high_watermark_arithmetic.difference == 0


def test_unread_is_not_lost(tmp_path: Path, played: InProcess) -> None:
    """What is not found in a partition that was not read to its end is not lost: inconclusive."""
    history = (
        _clean().sent(0, 2, 2).add("end_offsets", topic="orders", partition=0, end_offset=3, drained_to=2)
    )
    findings = analyse(check(history.write(tmp_path)), played)
    assert findings.verdict == "inconclusive"
    assert (findings.totals.unread, findings.anomaly("lost")[0].count) == (1, 0)


def test_recording_without_log_is_unread(tmp_path: Path, played: InProcess) -> None:
    """A run that ended before its log was read is judged by what is known."""
    history = History(state="recording").sent(0, 0, 0).sent(0, 1, None, "unknown")
    folder = history.write(tmp_path)
    next(folder.table("log").glob("*.parquet")).unlink()
    findings = analyse(check(folder), played)
    assert findings.verdict == "inconclusive"
    assert findings.totals.unread == 2


def test_missing_scenario_is_inconclusive(tmp_path: Path, played: InProcess) -> None:
    """Without scenario.yaml the counts hold, and there is no verdict on promises."""
    folder = lost().read_to_end().write(tmp_path)
    folder.scenario_path.unlink()
    findings = analyse(check(folder), played)
    assert findings.verdict == "inconclusive"
    assert findings.anomaly("lost")[0].count == 1
