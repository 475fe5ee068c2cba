"""Rulings that depend on where, when or why something happened: one small history for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History, at
from fakes.judging import counts, findings_in, judged
from fakes.mirror_histories import HERE, THERE, sent_and_mirrored, two_clusters
from kaput.evidence.findings import Findings
from kaput.scenario.model import Scenario, source_and_target


def violations(findings: Findings) -> dict[str, int]:
    """What was found and is not permitted."""
    return {a.name: a.count - a.permitted for a in findings.anomalies if a.count > a.permitted}


def _power_lost_in_dc2(flushed: str, **topic: Any) -> History:
    """Both in-sync brokers of dc2 lose power after ten acknowledgements, and come back with five; one of the
    clusters syncs each message.
    """
    syncs = {"config": {"log.flush.interval.messages": 1}}
    history = History(
        producers=[{"topic": "orders", "cluster": name, "acks": "all"} for name in ("dc1", "dc2")],
        topics=[{"name": "orders", "cluster": "dc1"}, {"name": "orders", "cluster": "dc2"} | topic],
        clusters={name: syncs if name == flushed else {} for name in ("dc1", "dc2")},
    )
    for seq in range(5):
        history.acked(0, seq, seq)
    history.rows["log"] = [row | {"cluster": "dc1"} for row in history.rows["log"]]
    history.rows["sends"] = [row | {"cluster": "dc1"} for row in history.rows["sends"]]
    there: dict[str, Any] = {"cluster": "dc2"}
    for seq in range(10):
        history.sent(1, seq, seq, **there)
    for seq in range(5):
        history.stored(seq, 1, seq, **there).sent(1, 10 + seq, 5 + seq, attempt_ns=at(7000), **there)
        history.stored(5 + seq, 1, 10 + seq, leader_epoch=1, **there)
    history.led(1001, 0, -100, [1001, 1002], **there).led(1002, 1, 6000, [1002], **there)
    history.fault(1001, 40, 5000, id="power", fault="power-loss", target="all")
    history.rows["faults"][-1]["brokers"] = [1001, 1002]
    return history


@pytest.mark.parametrize(
    ("flushed", "topic", "verdict"),
    [
        ("dc1", {}, "held"),
        ("dc2", {}, "violated"),
        ("dc1", {"config": {"flush.messages": 1}}, "violated"),
        ("dc2", {"config": {"flush.messages": 1000}}, "held"),
    ],
)
def test_flush_setting_of_the_cluster_that_lost_power_counts(
    flushed: str, topic: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    """The other cluster's promises nothing here; the topic's own setting comes before its cluster's."""
    found = judged(_power_lost_in_dc2(flushed, **topic), tmp_path)
    assert (found.verdict, counts(found)["lost"]) == (verdict, 5)
    assert violations(found).get("lost", 0) == (5 if verdict == "violated" else 0)


def _read(history: History, *offsets: int, ms: float, **more: Any) -> History:
    for offset in offsets:
        history.handed(offset, 0, offset, ms, **more)
    return history


@pytest.mark.parametrize(
    ("first", "ahead"), [(None, 2), (0, 2), (5, 2), (8, 0)], ids=["no offset", "0", "5", "8"]
)
def test_a_group_begins_at_its_first_assignment_or_delivery(
    first: int | None, ahead: int, tmp_path: Path
) -> None:
    """m1 reads 0 to 4 and commits 8; m2 is assigned 8. The second assignment tells nothing of the first."""
    history = History(groups={"billing": False})
    for seq in range(10):
        history.acked(0, seq, seq)
    _read(history.event("assigned", -1, first), 0, 1, 2, 3, 4, ms=20).event("committed", 30, 8)
    history.event("revoked", 40).event("assigned", 50, 8, member="m2")
    _read(history, 8, 9, ms=60, member="m2").event("committed", 70, 10, member="m2")
    found = judged(history, tmp_path)
    assert (found.anomaly("commit-ahead")[0].count, found.verdict) == (
        *(ahead, "violated" if ahead else "inconclusive"),
    )


