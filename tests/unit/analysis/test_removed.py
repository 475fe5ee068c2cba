"""Messages that are gone because of a setting: compaction and retention. The oracle says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History
from fakes.judging import counts, findings_in
from fakes.oracle import Oracle
from fakes.oracle_causes import Causes
from kaput.evidence.findings import Findings


def _judged(history: History, path: Path) -> Findings:
    """Judges it, and compares the counts with the oracle's."""
    found = findings_in(history.write(path))
    oracle = Oracle(history)
    Causes(oracle)
    for name in ("lost", "removed"):
        assert (name, found.anomaly(name)[0].count) == (name, oracle.run_counts()[name])
    assert sum(fate.count for fate in found.fates) == found.totals.sent
    return found


def _compacted(key: Any, missing: set[int], sent: int = 6, **producer: Any) -> History:
    history = History(producers=[{"topic": "orders", "acks": "all", "key": key} | producer])
    history.topics[0]["config"] = {"cleanup.policy": "compact"}
    for seq in range(sent):
        history.sent(0, seq, seq)
        if seq not in missing:
            history.stored(seq, 0, seq)
    return history.led(1, 0, -5, [1]).read_to_end()


@pytest.mark.parametrize(
    ("key", "missing", "removed", "lost", "verdict"),
    [
        (2, {0, 1, 2, 3}, 4, 0, "held"),  # the last message of each key is there
        (2, {0, 2}, 2, 0, "held"),
        ("producer", {0, 1, 2, 3, 4}, 5, 0, "held"),
        (3, {3}, 0, 1, "violated"),  # 3 is the last of its key, and not the last of the log
        (3, {0, 3}, 0, 2, "violated"),  # 3 may have taken the place of 0 before
        ("seq", {1}, 0, 1, "violated"),  # no other message has its key
    ],
)
def test_messages_with_a_later_one_of_their_key_are_removed(
    key: Any, missing: set[int], removed: int, lost: int, verdict: str, tmp_path: Path
) -> None:
    """Neither lost nor in doubt; the last message of a key is never removed by compaction."""
    found = _judged(_compacted(key, missing), tmp_path)
    assert (counts(found).get("removed", 0), counts(found).get("lost", 0)) == (removed, lost)
    assert found.verdict == verdict, found.reasons
    if removed:
        anomaly = found.anomaly("removed")[0]
        assert (anomaly.permitted, anomaly.causes) == (removed, {"compaction": removed})
        assert "a later message with the same key is stored" in anomaly.examples[0].story
        assert "every acknowledged message is stored" not in " ".join(found.reasons)


def test_keys_are_the_same_whoever_sends_them(tmp_path: Path) -> None:
    """Producer 1, with the same two keys, has stored the last message of key 0."""
    history = _compacted(2, {4}, count=2)
    history.rows["end_offsets"].clear()
    found = _judged(history.acked(1, 2, 6).read_to_end(), tmp_path)
    assert (found.verdict, counts(found)) == ("held", {"removed": 1})


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_hole_is_excused_by_compaction_only_where_the_topic_is_compacted(
    policy: str, tmp_path: Path
) -> None:
    """With the policy delete, a hole in the middle is a loss."""
    history = _compacted(2, {2})
    history.topics[0]["config"] = {"cleanup.policy": policy}
    assert _judged(history, tmp_path).verdict == ("held" if policy == "compact" else "violated")


def test_what_a_leader_overwrote_was_not_compacted(tmp_path: Path) -> None:
    """Message 2 was acknowledged by broker 1 alone, and epoch 1 begins at its offset."""
    history = History(producers=[{"topic": "orders", "acks": 1, "key": 1}])
    history.topics[0]["config"] = {"cleanup.policy": "compact"}
    history.led(1, 0, -5, [1, 2]).led(2, 1, 50, [2]).sent(0, 2, 2).stored(3, 0, 3, leader_epoch=1)
    history.sent(0, 3, 3).stored(2, None, None, leader_epoch=1).read_to_end()
    found = _judged(history, tmp_path)
    assert found.anomaly("lost")[0].causes == {"deposed-leader": 1}
    assert "removed" not in counts(found)


def _retained(start: int | None, delivered: int, **config: Any) -> History:
    """Of six messages the first two are gone; so many were delivered before."""
    history = History(groups={"billing": True}, blocks={"billing": {}})
    history.topics[0]["config"] = config
    for seq in range(6):
        history.sent(0, seq, seq)
        if seq > 1:
            history.stored(seq, 0, seq)
        if seq > 1 or seq < delivered:
            history.handed(seq, 0, seq, 10 + seq)
    where = {"topic": "orders", "partition": 0, "end_offset": 6, "drained_to": 6, "start_offset": start}
    return history.led(1, 0, -5, [1]).event("assigned", 0, 0).add("end_offsets", **where)


SHORT = {"retention.ms": 1000}


@pytest.mark.parametrize(
    ("start", "config", "delivered", "removed", "verdict"),
    [
        (2, SHORT, 2, 2, "held"),
        (2, {}, 2, 2, "held"),  # something removed them: they were there
        (None, SHORT, 2, 2, "held"),  # the log's first record tells where it begins
        (None, {}, 2, 0, "violated"),  # nothing removes records there
        (0, SHORT, 2, 0, "violated"),  # nothing was removed
        (2, SHORT, 1, 1, "inconclusive"),  # whether message 1 was ever there is not known
        (2, SHORT, 0, 0, "inconclusive"),
    ],
)
def test_retention_removes_what_is_known_to_have_been_there(
    start: int | None, config: dict[str, Any], delivered: int, removed: int, verdict: str, tmp_path: Path
) -> None:
    """What was delivered before is removed, and the group's deliveries are permitted as vanished."""
    found = _judged(_retained(start, delivered, **config), tmp_path)
    assert (counts(found).get("removed", 0), counts(found).get("lost", 0)) == (removed, 2 - removed)
    assert found.verdict == verdict, found.reasons
    vanished = found.anomaly("vanished")[0]
    assert vanished.count == delivered
    assert vanished.permitted == removed
