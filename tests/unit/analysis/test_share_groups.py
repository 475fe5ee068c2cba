"""What share groups did, judged on histories of a few events: what is an anomaly, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.histories import History
from fakes.judging import judged

Case = Callable[[History], History]


def queue(drained: bool = True, **config: int) -> History:
    """One message, and a share group."""
    block = {"type": "share", "group-config": config}
    return History(groups={"billing": drained}, blocks={"billing": block}).acked(0, 0, 0)


def counts(history: History, path: Path) -> dict[str, int]:
    """Every anomaly that there is."""
    return {a.name: a.count for a in judged(history, path).anomalies if a.count}


INNOCENT: dict[str, Case] = {
    "accepted": lambda h: h.shared("acquired", 0, 1, 1).shared("accepting", 0, 2).shared("accepted", 0, 3),
    "rejected": lambda h: h.shared("acquired", 0, 1, 1).shared("rejected", 0, 2),
    "released, and handed out again": lambda h: (
        h.shared("acquired", 0, 1, 1)
        .shared("released", 0, 2)
        .shared("acquired", 0, 3, 2, member="m2")
        .shared("accepted", 0, 4, member="m2")
    ),
    "its member died, and it was handed out again": lambda h: (
        h.shared("acquired", 0, 1, 1).shared("acquired", 0, 3, 1).shared("accepted", 0, 4)
    ),
    "a late accept was refused": lambda h: (
        h.shared("acquired", 0, 1, 1)
        .shared("acquired", 0, 3, 2, member="m2")
        .shared("accepted", 0, 4, member="m2")
        .shared("accepting", 0, 5)
        .shared("failed", 0, 6)
    ),
    "given up at the limit": lambda h: h.shared("acquired", 0, 1, 5).shared("released", 0, 2),
    "an accept that nobody answered": lambda h: h.shared("acquired", 0, 1, 1).shared("accepting", 0, 2),
    "an accept that failed": lambda h: (
        h.shared("acquired", 0, 1, 1).shared("accepting", 0, 2).shared("failed", 0, 3)
    ),
    "accepted at the moment of its delivery": lambda h: h.shared("acquired", 0, 1, 1).shared(
        "accepted", 0, 1
    ),
    "handed out before another member's accept, and polled after it": lambda h: (
        h.shared("acquired", 0, 3, 2, member="m2")
        .shared("accepted", 0, 4, member="m2")
        .shared("acquired", 0, 5, 1)
        .shared("accepting", 0, 6)
        .shared("failed", 0, 7)
    ),
    "a count that was not told": lambda h: h.shared("acquired", 0, 1, None).shared("released", 0, 2),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_innocent_history_has_no_share_group_anomaly(name: str, tmp_path: Path) -> None:
    """Redelivery has reasons, and what may have been done is not called lost."""
    findings = judged(INNOCENT[name](queue()), tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {}
    assert findings.verdict == "held", findings.reasons


GUILTY: dict[str, tuple[str, Case]] = {
    "an earlier accept was asked for in vain": (
        "lost-release",
        lambda h: (
            h.shared("acquired", 0, 1, 1)
            .shared("accepting", 0, 2)
            .shared("failed", 0, 3)
            .shared("acquired", 0, 4, 2, member="m2")
        ),
    ),
    "its release failed": (
        "lost-release",
        lambda h: h.shared("acquired", 0, 1, 1).shared("releasing", 0, 2).shared("failed", 0, 3),
    ),
    "an earlier accept failed late": (
        "lost-release",
        lambda h: (
            h.shared("acquired", 0, 1, 1)
            .shared("accepting", 0, 2)
            .shared("acquired", 0, 3, 2, member="m2")
            .shared("failed", 0, 4)
        ),
    ),
    "asked to be released": (
        "lost-release",
        lambda h: h.shared("acquired", 0, 1, 1).shared("releasing", 0, 2),
    ),
    "held until the end": ("lost-release", lambda h: h.shared("acquired", 0, 1, 4)),
    "never handed out": ("unseen", lambda h: h),
    "accepted twice by the same member": (
        "double-accept",
        lambda h: h.shared("acquired", 0, 1, 1).shared("accepted", 0, 2).shared("accepted", 0, 2),
    ),
    "handed out after its accept, with the count of a new leader": (
        "delivered-after-accept",
        lambda h: (
            h.led(1, 0, -1_000, [1, 2])
            .shared("acquired", 0, 1, 2)
            .shared("accepted", 0, 2)
            .led(2, 1, 3, [2])
            .shared("acquired", 0, 4, 1, member="m2")
        ),
    ),
    "handed out after its accept": (
        "delivered-after-accept",
        lambda h: (
            h.led(1, 0, -1_000, [1, 2])
            .shared("acquired", 0, 1, 2)
            .shared("accepted", 0, 2)
            .shared("acquired", 0, 4, 3, member="m2")
        ),
    ),
    "delivered for the sixth time": (
        "over-delivered",
        lambda h: h.shared("acquired", 0, 1, 6).shared("accepted", 0, 2),
    ),
}


@pytest.mark.parametrize("name", GUILTY)
def test_history_shows_exactly_its_share_group_anomaly(name: str, tmp_path: Path) -> None:
    """And nothing else; the verdict is that a promise was broken."""
    anomaly, case = GUILTY[name]
    findings = judged(case(queue()), tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {anomaly: 1}
    assert findings.verdict == "violated"
    assert f"({anomaly})" in " ".join(findings.reasons)


def test_acquired_record_counts_as_delivered(tmp_path: Path) -> None:
    """Though its member did not live to record the delivery. Of another record nothing tells."""
    history = queue().acked(0, 1, 1).acked(0, 2, 2)
    history.shared("acquired", 0, 1, 1).shared("accepted", 0, 2)
    history.shared("acquired", 1, 1, 5)
    history.rows["deliveries"].pop()
    findings = judged(history, tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {"unseen": 1}
    (unseen,) = findings.anomaly("unseen")
    assert [example.seq for example in unseen.examples] == [2]
    assert findings.groups[0].delivered_messages == 1


def killed(member: str, ms: float, history: History) -> History:
    """A member of the group is killed."""
    return history.event("killed", ms, member=member, topic=None, partition=None)


UNNOTICED: dict[str, Case] = {
    "another member was killed after it was released": lambda h: killed(
        "m2", 3, h.shared("acquired", 0, 1, 4).shared("releasing", 0, 2)
    ),
    "another one after its member had died": lambda h: killed(
        "m2", 3, killed("m1", 2, h.shared("acquired", 0, 1, 4))
    ),
    "another one after its lock had timed out": lambda h: killed("m2", 30_001, h.shared("acquired", 0, 1, 4)),
    "the same member after it had released it": lambda h: killed(
        "m1", 3, h.shared("acquired", 0, 1, 4).shared("releasing", 0, 2).shared("released", 0, 3)
    ),
    "two members, two deliveries below the limit": lambda h: killed(
        "m2", 3, killed("m3", 3, h.shared("acquired", 0, 1, 3).shared("releasing", 0, 2))
    ),
}
NOTICED: dict[str, Case] = {
    "the one that held it died, and no other": lambda h: killed("m1", 2, h.shared("acquired", 0, 1, 4)),
    "another one had been killed before it came back": lambda h: killed(
        "m2", 2, h.shared("acquired", 0, 1, 4).shared("releasing", 0, 3)
    ),
    "another one was killed while it was held": lambda h: killed("m2", 20_000, h.shared("acquired", 0, 1, 4)),
    "one member, two deliveries below the limit": lambda h: killed(
        "m2", 3, h.shared("acquired", 0, 1, 3).shared("releasing", 0, 2)
    ),
    "another one left in good order": lambda h: (
        h.shared("acquired", 0, 1, 4)
        .shared("releasing", 0, 2)
        .event("left", 3, member="m2", topic=None, partition=None)
    ),
}


@pytest.mark.parametrize("name", UNNOTICED)
def test_killed_member_may_hold_the_last_delivery(name: str, tmp_path: Path) -> None:
    """Before its poll returned, so that nobody recorded it: it cannot be known."""
    findings = judged(UNNOTICED[name](queue()), tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {}
    assert findings.verdict == "inconclusive"
    assert "may have been handed them once more" in " ".join(findings.reasons)


@pytest.mark.parametrize("name", NOTICED)
def test_killed_member_does_not_excuse_records_it_cannot_hold(name: str, tmp_path: Path) -> None:
    """Nor what would have been below the limit all the same."""
    findings = judged(NOTICED[name](queue()), tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {"lost-release": 1}
    assert findings.verdict == "violated"


def test_deliveries_without_share_events_are_inconclusive(tmp_path: Path) -> None:
    """What was accepted, or handed out in vain, nobody knows: inconclusive."""
    findings = judged(queue().handed(0, 0, 0, 5), tmp_path / "none")
    assert {a.name: a.count for a in findings.anomalies if a.count} == {}
    assert findings.verdict == "inconclusive"
    assert "group billing: records were delivered, and no share_events" in " ".join(findings.reasons).lower()
    history = queue().shared("acquired", 0, 1, 1).shared("accepted", 0, 2)
    assert judged(history, tmp_path / "some").verdict == "held"


def test_undrained_share_group_is_inconclusive(tmp_path: Path) -> None:
    """What is still to come is no loss: inconclusive."""
    findings = judged(queue(drained=False).shared("acquired", 0, 1, 1).shared("released", 0, 2), tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {}
    assert findings.verdict == "inconclusive"


def test_delivery_limit_of_the_group(tmp_path: Path) -> None:
    """A third delivery is beyond a limit of two, and a second is the last one."""
    history = queue(**{"share.delivery.count.limit": 2})
    history.shared("acquired", 0, 1, 2).shared("released", 0, 2)
    assert counts(history, tmp_path / "last") == {}
    history.shared("acquired", 0, 3, 3).shared("accepted", 0, 4)
    history.rows["end_offsets"].clear()
    assert counts(history, tmp_path / "over") == {"over-delivered": 1}


def test_delivery_limit_defaults_to_the_brokers(tmp_path: Path) -> None:
    history = queue().shared("acquired", 0, 1, 6).shared("accepted", 0, 2)
    history.cluster = {"config": {"group.share.delivery.count.limit": 6}}
    assert counts(history, tmp_path) == {}


def test_unstored_record_is_not_judged(tmp_path: Path) -> None:
    """The anomalies are of stored records; of offset 7 the log knows nothing."""
    history = queue().shared("acquired", 0, 1, 1).shared("accepted", 0, 2)
    history.shared("acquired", 7, 1, 9).shared("accepted", 7, 2).shared("accepted", 7, 3)
    assert counts(history, tmp_path) == {}


def test_share_groups_have_no_ordering_guarantee(tmp_path: Path) -> None:
    """Steps back, jumps and redelivery in a share group, which another group next to it may not make."""
    history = History(groups={"audit": True, "billing": True}, blocks={"billing": {"type": "share"}})
    for seq in range(3):
        history.acked(0, seq, seq)
    for ms, offset in enumerate((2, 0, 2, 1)):
        history.shared("acquired", offset, 10 + ms, 1)
        history.handed(offset, 0, offset, 10 + ms, group="audit")
    for offset in range(3):
        history.shared("accepted", offset, 20)
    found = {(a.name, a.group): a.count for a in judged(history, tmp_path).anomalies if a.count}
    assert found == {
        ("nonmonotonic-poll", "audit"): 2,
        ("poll-skip", "audit"): 1,
        ("redelivered", "audit"): 1,
    }


def test_findings_list_share_events_per_member(tmp_path: Path) -> None:
    """By name, with what was confirmed, and the type of the group."""
    history = queue().shared("acquired", 0, 1, 1, member="m2").shared("released", 0, 2, member="m2")
    history.shared("acquired", 0, 3, 2).shared("accepting", 0, 4).shared("accepted", 0, 5)
    (group,) = judged(history, tmp_path).groups
    assert (group.type, group.delivered_messages) == ("share", 1)
    told = [(m.member, m.delivered, m.accepted, m.released, m.rejected, m.failed) for m in group.members]
    assert told == [("m1", 1, 1, 0, 0, 0), ("m2", 1, 0, 1, 0, 0)]


def test_evidence_without_share_events_has_classic_groups(tmp_path: Path) -> None:
    """Groups are classic, and of their members only deliveries are told."""
    history = History(groups={"billing": True}).acked(0, 0, 0).handed(0, 0, 0, 5)
    (group,) = judged(history, tmp_path).groups
    assert group.type == "classic"
    (member,) = group.members
    assert member.model_dump(exclude_defaults=True) == {"member": "m1", "delivered": 1}
