"""Topics that a step of the timeline deleted and created again: offsets count from 0 once more."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.judging import findings_in
from fakes.mirror_histories import HERE, THERE, two_clusters
from fakes.oracle import Oracle
from fakes.oracle_causes import Causes
from fakes.oracle_consequences import Consequences
from kaput.evidence.findings import Findings
from kaput.report.run_report import to_text

_OLD, _NEW = range(3), range(3, 8)


def _history(copied: Collection[int], stored: Collection[int] = _NEW, bit: bool = True) -> History:
    """Messages 0 to 2 were at offsets 0 to 2 of the old topic, and 3 to 7 are at 0 to 4 of the new one, but
    for those that it does not have.
    """
    history = two_clusters()
    for seq in _OLD:
        history.sent(0, seq, seq, **HERE)
    for seq in _NEW:
        history.sent(0, seq, seq - 3, attempt_ns=at(20 + seq), done_ns=at(21 + seq), **HERE)
    for seq in stored:
        history.stored(seq - 3, 0, seq, **HERE)
    for offset, seq in enumerate(copied):
        history.stored(offset, 0, seq, **THERE)
    history.led(1, 0, 0, [1], **HERE).led(1, 0, 20, [1], **HERE)
    history.deleted("dc1:orders", 20, fault="recreate", bit=bit)
    history.drained = {"dc1->dc2": True}
    return history


def _judged(history: History, path: Path) -> Findings:
    return _judged_as_it_is(history.read_to_end(), path)


def _judged_as_it_is(history: History, path: Path) -> Findings:
    return findings_in(history.write(path))


def _counts(findings: Findings) -> dict[str, tuple[int, int]]:
    """Of each anomaly, how many there are and how many are permitted."""
    return {a.name: (a.count, a.permitted) for a in findings.anomalies if a.count}


def test_losses_of_a_recreated_topic_are_permitted(tmp_path: Path) -> None:
    """The mirror had copied all of it; it goes on at offset 3 of the new one."""
    findings = _judged(_history([0, 1, 2, 6, 7]), tmp_path)
    expected = {"lost": (3, 3), "removed": (3, 3), "inconsistent-offset": (3, 3), "unmirrored": (3, 3)}
    assert _counts(findings) == expected
    assert findings.verdict == "held", findings.reasons
    assert findings.mirrors[0].causes == {"recreated": 3}
    assert findings.anomaly("lost")[0].causes == {"deleted": 3}


def test_mirror_may_not_skip_records_of_the_new_topic(tmp_path: Path) -> None:
    """Message 6 is at offset 3."""
    findings = _judged(_history([0, 1, 2, 7]), tmp_path)
    assert findings.mirrors[0].causes == {"recreated": 3, "unexplained": 1}
    assert findings.verdict == "violated"


def test_unobserved_record_of_the_old_topic_is_inconclusive(tmp_path: Path) -> None:
    """The mirror had not copied message 2 yet, and goes on at offset 2."""
    findings = _judged(_history([0, 1, 5, 6, 7]), tmp_path)
    expected = {"lost": (3, 2), "removed": (2, 2), "inconsistent-offset": (3, 3), "unmirrored": (3, 3)}
    assert _counts(findings) == expected
    assert findings.mirrors[0].causes == {"deleted": 1, "recreated": 2}
    assert findings.verdict == "inconclusive", findings.reasons


def test_delayed_ack_of_the_old_topic_is_permitted(tmp_path: Path) -> None:
    """It was paused when message 2 had been stored in the old topic, until there was the new one."""
    history = _history([0, 1, 2, 6, 7])
    history.rows["sends"][2]["done_ns"] = at(22)
    findings = _judged(history, tmp_path)
    assert findings.verdict == "held", findings.reasons
    assert findings.mirrors[0].causes == {"recreated": 3}


def test_loss_from_the_new_topic_is_a_violation(tmp_path: Path) -> None:
    findings = _judged(_history([0, 1, 2, 6], stored=range(3, 7)), tmp_path)
    assert _counts(findings)["lost"] == (4, 3)
    assert findings.verdict == "violated"
    assert findings.anomaly("lost")[0].causes == {"deleted": 3, "unexplained": 1}


def test_unproven_recreation_excuses_nothing(tmp_path: Path) -> None:
    """The topic may have been the same all the time."""
    findings = _judged(_history([0, 1, 2, 6, 7], bit=False), tmp_path)
    assert {permitted for _, permitted in _counts(findings).values()} == {0}
    assert findings.verdict == "violated"


def _read_by_a_group(*handed: int) -> History:
    """A group read and committed messages 0 to 2 of the old topic; `handed`: messages that its member was
    handed from the new one, which has 3 to 7 at offsets 0 to 4.
    """
    history = History(groups={"billing": True})
    for seq in _OLD:
        history.sent(0, seq, seq).handed(seq, 0, seq, 10 + seq)
    history.event("assigned", 9, 0).event("committed", 14, 3).deleted("orders", 20, fault="recreate")
    for seq in _NEW:
        history.acked(0, seq, seq - 3, attempt_ns=at(20 + seq), done_ns=at(21 + seq))
    for seq in handed:
        history.handed(seq - 3, 0, seq, 30 + seq)
    return history.event("committed", 50, 5).read_to_end()


def test_unread_beginning_of_a_recreated_topic_is_unseen(tmp_path: Path) -> None:
    """The group's offset in the old topic is still there: it goes on at offset 3 of the new one."""
    history = _read_by_a_group(6, 7)
    findings = _judged(history, tmp_path)
    removed = dict.fromkeys(("lost", "removed", "inconsistent-offset", "vanished"), (3, 3))
    assert _counts(findings) == removed | {"unseen": (3, 0), "commit-ahead": (1, 0)}
    assert findings.verdict == "violated"
    assert len(Oracle(history).unseen("billing")) == 3


