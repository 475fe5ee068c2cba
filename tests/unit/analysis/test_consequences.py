"""What follows from a message that was overwritten is ruled as its loss is: permitted, unclear or neither."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.evidence.findings import Findings

Case = Callable[[History], History]
SHARE = {"type": "share", "group-config": {"share.auto.offset.reset": "earliest"}}


def unclean(acks: Any = "all", allowed: bool = True, group: dict[str, Any] | None = None) -> History:
    """Messages 0 to 3 at offsets 0 to 3; at 100 ms broker 2 is elected from outside the ISR, and has 0 and 1
    alone; then messages 4 to 6 take offsets 2 to 4.
    """
    history = History(
        producers=[{"topic": "orders", "acks": acks}],
        topics=[
            {
                "name": "orders",
                "replication-factor": 2,
                "config": {"unclean.leader.election.enable": allowed},
            }
        ],
        groups={"billing": True},
        blocks={"billing": group or {}},
    )
    history.led(1, 0, 0, [1])
    for seq in range(4):
        history.sent(0, seq, None if acks == 0 else seq)
        if seq < 2:
            history.stored(seq, 0, seq)
    history.led(2, 1, 100, [2])
    for seq in (4, 5, 6):
        history.acked(0, seq, seq - 2, leader_epoch=1, attempt_ns=at(200 + seq), done_ns=at(201 + seq))
    return history


def handed(history: History, *pairs: tuple[int, int], ms: float, **more: Any) -> History:
    """Deliveries of (offset, seq), one ms apart."""
    for number, (offset, seq) in enumerate(pairs):
        history.handed(offset, 0, seq, ms + number, **more)
    return history


OLD = ((0, 0), (1, 1), (2, 2), (3, 3))
NEW = ((2, 4), (3, 5), (4, 6))


def found(findings: Findings) -> dict[str, tuple[int, int]]:
    """Every anomaly that there is, but for those that are losses: how many, and how many permitted."""
    own = ("lost", "vanished", "redelivered")
    return {a.name: (a.count, a.permitted) for a in findings.anomalies if a.count and a.name not in own}


def _assigned(history: History) -> History:
    return history.event("assigned", 0, 0)


def _went_back(history: History) -> History:
    """It reads on where the new log ends, from where it begins."""
    return handed(handed(_assigned(history), *OLD, ms=10), *NEW, ms=300)


def _from_the_start(history: History) -> History:
    """Its position is beyond the new log: it begins at offset 0 again."""
    return handed(handed(_assigned(history), *OLD, ms=10), (0, 0), (1, 1), *NEW, ms=300)


def _stayed(history: History) -> History:
    """It goes on at its offset, and never sees what took the place of the messages that it has read."""
    return handed(handed(_assigned(history), *OLD, ms=10), NEW[2], ms=300)


def _jumped(history: History) -> History:
    """Its position is beyond the new log: it goes to the end."""
    history.acked(0, 7, 5, leader_epoch=1, attempt_ns=at(250), done_ns=at(251))
    return handed(handed(_assigned(history), *OLD, ms=10), (5, 7), ms=300)


def _committed(history: History) -> History:
    """Another member begins behind the commit of the first, which is beyond the new log."""
    handed(_assigned(history), *OLD, ms=10).event("committed", 20, 4).event("revoked", 30)
    history.event("assigned", 290, 4, member="m2")
    return handed(history, (0, 0), (1, 1), *NEW, ms=300, member="m2")


EITHER = ("inconsistent-offset",)
BY_GROUPS: dict[str, tuple[Case, dict[str, int]]] = {
    "a poll goes back to what took the place": (_went_back, {"nonmonotonic-poll": 1}),
    "a poll goes back to the beginning": (_from_the_start, {"nonmonotonic-poll": 1}),
    "what took the place is never seen": (_stayed, {"unseen": 2}),
    "a poll jumps to the end": (_jumped, {"unseen": 3, "poll-skip": 1}),
    "delivered again after a commit": (_committed, {}),
}


@pytest.mark.parametrize("name", BY_GROUPS)
@pytest.mark.parametrize("allowed", [True, False])
def test_consumer_anomalies_after_an_unclean_election(name: str, allowed: bool, tmp_path: Path) -> None:
    """Permitted where unclean elections are, and only there."""
    change, expected = BY_GROUPS[name]
    findings = judged(change(unclean(allowed=allowed)), tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted) == (2, 2 * allowed)
    rest = {name: each for name, each in found(findings).items() if name not in EITHER}
    assert rest == {name: (n, n * allowed) for name, n in expected.items()}
    assert findings.verdict == ("held" if allowed else "violated"), findings.reasons
    again = findings.groups[0].redelivered_after_commit
    assert again == (4 if name == "delivered again after a commit" else 0)
    (twice,) = findings.anomaly("redelivered")
    assert twice.count - twice.permitted == (0 if allowed else again)


def test_anomaly_not_explained_by_the_election_is_a_violation(tmp_path: Path) -> None:
    """Polls that go back before the election, or within what it left alone."""
    early = handed(_assigned(unclean()), (0, 0), (1, 1), (0, 0), (1, 1), (2, 2), (3, 3), ms=10)
    late = handed(early, *NEW, (2, 4), (3, 5), (4, 6), ms=300)
    findings = judged(late, tmp_path)
    assert found(findings)["nonmonotonic-poll"] == (3, 1)
    assert findings.verdict == "violated"


def test_consequence_of_an_unclear_loss_is_unclear(tmp_path: Path) -> None:
    """acks=1, and the events do not tell who led."""
    history = _went_back(unclean(acks=1, allowed=False))
    history.rows["cluster_events"].clear()
    findings = judged(history, tmp_path)
    assert found(findings)["nonmonotonic-poll"] == (1, 0)
    assert findings.verdict == "inconclusive", findings.reasons


@pytest.mark.parametrize(("allowed", "verdict"), [(True, "inconclusive"), (False, "violated")])
def test_ack_without_offset_may_be_lost_to_an_unclean_election(
    allowed: bool, verdict: str, tmp_path: Path
) -> None:
    """By an unclean election: where these are enabled it cannot be known."""
    history = unclean(allowed=allowed)
    history.groups, history.blocks = {}, {}
    for row in history.rows["sends"][2:4]:
        row["offset"] = None
    findings = judged(history, tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted, findings.verdict) == (2, 0, verdict), findings.reasons


@pytest.mark.parametrize("outcome", ["acks-0", "unknown"])
def test_overwritten_message_known_only_from_its_delivery(outcome: str, tmp_path: Path) -> None:
    """Of an offset with two messages: nobody was told of the first one's."""
    history = unclean(acks=0 if outcome == "acks-0" else "all")
    if outcome == "unknown":
        for row in history.rows["sends"][2:4]:
            row.update(outcome="unknown", offset=None)
    findings = judged(handed(handed(_assigned(history), *OLD, ms=10), *NEW, ms=300), tmp_path)
    assert found(findings)["inconsistent-offset"] == (2, 2)
    assert findings.verdict == "held", findings.reasons