@pytest.mark.parametrize("translated", [True, False], ids=["translated", "assigned only"])
@pytest.mark.parametrize("first", [0, None])
def test_a_group_that_fails_back_begins_anew(first: int | None, translated: bool, tmp_path: Path) -> None:
    """It read message 0 in dc1, went to dc2 and came back to offset 3: its commits of 3 and 4 are not ahead;
    that of 6, without 4 and 5, is.
    """
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, sent=6)
    history.groups = {"billing": False}
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"], "groups": ["billing"]})
    history.event("assigned", 5, first, **HERE).handed(0, 0, 0, 10, **HERE).event("revoked", 18, **HERE)
    history.event("assigned", 20, 1, **THERE).event("revoked", 38, **THERE)
    history.event("assigned", 39, None if translated else 3, **HERE).handed(3, 0, 3, 50, **HERE)
    if translated:
        history.mirrored("translated", 40, group="billing", target_offset=3, mirror="dc2->dc1")
    for ms, offset in ((45, 3), (55, 4)):
        history.event("committed", ms, offset, **HERE)
    assert judged(history, tmp_path / "in order").anomaly("commit-ahead")[0].count == 0
    history.rows["end_offsets"].clear()
    found = judged(history.event("committed", 60, 6, **HERE), tmp_path / "ahead")
    assert found.anomaly("commit-ahead")[0].count == 1