def test_offsets_of_a_recreated_topic_are_no_redelivery(tmp_path: Path) -> None:
    """The same member goes back from offset 2 of the old topic to offset 0 of the new one."""
    history = _read_by_a_group(*_NEW)
    findings = _judged(history, tmp_path)
    removed = dict.fromkeys(("lost", "removed", "inconsistent-offset", "vanished"), (3, 3))
    assert _counts(findings) == removed and findings.verdict == "held", findings.reasons
    oracle = Oracle(history)
    assert not any(oracle.odd_steps("billing").values()) and not oracle.redelivered_after_commit("billing")


def test_offset_of_an_unacknowledged_message_of_the_old_topic_is_permitted(tmp_path: Path) -> None:
    """Only its delivery shows that message 2 was at offset 2."""
    history = _read_by_a_group(*_NEW)
    history.rows["sends"][2].update(outcome="unknown", offset=None)
    findings = _judged(history, tmp_path)
    assert _counts(findings)["inconsistent-offset"] == (3, 3)
    assert findings.verdict == "held", findings.reasons


@pytest.mark.parametrize("acks", ["all", pytest.param("1", marks=pytest.mark.long)])
@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [("acked", "acked"), ("acked delivered", "acked delivered"), ("acked", "unknown delivered"),
     ("unknown delivered", "acked"), ("unknown delivered", "unknown delivered"),
     ("unknown thawed", "acked")],
)  # fmt: skip
def test_offset_of_the_old_topic_is_permitted_whether_the_new_one_was_read_to_its_end_or_not(
    old: str, new: str, read: bool, acks: str, tmp_path: Path
) -> None:
    """One message of either topic was at offset 0; a frozen member may show late what it had fetched."""
    history = History(groups={"billing": True}, producers=[{"topic": "orders", "acks": acks}])
    history.event("assigned", 9, 0).deleted("orders", 20, fault="recreate")
    for seq, (fate, ms) in enumerate(((old, 10), (new, 30))):
        offset = 0 if "acked" in fate else None
        history.sent(0, seq, offset, fate.split()[0], attempt_ns=at(ms), done_ns=at(ms + 1))
        if "delivered" in fate or "thawed" in fate:
            history.handed(0, 0, seq, ms + (50 if "thawed" in fate else 2))
    if read:
        history.stored(0, 0, 1)
    history.add("end_offsets", topic="orders", partition=0, end_offset=1, drained_to=int(read))
    assert _counts(_judged_as_it_is(history, tmp_path))["inconsistent-offset"] == (1, 1)
    oracle = Oracle(history)
    assert Consequences(oracle, Causes(oracle)).of_run()["inconsistent-offset"] == 1