def accepted(history: History, *pairs: tuple[int, int], ms: float, kind: str = "accepted") -> History:
    """The same, acquired by a member of a share group, and what it does with each."""
    for number, (offset, seq) in enumerate(pairs):
        who = {"group": "billing", "member": "m1", "topic": "orders", "partition": 0, "offset": offset}
        history.handed(offset, 0, seq, ms + number)
        history.add("share_events", kind="acquired", at_ns=at(ms + number), delivery_count=1, **who)
        history.add("share_events", kind=kind, at_ns=at(ms + number + 0.5), delivery_count=None, **who)
    return history


@pytest.mark.parametrize("allowed", [True, False])
def test_share_group_accepts_a_new_record_at_a_reused_offset(allowed: bool, tmp_path: Path) -> None:
    """Accepted twice, but two records: so it is delivered after an accept of the other one."""
    history = accepted(unclean(allowed=allowed, group=SHARE), *OLD, ms=10)
    findings = judged(accepted(history, *NEW, ms=300), tmp_path)
    names = ("double-accept", "delivered-after-accept")
    assert [found(findings).get(name) for name in names] == [(2, 2 * allowed)] * 2
    assert findings.verdict == ("held" if allowed else "violated"), findings.reasons


@pytest.mark.parametrize("allowed", [True, False])
def test_delivery_count_carries_over_to_a_reused_offset(allowed: bool, tmp_path: Path) -> None:
    """The record that took the place of another one goes on with its delivery count."""
    history = accepted(unclean(allowed=allowed, group=SHARE), *OLD[:2], ms=5)
    accepted(history, *OLD[2:], ms=10, kind="released")
    accepted(history, *NEW, ms=300)
    for row in history.rows["share_events"]:
        if row["kind"] == "acquired" and row["offset"] == 2:
            row["delivery_count"] = 5 if row["at_ns"] < at(100) else 6
    findings = judged(history, tmp_path)
    assert found(findings)["over-delivered"] == (1, int(allowed))
    assert findings.verdict == ("held" if allowed else "violated"), findings.reasons