def _kept_twice(*copies: tuple[int, int], doubt: bool = True) -> History:
    """Message 0 was kept by a store and is stored at these partitions and offsets; messages 1 and 2, kept as
    well, were sent by the replay, once each, to partitions 0 and 1, at offset 5.
    """
    history = History(topics=[{"name": "orders", "partitions": 2}], stores={"local": True})
    history.producers[0] |= {"idempotence": True, "on-failure": {"stores": ["local"]}}
    for seq in range(3):
        history.sent(0, seq, None, "kept", partition=None).kept(0, seq, in_doubt=doubt)
        history.replayed(0, seq, 50 + seq, partition=seq // 2)
    for partition, offset in copies:
        history.stored(offset, 0, 0, partition=partition)
    return history.stored(5, 0, 1, partition=0).stored(5, 0, 2, partition=1)


@pytest.mark.parametrize(
    ("copies", "permitted"),
    [
        ([(0, 6), (1, 6)], 0),  # one in each partition, both behind what only the replay sent
        ([(0, 6), (0, 7)], 0),
        ([(0, 6), (1, 4)], 1),  # one may be the producer's
        ([(0, 4), (1, 4)], 1),
        ([(0, 4), (0, 6), (1, 6)], 0),
    ],
)
def test_copies_by_a_replay_are_counted_in_all_partitions(
    copies: list[tuple[int, int]], permitted: int, tmp_path: Path
) -> None:
    """Sent once, a message cannot be behind the beginning of the replay twice, wherever that is."""
    found = judged(_kept_twice(*copies), tmp_path)
    assert found.anomaly("duplicate")[0].count == 1
    assert (found.anomaly("duplicate")[0].permitted, found.verdict) == (
        *(permitted, "held" if permitted else "violated"),
    )


@pytest.mark.parametrize(("ms", "permitted"), [(52, 1), (50, 1), (49.9, 0)])
def test_a_producer_that_may_have_been_the_last_to_write_excuses_the_replay(
    ms: float, permitted: int, tmp_path: Path
) -> None:
    """The first acknowledgement to the replay is at 50 ms: a tie is no proof that no producer wrote later."""
    history = _kept_twice((0, 6), (1, 6)).sent(0, 3, 0, attempt_ns=at(40), done_ns=at(ms)).stored(0, 0, 3)
    found = judged(history, tmp_path)
    assert found.anomaly("duplicate")[0].permitted == permitted


@pytest.mark.parametrize(("ended", "cause"), [(4.9, "after-end"), (5, "after-end"), (5.1, "unexplained")])
def test_acknowledged_when_the_mirror_ended_is_after_its_end(
    ended: float, cause: str, tmp_path: Path
) -> None:
    """Message 4 was acknowledged at 5 ms, and the mirror had copied what is behind it."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 2, 3, 5, sent=6).mirrored("started", 0)
    history.mirrored("drained", 20, source_offset=6).mirrored("stopped", ended)
    assert judged(history, tmp_path).anomaly("unmirrored")[0].causes == {cause: 1}


@pytest.mark.parametrize(("away", "verdict"), [(29, "violated"), (30, "held"), (31, "held")])
def test_a_group_that_may_have_left_a_cluster_owes_nothing_there(
    away: float, verdict: str, tmp_path: Path
) -> None:
    """It was last delivered something in dc1 at 30 ms, and was assigned dc2 then, or a little before or
    after: message 2, which only dc1 has, is unseen.
    """
    history = sent_and_mirrored(two_clusters(), 0, 1).mirrored("started", 0).mirrored("stopped", 2.5)
    history.groups = {"billing": True}
    history.handed(0, 0, 0, 10, **HERE).handed(1, 0, 1, 30, **HERE).event("assigned", away, 2, **THERE)
    found = judged(history, tmp_path)
    assert (found.anomaly("unseen")[0].count, found.verdict) == (1, verdict)


@pytest.mark.parametrize(
    ("done", "cause"), [(9, "deposed-leader"), (10, "deposed-leader"), (11, "unexplained")]
)
def test_of_two_acknowledgements_at_the_same_time_either_may_have_been_the_first(
    done: float, cause: str, tmp_path: Path
) -> None:
    """Epoch 1 first acknowledged this producer at 10 ms: what was lost may have been acknowledged before."""
    history = History(producers=[{"topic": "orders", "acks": 1}]).led(1, 0, -5, [1, 2]).led(2, 1, 5, [2])
    history.acked(0, 0, 0).sent(0, 1, 1, done_ns=at(done))
    history.sent(0, 2, 1, done_ns=at(10)).stored(1, 0, 2, leader_epoch=1)
    found = judged(history, tmp_path)
    assert found.anomaly("lost")[0].causes == {cause: 1}


@pytest.mark.parametrize(("attempt", "done"), [(5, 9), (1, 5), (4, 6)])
def test_election_at_the_time_of_an_attempt_or_outcome_excuses_its_order(
    attempt: float, done: float, tmp_path: Path
) -> None:
    """Broker 2 was elected at 5 ms: the request may have been retried because of that."""
    one = {"max.in.flight.requests.per.connection": 1}
    history = History(producers=[{"topic": "orders", "config": one}]).led(1, 0, -5).led(2, 1, 5)
    history.acked(0, 1, 0, attempt_ns=at(0), done_ns=at(9))
    history.acked(0, 0, 1, attempt_ns=at(attempt), done_ns=at(done))
    found = judged(history, tmp_path)
    assert [(a.count, a.permitted) for a in found.anomaly("reordered")] == [(1, 1)]


def test_fault_whose_end_was_never_confirmed_is_inconclusive(tmp_path: Path) -> None:
    """It took effect; noop has nothing to end."""
    found = judged(History().acked(0, 0, 0).fault(1, 40), tmp_path / "open")
    assert found.verdict == "inconclusive" and "its end was never confirmed" in found.reasons[0]
    assert judged(History().acked(0, 0, 0).fault(1, 40, 50), tmp_path / "healed").verdict == "held"
    noop = History().acked(0, 0, 0).fault(1, 40, fault="noop")
    assert judged(noop, tmp_path / "noop").verdict == "held"


@pytest.mark.parametrize(
    ("fault", "step", "over"),
    [
        ("resize", {"partitions": 2}, True),
        ("recreate", {}, True),
        ("recreate", {"for": "1s"}, False),
        ("move-replicas", {"target": "broker 1"}, False),
        ("rolling-upgrade", {"target": "all"}, False),
    ],
)
def test_what_never_ends_was_over_when_it_took_effect(
    fault: str, step: dict[str, Any], over: bool, tmp_path: Path
) -> None:
    """Also where the run ended before the change was looked at again; a move is over when it is done."""
    target = step.setdefault("target", "topic orders")
    history = History(faults=[{"at": "0s", "fault": fault} | step]).acked(0, 0, 0, attempt_ns=at(50))
    found = judged(history.fault(1, 40, fault=fault, id=f"1-{fault}", target=target), tmp_path)
    assert found.faults[0].healed_ns == (at(40) if over else None)
    assert found.verdict == ("held" if over else "inconclusive")


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("seen", [True, False])
def test_records_deleted_on_purpose_are_permitted_whatever_was_promised(
    acks: Any, seen: bool, tmp_path: Path
) -> None:
    """Without any leader events; two of five messages were deleted by a step. If they were delivered before,
    they were there.
    """
    history = History(producers=[{"topic": "orders", "acks": acks}], groups={"billing": True})
    for seq in range(5):
        history.sent(0, seq, seq)
        if seen or seq > 1:
            history.handed(seq, 0, seq, 10 + seq)
        if seq > 1:
            history.stored(seq, 0, seq)
    history.deleted("orders", 100).read_to_end()
    history.rows["end_offsets"][0]["start_offset"] = 2
    found = findings_in(history.write(tmp_path))
    assert counts(found).get("vanished", 0) == (2 if seen else 0)
    assert found.verdict == ("held" if seen or acks == 0 else "inconclusive"), found.reasons
    assert (counts(found)["lost"], not violations(found)) == (2, seen or acks == 0)


@pytest.mark.parametrize("acks", [1, "all"])
def test_offsets_of_a_recreated_topic_begin_anew_whatever_was_promised(acks: Any, tmp_path: Path) -> None:
    """Message 0 was delivered from the old topic, whose offset 0 message 1 has in the new one."""
    history = History(producers=[{"topic": "orders", "acks": acks}]).sent(0, 0, 0)
    history.handed(0, 0, 0, 5).deleted("orders", 10, id="1-recreate", fault="recreate")
    history.acked(0, 1, 0, attempt_ns=at(20), done_ns=at(21))
    found = judged(history, tmp_path)
    for name in ("lost", "inconsistent-offset"):
        assert [(a.count, a.permitted) for a in found.anomaly(name)] == [(1, 1)], found.reasons


def _planned(*steps: dict[str, Any], **workload: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "version": 1,
            "title": "t",
            "clusters": {"dc1": {}, "dc2": {}, "dc3": {}},
            "topics": [{"name": "orders", "cluster": name} for name in ("dc1", "dc2", "dc3")],
            "workload": {"producers": [{"topic": "orders", "cluster": "dc2"}], **workload},
            "plan": [{"step": "notice", "at": "1s"}, *steps],
        }
    )


TO_DC1, TO_DC3 = ({"step": "move-producers", "to": name} for name in ("dc1", "dc3"))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([TO_DC1], ("dc2", "dc1")),  # the producers are in dc2
        ([TO_DC3, TO_DC1], ("dc2", "dc3")),  # the first move counts
        ([{"step": "fence", "cluster": "dc1"}, TO_DC3], ("dc1", "dc3")),
        ([{"step": "move-groups", "to": "dc1"}], ("dc3", "dc1")),  # the group is in dc3
        ([{"step": "move-groups", "to": "dc3", "groups": []}], ("dc1", "dc3")),
        ([], None),
    ],
)
def test_plan_may_begin_in_any_cluster(steps: list[dict[str, Any]], expected: tuple[str, str] | None) -> None:
    """Where the fenced cluster is, else the clients that move first."""
    group = {"id": "billing", "topics": ["orders"], "cluster": "dc3"}
    assert source_and_target(_planned(*steps, groups=[group])) == expected


def test_rto_is_measured_from_the_cluster_that_clients_left(tmp_path: Path) -> None:
    """From dc2 to dc1, although dc1 is the first cluster, and its mirror the first one."""
    history = two_clusters()
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"]})
    history.producers[0]["cluster"] = "dc2"
    history.plan = [{"step": "fence", "at": "1s", "cluster": "dc2"}, TO_DC1]
    history.sent(0, 0, 0, **THERE).stored(0, 0, 0, **THERE).stored(0, 0, 0, **HERE)
    history.sent(0, 1, 1, **HERE, attempt_ns=at(400), done_ns=at(451)).stored(1, 0, 1, **HERE)
    history.stored(1, 0, 1, **THERE).mirrored("started", 0).mirrored("started", 0, mirror="dc2->dc1")
    for step, ms in (("1 fence", 100), ("2 move-producers", 300)):
        told = {"kind": step[2:], "outcome": "done", "proof": "as it should be"}
        history.add("plan", step=step, started_ns=at(ms), ended_ns=at(ms + 10), **told)
    plan = judged(history, tmp_path).plan
    assert plan is not None and plan.rto_writes is not None
    assert (plan.source, plan.target, plan.rto_writes.seconds) == ("dc2", "dc1", 0.45)


def _back_and_forth(*members: str) -> History:
    """Offsets 0 to 9, then 8 again, then on from 14 after a gap of four; message 10 to 13 by the last."""
    history = History(groups={"app": True})
    for seq in range(20):
        history.acked(0, seq, seq)
    one, other = members[0], members[-1]
    for ms, (member, offset) in enumerate(
        [*((one, n) for n in range(10)), (one, 8), (other, 9), *((other, n) for n in range(10, 14))]
        + [(one, n) for n in range(14, 20)]
    ):
        history.handed(offset, 0, offset, 100 + ms, group="app", member=member)
    return history


@pytest.mark.parametrize(
    ("members", "assigned", "steps"),
    [
        (("c1", "c2"), False, {}),  # the partition may have gone back and forth
        (("c1", "c2"), True, {"poll-skip": 1, "nonmonotonic-poll": 1, "unassigned-delivery": 5}),
        (("c1",), False, {"nonmonotonic-poll": 1}),
    ],
)
def test_steps_of_several_members_are_judged_only_with_their_assignments(
    members: tuple[str, ...], assigned: bool, steps: dict[str, int], tmp_path: Path
) -> None:
    """Without group events, what one of two members jumped over or read again may have been the other's."""
    history = _back_and_forth(*members)
    if assigned:
        history.event("assigned", 50, 0, group="app", member="c1")
    found = judged(history, tmp_path)
    assert violations(found) == steps
    assert found.verdict == ("violated" if steps else "held")
    assert counts(found)["redelivered"] == 2


@pytest.mark.parametrize(("attempt", "permitted"), [(1, True), (35, True), (36, False)])
def test_failing_back_excuses_no_message_that_was_sent_after_producers_came_back(
    attempt: float, permitted: bool, tmp_path: Path
) -> None:
    """Message 1 is in dc1 only, below the position at which the group comes back. The last message to dc2 was
    attempted at 35 ms: if message 1 came later, it is new, and nothing excuses that it is skipped.
    """
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, sent=1).mirrored("started", 0)
    history.groups = {"billing": True}
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"], "groups": ["billing"]})
    late = {"attempt_ns": at(attempt), "done_ns": at(attempt + 1)}
    history.sent(0, 1, 1, **late, **HERE).stored(1, 0, 1, **HERE).mirrored("stopped", 0.5)
    there = {"attempt_ns": at(35), "done_ns": at(36)}
    history.sent(0, 2, 1, **there, **THERE).stored(1, 0, 2, **THERE).stored(2, 0, 2, **HERE)
    history.event("assigned", 5, 0, **HERE).handed(0, 0, 0, 10, **HERE).event("revoked", 18, **HERE)
    history.event("assigned", 20, 1, **THERE).mirrored("translated", 21, group="billing", target_offset=1)
    history.handed(1, 0, 2, 37, **THERE).event("revoked", 38, **THERE).event("assigned", 39, 2, **HERE)
    back = {"group": "billing", "target_offset": 2, "mirror": "dc2->dc1"}
    found = judged(history.mirrored("translated", 40, **back), tmp_path)
    for name in ("translated-ahead", "unseen"):
        assert [(a.count, a.permitted) for a in found.anomaly(name)] == [(1, permitted)], found.reasons