def test_position_in_the_old_topic_may_be_committed_after_it_is_gone(tmp_path: Path) -> None:
    """Its member does not know yet, and is handed the new one from its beginning."""
    history = _read_by_a_group(*_NEW).event("committed", 25, 3)
    findings = _judged(history, tmp_path)
    removed = dict.fromkeys(("lost", "removed", "inconsistent-offset", "vanished"), (3, 3))
    assert _counts(findings) == removed and findings.verdict == "held", findings.reasons
    assert not Oracle(history).group_counts("billing")["commit-ahead"]


def test_redelivery_within_a_recreated_topic_counts(tmp_path: Path) -> None:
    """Message 4 of the new topic was handed out twice."""
    history = _read_by_a_group(*_NEW)
    history.handed(1, 0, 4, 45)
    counts = _counts(_judged(history, tmp_path))
    assert {name: counts[name] for name in ("redelivered", "nonmonotonic-poll")} == {
        "redelivered": (1, 1), "nonmonotonic-poll": (1, 0)
    }  # fmt: skip


def test_no_epoch_of_the_new_topic_overwrote_the_old_one(tmp_path: Path) -> None:
    """The leader moved to broker 2 before, without a loss; the new topic begins with epoch 0 at broker 1,
    which is no change of leader either.
    """
    history = _read_by_a_group(*_NEW)
    history.led(1, 0, 0, [1, 2]).led(2, 1, 15, [1, 2]).led(1, 0, 21, [1, 2])
    for seq in range(8, 10):  # more than the new topic has, acknowledged by the second leader of the old one
        history.sent(0, seq, seq - 3, attempt_ns=at(16), done_ns=at(17)).handed(seq - 3, 0, seq, 18)
    findings = _judged(history, tmp_path)
    assert findings.verdict == "held", findings.reasons
    assert findings.anomaly("lost")[0].causes == {"deleted": 5}
    assert findings.anomaly("vanished")[0].causes == {"deleted": 5}
    (moved,) = findings.leader_changes
    assert (moved.leader, moved.lost, moved.deposed_acks) == (2, 0, 0)
    stories = [example.story for example in findings.anomaly("lost")[0].examples]
    assert all("a step of the timeline deleted its topic" in story for story in stories), stories


def _deleted_for_good(stored_again: bool = False) -> History:
    """Messages 0 to 2 were read in time; 3 to 7 failed, or are in a topic that a client had created."""
    history = History(groups={"billing": True}).led(1, 0, 0, [1])
    for seq in _OLD:
        history.sent(0, seq, seq).handed(seq, 0, seq, 10 + seq)
    history.event("assigned", 9, 0).event("committed", 14, 3).deleted("orders", 20, fault="delete-topic")
    for seq in _NEW:
        if stored_again:
            history.acked(0, seq, seq - 3, attempt_ns=at(20 + seq), done_ns=at(21 + seq))
            history.handed(seq - 3, 0, seq, 30 + seq)
        else:
            history.sent(0, seq, None, outcome="unknown", attempt_ns=at(20 + seq), done_ns=at(3000 + seq))
    if stored_again:
        history.led(1, 0, 22, [1])
    return history.read_to_end()