def test_double_accept_of_a_surviving_record_is_a_violation(tmp_path: Path) -> None:
    """Below what the election took along nothing is excused."""
    history = accepted(unclean(group=SHARE), *OLD, ms=10)
    findings = judged(accepted(history, (1, 1), *NEW, ms=300), tmp_path)
    assert found(findings)["double-accept"] == (3, 2)
    assert findings.verdict == "violated"


def _transaction(outcome: str, allowed: bool = True) -> History:
    """Messages 0 to 3 are one transaction, of which 2 and 3 are overwritten."""
    history = unclean(allowed=allowed)
    return handed(_assigned(history.transaction(0, 0, 3, outcome)), (0, 0), (1, 1), *NEW, ms=300)


@pytest.mark.parametrize("outcome", ["committed", "unknown"])
@pytest.mark.parametrize("allowed", [True, False])
def test_torn_transaction_follows_from_lost_messages(outcome: str, allowed: bool, tmp_path: Path) -> None:
    """Its outcome known or not."""
    findings = judged(_transaction(outcome, allowed), tmp_path)
    assert found(findings)["torn-transaction"] == (1, int(allowed))
    assert findings.verdict == ("held" if allowed else "violated"), findings.reasons


def test_aborted_read_of_overwritten_messages_is_permitted(tmp_path: Path) -> None:
    """Messages of a transaction of unknown outcome were delivered before they were overwritten."""
    history = handed(_assigned(unclean().transaction(0, 2, 3, "unknown")), *OLD, ms=10)
    findings = judged(handed(history, *NEW, ms=300), tmp_path)
    assert found(findings)["aborted-read"] == (2, 2)
    assert findings.verdict == "held", findings.reasons


def test_aborted_read_of_surviving_messages_is_a_violation(tmp_path: Path) -> None:
    """The same in the part of the log that stayed: nothing explains it."""
    history = unclean().transaction(0, 0, 1, "unknown")
    for row in history.rows["log"][:2]:
        row["visible"] = False
    findings = judged(handed(_assigned(history), (0, 0), (1, 1), *NEW, ms=300), tmp_path)
    assert found(findings)["aborted-read"] == (2, 0)
    assert findings.verdict == "violated"


@pytest.mark.parametrize("allowed", [True, False])
def test_an_input_is_unprocessed_where_its_output_is_lost(allowed: bool, tmp_path: Path) -> None:
    """Outputs 2 and 3 of the pipe are overwritten; inputs 0 and 1 still have theirs."""
    history = unclean(allowed=allowed)
    history.topics.append({"name": "paid", "replication-factor": 1})
    history.producers.append({"topic": "paid", "acks": "all"})
    history.groups, history.subscriptions = {"pipe": True}, {"pipe": ["paid"]}
    history.blocks = {"pipe": {}}
    where = {"topic": "paid", "partition": 0}
    for seq in range(4):
        history.acked(1, seq, seq, **where).handed(seq, 1, seq, 10 + seq, group="pipe", **where)
        history.output(0, seq, seq, group="pipe", **where)
    findings = judged(history, tmp_path)
    assert found(findings)["unprocessed"] == (2, 2 * allowed)
    assert findings.verdict == ("held" if allowed else "violated"), findings.reasons


def test_step_back_before_the_election_is_a_violation(tmp_path: Path) -> None:
    """The message was overwritten later; the step back to what took its place is permitted."""
    again = handed(handed(_assigned(unclean()), *OLD, ms=10), *OLD[2:], ms=50)
    findings = judged(handed(again, *NEW, ms=300), tmp_path)
    assert found(findings)["nonmonotonic-poll"] == (2, 1)
    assert findings.verdict == "violated"


def test_redelivery_after_commit_before_the_election_is_a_violation(tmp_path: Path) -> None:
    """Though its offset is delivered behind that commit once more after the election, with good reason."""
    history = handed(_assigned(unclean()), *OLD, ms=10).event("committed", 20, 4).event("revoked", 30)
    history.event("assigned", 40, 4, member="m2")
    handed(history, (2, 2), ms=50, member="m2").event("revoked", 60, member="m2")
    history.event("assigned", 290, 4, member="m3")
    findings = judged(handed(history, (0, 0), (1, 1), *NEW, ms=300, member="m3"), tmp_path)
    (again,) = findings.anomaly("redelivered")
    assert (again.count, again.permitted, findings.groups[0].redelivered_after_commit) == (4, 3, 4)
    assert findings.verdict == "violated"