def test_a_group_in_the_target_owes_only_what_is_at_home_there(tmp_path: Path) -> None:
    """It reads the copies' topic in dc2, was drained, and was given none: they are at home in dc1."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 2).mirrored("started", 0)
    history.groups, history.blocks = {"spare": True}, {"spare": {"cluster": "dc2"}}
    assert counts(judged(history, tmp_path / "none")) == {}
    history.rows["end_offsets"].clear()
    history.sent(0, 3, 3, **THERE).stored(3, 0, 3, **THERE)
    assert counts(judged(history, tmp_path / "own"))["unseen"] == 1


def test_unmirrored_is_judged_only_where_the_home_was_read(tmp_path: Path) -> None:
    """Message 2 was not found at home, whose partition was not read to its end: unread, not unmirrored."""
    history = sent_and_mirrored(two_clusters(), 0, 1, sent=2).sent(0, 2, 2, **HERE).mirrored("started", 0)
    history.read_to_end()
    for row in history.rows["end_offsets"]:
        row["end_offset"] += row["cluster"] == "dc1"
    found = findings_in(history.write(tmp_path))
    assert (found.verdict, counts(found).get("unmirrored", 0), found.totals.unread) == ("inconclusive", 0, 1)


def test_a_copy_that_no_reader_is_given_is_no_copy(tmp_path: Path) -> None:
    """The copy of message 1 in dc2 is of a transaction that was not committed."""
    history = sent_and_mirrored(two_clusters(), 0, sent=2).mirrored("started", 0).mirrored("stopped", 9)
    found = judged(history.stored(1, 0, 1, visible=False, **THERE), tmp_path)
    assert counts(found) == {"unmirrored": 1}


def test_refused_message_that_a_store_names_is_kept(tmp_path: Path) -> None:
    """Whatever its producer was told: a row of a store says that it is there."""
    history = History(stores={"local": True}).sent(0, 0, None, "refused")
    history.producers[0]["on-failure"] = {"stores": ["local"]}
    found = judged(history.add("left_in_store", store="local", producer=0, seq=0), tmp_path)
    assert found.kept is not None and (found.kept.kept, found.kept.waiting) == (1, 1)


def test_acknowledgement_to_a_replay_is_no_claim_to_an_offset(tmp_path: Path) -> None:
    """The log has message 1 where a replay was told that message 0 is: only producers' count."""
    history = History(stores={"local": True}).sent(0, 0, None, "kept").kept(0, 0).acked(0, 1, 0)
    history.producers[0]["on-failure"] = {"stores": ["local"]}
    found = judged(history.replayed(0, 0, 50, offset=0).stored(1, 0, 0), tmp_path)
    assert "inconsistent-offset" not in counts(found)


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (History().acked(0, 0, 0).fault(1, 5, 6, fault="noop", bit=False), "is not proven in full"),
        (History(groups={"billing": False}).acked(0, 0, 0), "had not read everything"),
        (History(faults=[{"at": "1s", "fault": "kill"}]).acked(0, 0, 0), "never injected"),
    ],
    ids=["noop", "drain", "step"],
)
def test_what_was_to_be_tested_and_was_not_is_inconclusive(
    history: History, reason: str, tmp_path: Path
) -> None:
    """A noop that did not bite, a group that was not drained, a step that was never injected."""
    found = judged(history, tmp_path)
    assert found.verdict == "inconclusive" and reason in " ".join(found.reasons)


@pytest.mark.parametrize(("drained", "verdict"), [(None, "held"), (3, "violated")])
def test_later_copies_alone_do_not_make_a_hole_unexplained(
    drained: int | None, verdict: str, tmp_path: Path
) -> None:
    """Message 1 is missing, message 2 was copied, and the mirror was killed for good: only its own record of
    how far it had everything tells that it skipped one.
    """
    history = sent_and_mirrored(two_clusters(), 0, 2).mirrored("started", 0).mirrored("killed", 9)
    history.rows["sends"] = [row | {"done_ns": at(4)} for row in history.rows["sends"]]
    if drained is not None:
        history.mirrored("drained", 8, source_offset=drained)
    found = judged(history, tmp_path)
    assert found.verdict == verdict, found.reasons
    assert found.anomaly("unmirrored")[0].causes == {"fault" if drained is None else "unexplained": 1}