def test_messages_of_a_topic_deleted_for_good_are_removed_as_configured(tmp_path: Path) -> None:
    findings = _judged(_deleted_for_good(), tmp_path)
    assert _counts(findings) == dict.fromkeys(("lost", "removed", "vanished"), (3, 3))
    assert findings.verdict == "held", findings.reasons
    before, *_, after = findings.partition_tables
    assert [one.deleted for table in (before, after) for one in table.partitions] == [False, True]
    causes = [one.why or "" for one in findings.claims if one.kind == "cause"]
    assert causes and causes[-1].endswith("its topic was deleted for good")


@pytest.mark.parametrize(
    ("done_ms", "leaders", "acks", "removed"),
    [(19, "two", "all", False), (20, "two", "all", True), (24, "two", "all", True),
     (25, "two", "all", False), (19, "one", "all", True), (25, "one", "all", False),
     (19, "polled", "all", False), (19, "one", "0", False)],
)  # fmt: skip
def test_message_acknowledged_before_its_topic_was_deleted_was_there(
    done_ms: int, leaders: str, acks: str, removed: bool, tmp_path: Path
) -> None:
    """No group had read it. Of an acknowledgement before the step it is known if there was one leader only,
    by the cluster's own record, and it was the leader's; one that came after it may be of another topic of
    that name.
    """
    history = History(groups={"billing": True}, producers=[{"topic": "orders", "acks": acks}])
    history.led(1, 0, 0, [1], within_ns=at(1) - at(0) if leaders == "polled" else None)
    history.sent(0, 0, 0).handed(0, 0, 0, 10)
    if leaders == "two":
        history.led(2, 1, 12, [1, 2])
    history.sent(0, 1, 1, attempt_ns=at(15), done_ns=at(done_ms)).event("assigned", 9, 0)
    times = {"injected_ns": at(20), "effective_ns": at(24.5), "healed_ns": at(24.5)}
    history.deleted("orders", 24.5, fault="delete-topic", **times)
    findings = _judged(history.read_to_end(), tmp_path)
    assert findings.anomaly("removed")[0].count == 1 + removed
    if leaders != "polled":  # which the oracle does not know
        assert Causes(Oracle(history)).deleted_by_step(history.rows["sends"][1]) == removed
    assert findings.verdict == ("held" if removed or acks == "0" else "inconclusive"), findings.reasons


def test_silence_of_a_deleted_topic_ends_with_the_leader_of_the_one_that_a_client_had_created(
    tmp_path: Path,
) -> None:
    """No heal ended it: the step ended when the topic was gone, and its length is not for the step to say."""
    history = History(groups={"billing": True}).led(1, 0, 0, [1])
    for seq in _OLD:
        history.sent(0, seq, seq).handed(seq, 0, seq, 10 + seq)
    history.event("assigned", 9, 0).event("committed", 14, 3).deleted("orders", 20, fault="delete-topic")
    for seq in _NEW:
        history.acked(0, seq, seq - 3, attempt_ns=at(30 + seq), done_ns=at(5200 + seq))
        history.handed(seq - 3, 0, seq, 5300 + seq)
    findings = _judged(history.led(1, 0, 5000, [1]).read_to_end(), tmp_path)
    waits = [[one.condition for one in claim.waited_for] for claim in findings.standstills]
    assert waits and all(one[:1] == ["election"] and "heal" not in one for one in waits), waits
    text = to_text(findings, tmp_path).plain
    assert "until the heal" not in text and "longer fault" not in text


def test_topic_that_a_client_had_created_again_is_another_one(tmp_path: Path) -> None:
    findings = _judged(_deleted_for_good(stored_again=True), tmp_path)
    assert _counts(findings)["lost"] == (3, 3)
    assert findings.verdict == "held", findings.reasons
    assert [one.deleted for one in findings.partition_tables[-1].partitions] == [False]