def test_double_accept_before_the_overwrite_is_a_violation(tmp_path: Path) -> None:
    """Message 2 was accepted twice before it was overwritten, message 3 once."""
    history = accepted(unclean(group=SHARE), *OLD, ms=10)
    who = {"group": "billing", "member": "m1", "topic": "orders", "partition": 0, "offset": 2}
    history.add("share_events", kind="accepted", at_ns=at(50), delivery_count=None, **who)
    findings = judged(accepted(history, *NEW, ms=300), tmp_path)
    assert found(findings)["double-accept"] == (2, 1)
    assert findings.verdict == "violated"


def test_a_new_record_that_is_handed_out_after_its_own_accept_is_a_violation(tmp_path: Path) -> None:
    """That another one stood there before does not matter."""
    history = accepted(unclean(group=SHARE), *OLD, ms=10)
    findings = judged(accepted(accepted(history, *NEW, ms=300), NEW[0], ms=400, kind="released"), tmp_path)
    assert found(findings)["delivered-after-accept"] == (2, 1)
    assert findings.verdict == "violated"


@pytest.mark.parametrize("both", [True, False])
def test_a_new_record_that_is_released_and_kept_is_a_lost_release(both: bool, tmp_path: Path) -> None:
    """The one before it was released, too, and had nowhere to go."""
    history = accepted(unclean(group=SHARE), *OLD[:2], ms=10)
    accepted(history, OLD[2], ms=20, kind="released")
    if both:
        accepted(history, NEW[0], ms=300, kind="released")
    findings = judged(accepted(history, *NEW[1:], ms=400), tmp_path)
    assert found(findings)["lost-release"] == (1, int(not both))
    assert findings.verdict == ("violated" if both else "held"), findings.reasons


def test_acked_message_of_an_aborted_transaction_is_no_conflict(tmp_path: Path) -> None:
    """Message 4 took offset 2, and its transaction was aborted: the log has it where it was acknowledged."""
    history = unclean().transaction(0, 4, 4, "aborted")
    history.rows["log"][2]["visible"] = False
    findings = judged(handed(handed(_assigned(history), *OLD, ms=10), *NEW[1:], ms=300), tmp_path)
    assert found(findings)["inconsistent-offset"] == (2, 2)
    assert findings.verdict == "held", findings.reasons


def test_each_input_is_ruled_by_its_own_outputs(tmp_path: Path) -> None:
    """Two outputs are overwritten, a third one is gone from a partition where nothing explains it."""
    history = unclean()
    history.topics[0]["partitions"] = 2
    history.topics.append({"name": "paid", "replication-factor": 1})
    history.producers.append({"topic": "paid", "acks": "all"})
    history.groups, history.subscriptions = {"pipe": True}, {"pipe": ["paid"]}
    where = {"topic": "paid", "partition": 0}
    history.led(1, 0, 0, [1], partition=1).sent(0, 7, 0, partition=1)
    for seq, output in enumerate((0, 1, 2, 3, 7)):
        history.acked(1, seq, seq, **where).handed(seq, 1, seq, 10 + seq, group="pipe", **where)
        history.output(0, output, seq, group="pipe", **where)
    findings = judged(history, tmp_path)
    assert found(findings)["unprocessed"] == (3, 2)
    assert findings.verdict == "violated"


def test_strongest_acks_decides_among_losses_of_one_cause(tmp_path: Path) -> None:
    """Offset 2 was acknowledged with acks=1 and with acks=all, offset 3 with acks=1."""
    history = unclean(acks=1, allowed=False)
    history.producers.append({"topic": "orders", "acks": "all"})
    findings = judged(history.sent(1, 0, 2), tmp_path)
    assert found(findings)["inconsistent-offset"] == (2, 1)


@pytest.mark.parametrize("within_ms", [300, 10])
def test_polled_election_may_precede_the_poll(within_ms: int, tmp_path: Path) -> None:
    """It was seen at 350 ms, and the member went back at 300 ms; acks=1."""
    history = _went_back(unclean(acks=1, allowed=False))
    history.rows["cluster_events"][1].update(at_ns=at(350), within_ns=within_ms * 1_000_000)
    findings = judged(history, tmp_path)
    assert found(findings)["nonmonotonic-poll"] == (1, int(within_ms == 300))
