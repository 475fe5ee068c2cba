"""No claim about a generated run is false by the second opinion, which reads the raw tables alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fakes.histories import History, at
from second_opinion.judging import findings_of, opinions_of, played, timeline_of
from second_opinion.opinion import FALSE, TRUE, Examiner, opinions
from second_opinion.raw import SECOND
from second_opinion.simulated import FaultSpec, World
from second_opinion.timeline import Timeline
from second_opinion.worlds import worlds


def assert_nothing_is_false(world: World) -> None:
    """The property: some statements are true, and none is false."""
    with tempfile.TemporaryDirectory() as folder:
        found = opinions_of(played(world, Path(folder) / "run"))
    assert [one for one in found if one.verdict == FALSE] == []
    assert any(one.verdict == TRUE for one in found)


def _drawn(examples: int, derandomize: bool) -> Callable[[Any], Any]:
    """Without shrinking, which would play hundreds of runs: the first one that fails is told as it is."""
    return settings(
        max_examples=examples,
        derandomize=derandomize,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@_drawn(12, derandomize=True)
@given(world=worlds())
def test_no_claim_about_a_generated_run_is_false(world: World) -> None:
    """Faults of every kind, several at once, of one cluster or two."""
    assert_nothing_is_false(world)


@pytest.mark.long
@_drawn(400, derandomize=False)
@given(world=worlds())
def test_no_claim_about_many_generated_runs_is_false(world: World) -> None:
    """The same, of many more."""
    assert_nothing_is_false(world)


EXAMPLES = {
    "the leader is paused": World(0, session=3_000, faults=(FaultSpec("pause", 1, 4_410, 12_000),)),
    "clients cannot reach the leader": World(22, replicas=1, faults=(FaultSpec("cut", 1, 5_000, 3_000),)),
    "a follower is paused while the leader dies": World(
        3, min_isr=2, faults=(FaultSpec("pause", 2, 4_000, 3_000), FaultSpec("kill", 1, 5_500, 12_000))
    ),
    "a follower is out of the ISR when the leader dies": World(
        9,
        partitions=1,
        lag_time=500,
        faults=(FaultSpec("kill", 2, 2_000, 20_000), FaultSpec("kill", 1, 10_000, 12_000)),
    ),
    "a dead broker is elected at the moment in which there is a majority of controllers again": World(
        200,
        acks=1,
        partitions=4,
        session=9_000,
        lag_time=4_000,
        faults=(
            FaultSpec("kill", 3, 2_000, 500),
            FaultSpec("kill", 1, 2_380, 8_000),
            FaultSpec("stop", 3, 6_070, 12_000),
        ),
    ),
    "a follower is slowed half a second before the leader's disk stalls": World(
        684566816,
        acks=1,
        min_isr=2,
        partitions=4,
        session=9_000,
        lag_time=4_000,
        timeout=5_000,
        faults=(FaultSpec("delay", 1, 3_300, 8_000), FaultSpec("disk-stall", 2, 3_710, 18_000)),
    ),
    "every broker dies": World(
        4,
        session=3_000,
        faults=tuple(FaultSpec("kill", broker, 5_000 + broker * 10, 9_000) for broker in (1, 2, 3)),
    ),
    "a deposed leader that clients still reach": World(
        5, acks=1, session=3_000, misled=True, faults=(FaultSpec("isolate", 1, 5_000, 12_000),)
    ),
    "a member that was paused had fetched what it processes without a leader": World(
        307,
        partitions=1,
        replicas=1,
        session=3_000,
        faults=(FaultSpec("pause", "member 1", 3_810, 8_000), FaultSpec("power-loss", 1, 6_720, 12_000)),
    ),
    "two heals that may have worked when they began, each for itself": World(
        10000000,
        partitions=1,
        session=3_000,
        timeout=5_000,
        misled=True,
        transactions=True,
        faults=(FaultSpec("isolate", 1, 2_010, 18_000), FaultSpec("cut", 2, 2_010, 3_000)),
    ),
    "a follower is cut off, and elected": World(
        80934,
        partitions=3,
        timeout=5_000,
        faults=(FaultSpec("isolate", 1, 2_240, 3_000), FaultSpec("stop", 3, 3_540, 12_000)),
    ),
    "a follower dies in the last moments of a silence": World(
        934,
        min_isr=2,
        session=9_000,
        timeout=5_000,
        faults=(
            FaultSpec("disk-stall", 1, 4_010, 3_000),
            FaultSpec("kill", 3, 6_760, 500),
            FaultSpec("disk-stall", 1, 19_990, 3_000),
        ),
    ),
    "a member dies, and another takes over": World(6, faults=(FaultSpec("kill", "member 1", 5_000, 12_000),)),
    "a follower dies after the partition has its new owner": World(
        97,
        acks=1,
        faults=(FaultSpec("pause", "member 1", 7_060, 8_000), FaultSpec("power-loss", 3, 13_820, 18_000)),
    ),
    "a follower dies while a member is paused": World(
        292, faults=(FaultSpec("pause", "member 1", 5_370, 3_000), FaultSpec("power-loss", 1, 6_100, 3_000))
    ),
    "a group is moved, and its new broker stops": World(
        92, min_isr=2, replicas=2, clusters=2, moved=10_000, faults=(FaultSpec("stop", 1001, 11_000, 8_000),)
    ),
    "a follower is back in the ISR before the heal is confirmed": World(
        1096,
        min_isr=2,
        partitions=1,
        replicas=2,
        timeout=5_000,
        misled=True,
        transactions=True,
        faults=(FaultSpec("isolate", 1, 6_740, 12_000),),
    ),
    "messages fail one after the other": World(
        297,
        min_isr=2,
        unclean=True,
        timeout=5_000,
        faults=(FaultSpec("isolate", 2, 6_170, 12_000), FaultSpec("power-loss", 3, 8_410, 3_000)),
    ),
    "a producer dies during an outage": World(
        24,
        replicas=1,
        faults=(FaultSpec("pause", 1, 4_620, 12_000), FaultSpec("kill", "producer 0", 9_000, 9_000)),
    ),
    "the last leader that acknowledged anything was deposed before there was none": World(
        341,
        acks=1,
        partitions=4,
        timeout=5_000,
        misled=True,
        transactions=True,
        faults=(
            FaultSpec("isolate", 3, 2_890, 18_000),
            FaultSpec("stop", 2, 9_400, 18_000),
            FaultSpec("isolate", 1, 11_110, 18_000),
        ),
    ),
    "a broker dies when another that stops hands its partition to it": World(
        925572,
        acks=1,
        min_isr=2,
        replicas=2,
        session=3_000,
        timeout=5_000,
        transactions=True,
        faults=(
            FaultSpec("disk-loss", 1, 3_480, 18_000),
            FaultSpec("stop", 2, 6_280, 12_000),
            FaultSpec("power-loss", 3, 6_280, 8_000),
        ),
    ),
    "clients are moved to another cluster": World(
        7, clusters=2, moved=10_000, faults=(FaultSpec("kill", 1, 8_000, 18_000),)
    ),
    "a replica leaves the ISR and joins it in the same ms": World(
        4,
        partitions=1,
        session=3_000,
        faults=(FaultSpec("kill", 2, 2_000, 3_000), FaultSpec("kill", 2, 8_000, 3_000)),
    ),
    "an only replica is elected before the heal is confirmed": World(
        539124,
        partitions=4,
        replicas=1,
        timeout=5_000,
        transactions=True,
        faults=(
            FaultSpec("power-loss", 3, 2_410, 500),
            FaultSpec("isolate", 2, 6_190, 12_000),
            FaultSpec("stop", 3, 6_190, 8_000),
            FaultSpec("change-config", "topic orders", 10_280, 500, 3),
        ),
    ),
    "a step raises min.insync.replicas while a follower is away": World(
        31,
        faults=(
            FaultSpec("kill", 2, 3_000, 20_000),
            FaultSpec("change-config", "topic orders", 15_000, 8_000, 3),
        ),
    ),
    "a member of an ISR that is too small hangs for a moment": World(
        4677761,
        partitions=3,
        session=3_000,
        timeout=5_000,
        faults=(
            FaultSpec("stop", 2, 3_940, 8_000),
            FaultSpec("change-config", "topic orders", 4_750, 18_000, 3),
            FaultSpec("disk-stall", 1, 5_920, 500),
        ),
    ),
    "a step lowers min.insync.replicas during an outage": World(
        32,
        min_isr=3,
        faults=(
            FaultSpec("kill", 2, 3_000, 20_000),
            FaultSpec("change-config", "topic orders", 15_000, 3_000, 1),
        ),
    ),
    "a step lowers min.insync.replicas long after its request": World(
        32,
        min_isr=3,
        faults=(
            FaultSpec("kill", 2, 3_000, 20_000),
            FaultSpec("change-config", "topic orders", 15_000, 3_000, 1, early=8_000),
        ),
    ),
    "an unclean election": World(
        8,
        acks=1,
        session=3_000,
        unclean=True,
        faults=(FaultSpec("pause", 2, 2_000, 9_000), FaultSpec("kill", 1, 9_500, 15_000)),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_claim_is_false_where(name: str) -> None:
    """Each of these was told wrongly once, or is told by a rule of its own."""
    assert_nothing_is_false(EXAMPLES[name])


def _written(**more: Any) -> History:
    """orders/0: a message every 50 ms for 15 s; nothing is acknowledged from 5.0 to 12.1 s."""
    history = History(topics=[{"name": "orders", "replication-factor": 3}], **more)
    history.led(1, 0, -1_000, [1, 2, 3])
    for seq in range(300):
        done = seq * 50 + 5
        done = 12_100 if 5_000 <= done < 12_100 else done
        epoch = int(done >= 12_100 and not history.faults)
        history.acked(0, seq, seq, attempt_ns=at(seq * 50), done_ns=at(done), leader_epoch=epoch)
    return history


def _down(history: History, node: int, from_ms: int, to_ms: int) -> History:
    history.fault(node, from_ms, to_ms, heal_began_ns=at(to_ms))
    for kind, ms in (("stopped", from_ms), ("started", to_ms)):
        history.add("cluster_events", kind=kind, broker=node, at_ns=at(ms), source="test")
    return history


def _without_controllers() -> History:
    history = _written(cluster={"controllers": 3})
    for controller in (101, 102):
        _down(history, controller, 4_000, 10_000)
    return _down(history, 1, 5_000, 20_000).led(2, 1, 12_000, [2, 3])


def _denied(fault: str = "deny", target: str = "topic orders", **scenario: Any) -> History:
    step = {"at": "5s", "fault": fault, "target": target, "for": "7s"}
    history = _written(faults=[step], **scenario)
    history.fault(1, 5_000, 12_000, fault=fault, id=f"1-{fault}", target=target)
    history.rows["faults"][0]["brokers"] = []
    return history


def _shut_out() -> History:
    """All producers have the password that changes."""
    app = {"topic": "orders", "acks": "all", "config": {"sasl.username": "app"}}
    return _denied("change-password", "cluster", cluster={"security": "scram-tls"}, producers=[app])


_APP = {"sasl.username": "app"}


def _one_group_denied(
    fault: str, target: str, owner: int = 1, block: dict[str, Any] | None = None, **step: Any
) -> History:
    """From 5 to 12 s, the group that runs as app, and reads by a pattern, is given nothing; the other is.
    `block`: what else the first one is; `owner`: its member that reads.
    """
    step |= {"at": "5s", "fault": fault, "target": target, "for": "7s"}
    join = {"at": "4s", "fault": "join", "target": "member 2 of mine"}
    topics = [{"name": "orders", "replication-factor": 3}]
    secured: dict[str, Any] = {"cluster": {"security": "scram-tls"}, "faults": [step, join]}
    secured |= {"groups": {"mine": True, "other": True}, "subscriptions": {"mine": ["^ord.*"]}}
    secured["blocks"] = {"mine": block or {"member-config": {1: _APP}}}
    history = History(topics=topics, **secured).led(1, 0, -1_000, [1, 2, 3])
    history.fault(1, 5_000, 12_000, fault=fault, id=f"1-{fault}", target=target)
    history.rows["faults"][0]["brokers"] = []
    history.event("assigned", -500, group="mine", member=f"member-{owner}")
    history.event("assigned", -500, group="other", member="member-1")
    for seq in range(300):
        ms = seq * 50
        history.acked(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 5), leader_epoch=0)
        late = 12_100 if 5_000 <= ms < 12_100 else ms + 10
        history.handed(seq, 0, seq, late, group="mine", member=f"member-{owner}")
        history.handed(seq, 0, seq, ms + 10, group="other", member="member-1")
    return history


_TWO_USERS = {"members": 2, "member-config": {1: _APP}}


@pytest.mark.parametrize(
    ("history", "held_up"),
    [
        (_one_group_denied("deny", "topic orders", principal="User:app", operation="Read"), True),
        (_one_group_denied("deny", "topic orders", principal="User:app", operation="Write"), False),
        (_one_group_denied("deny", "topic orders", operation="Read"), False),
        (_one_group_denied("change-password", "cluster"), True),
        (_one_group_denied("change-password", "cluster", 2, {"config": _APP}), True),
        (_one_group_denied("change-password", "cluster", 2, _TWO_USERS), False),
        (_one_group_denied("deny", "topic orders", 1, _TWO_USERS, operation="Read"), False),
    ],
)
def test_who_may_not_read_is_a_user(history: History, held_up: bool, tmp_path: Path) -> None:
    """What a step takes from one user holds up no other, whatever topic they share."""
    run = history.read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    silences = [claim for claim in findings["claims"] if claim["kind"] == "silence" and claim["group"]]
    causes = [claim for claim in findings["claims"] if claim["kind"] == "cause"]
    assert {one["group"] for one in silences} == {"mine"} and bool(causes) == held_up
    assert {one["ended_by"] for one in silences} == {"heal" if held_up else "unknown"}


@pytest.mark.parametrize("cluster", ["dc1", "dc2"])
def test_a_password_is_that_of_one_cluster(cluster: str, tmp_path: Path) -> None:
    """Producers of dc2 wait from 5 to 12 s, and have the same user in dc1."""
    step = {"at": "5s", "fault": "change-password", "target": "cluster", "cluster": cluster, "for": "7s"}
    both: list[dict[str, Any]] = [{"name": "orders", "cluster": "dc1"}, {"name": "bills", "cluster": "dc2"}]
    producers = [{"topic": one["name"], "cluster": one["cluster"], "config": _APP} for one in both]
    clusters = {name: {"security": "scram-tls"} for name in ("dc1", "dc2")}
    history = History(topics=both, clusters=clusters, producers=producers, faults=[step])
    history.fault(1, 5_000, 12_000, fault="change-password", id="1-change-password", target="cluster")
    history.rows["faults"][0] |= {"brokers": [], "cluster": cluster}
    for number, one in enumerate(both):
        there = {"topic": one["name"], "cluster": one["cluster"]}
        history.led(1_000 * number + 1, 0, -1_000, [1_000 * number + 1], **there)
        for seq in range(300):
            done = 12_100 if number and 5_000 <= seq * 50 < 12_100 else seq * 50 + 5
            history.sent(number, seq, seq, attempt_ns=at(seq * 50), done_ns=at(done), **there)
            history.stored(seq, number, seq, **there)
    run = history.read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    mine = [one for one in findings["claims"] if one["topic"] == "dc2:bills"]
    assert {one["ended_by"] for one in mine if one["kind"] == "silence"} == {
        "heal" if cluster == "dc2" else "unknown"
    }
    assert any(one["kind"] == "cause" for one in mine) == (cluster == "dc2")


def _flapping() -> History:
    """The leader's link is cut at 5 s, works from 11 to 13 s, and is cut until 20 s."""
    step = {"at": "5s", "fault": "flap", "target": "broker 1", "for": "15s", "down": "6s", "up": "2s"}
    history = _written(faults=[step])
    history.fault(1, 5_000, 20_000, fault="flap", id="1-flap", toggles_ns=[at(11_000), at(13_000)])
    return history.led(2, 1, 9_000, [2, 3])


@pytest.mark.parametrize(
    ("history", "waited"),
    [
        (_without_controllers(), ["heal", "election", "client"]),
        (_denied(), ["heal", "client"]),
        (_shut_out(), ["heal", "client"]),
        (_flapping(), ["election", "heal", "client"]),
    ],
)
def test_no_claim_is_false_of_a_written_run(history: History, waited: list[str], tmp_path: Path) -> None:
    """What the simulated cluster does not have: a majority of controllers, and rights."""
    run = history.read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    silences = [claim for claim in findings["claims"] if claim["kind"] == "silence"]
    assert silences and all([w["condition"] for w in one["waited_for"]] == waited for one in silences)


def _of_a_frozen_pipe(other: str = "pipe", target: str = "member 1 of pipe") -> History:
    """A member of the group pipe is frozen from 2.5 to 7.9 s; the transaction of member 1 of `other` is open
    until 7.99 s, and billing is given nothing behind it until 8 s.
    """
    groups = {"billing": True, "pipe": True, other: True}
    history = History(topics=[{"name": "orders"}], groups=groups, producers=[{"topic": "orders"}] * 2)
    history.led(1, 0, -1_000, [1, 2, 3])
    for seq in range(100):
        ms, offset = 100 * seq, seq + (seq >= 20)
        shown = 8_000 if 2_000 <= ms < 8_000 else ms + 6
        history.acked(1, seq, offset, attempt_ns=at(ms), done_ns=at(ms + 5)).handed(offset, 1, seq, shown)
    history.acked(0, 10, 20, attempt_ns=at(1_950), done_ns=at(1_990)).handed(20, 0, 10, 8_000)
    history.transaction(7, 10, 10)
    history.rows["transactions"][0] |= {
        "transactional_id": f"kaput-{other}-member-1", "begin_ns": at(1_950), "end_ns": at(7_990)
    }  # fmt: skip
    history.fault(1, 2_500, 7_900, fault="pause", id="1-pause", target=target)
    history.rows["faults"][0]["brokers"] = []
    return history


def test_fault_on_the_member_of_a_pipe_is_a_cause_of_what_its_transaction_held_up(tmp_path: Path) -> None:
    run = _of_a_frozen_pipe().read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    causes = [claim for claim in findings["claims"] if claim["kind"] == "cause"]
    assert {claim["fault"] for claim in causes if claim["group"] == "billing"} == {"1-pause"}
    findings["claims"] = [claim for claim in findings["claims"] if claim["kind"] != "cause"]
    assert any("no cause 1-pause" in one.claim for one in opinions(run, findings) if one.verdict == FALSE)


def test_another_pipe_whose_name_begins_alike_is_not_hit(tmp_path: Path) -> None:
    """All members of pipe are frozen; the transaction is that of pipe-2."""
    run = _of_a_frozen_pipe("pipe-2", "members of pipe").read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    assert [claim["group"] for claim in findings["claims"] if claim["kind"] == "cause"] == []


def _registered_unseen() -> History:
    """Broker 2 is back at 6.5 s and in the ISR at 7 s; no poll saw it register. It is fenced later."""
    history = _down(_written(), 2, 4_000, 6_500)
    polled = {"within_ns": 200_000_000, "source": "polled"}
    history.led(1, 0, 5_000, [1, 3], kind="isr", **polled).led(1, 0, 7_000, [1, 2, 3], kind="isr", **polled)
    for kind, ms in (("fenced", 13_000), ("unfenced", 14_000)):
        history.add("cluster_events", kind=kind, broker=2, at_ns=at(ms), **polled)
    return history.led(2, 1, 9_000, [2, 3], **polled)


def test_broker_that_an_isr_took_in_had_registered(tmp_path: Path) -> None:
    """It leads from 9 s on, though the first record of its registration is from 14 s."""
    run = _registered_unseen().read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    shown = timeline_of(run, findings)
    assert [(bar.kind, bar.begin) for bar in shown.leaders] == [("broker 1", 0.0), ("broker 2", 9.0)]
    examiner = Examiner(run)
    found = [*examiner.opinions(findings), *Timeline(examiner, shown).all()]
    assert [one for one in found if one.verdict == FALSE] == []
    down = replace(shown, leaders=[*shown.leaders[:1], shown.leaders[1]._replace(kind="no leader")])
    assert any(one.verdict == FALSE for one in Timeline(examiner, down).all())


def test_change_that_never_ends_was_over_when_it_took_effect(tmp_path: Path) -> None:
    """The run ended before it was looked at again."""
    step = {"at": "5s", "fault": "resize", "target": "topic orders", "partitions": 2}
    history = _written(faults=[step]).fault(1, 5_000, fault="resize", id="1-resize", target="topic orders")
    history.rows["faults"][0]["brokers"] = []
    run = history.read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    findings["faults"][0]["healed_ns"] = None
    assert "fault 1-resize: healed_ns" in {
        one.claim for one in opinions(run, findings) if one.verdict == FALSE
    }


def test_first_leader_on_record_is_no_election(tmp_path: Path) -> None:
    """An ISR is on record before it."""
    history = _written()
    history.topics[0]["partitions"] = 2
    for leader, ms in ((None, 500), (1, 700), (2, 900)):
        kind = "leader" if leader else "isr"
        history.led(leader, leader and leader - 1, ms, [1, 2], kind=kind, partition=1)
    run = history.read_to_end().write(tmp_path / "run").path
    findings, examiner = findings_of(run), Examiner(run)
    shown = timeline_of(run, findings)
    assert [mark.at for mark in shown.marks if mark.kind == "election"][:1] == [0.9]
    found = [*examiner.opinions(findings), *Timeline(examiner, shown).all()]
    assert [one for one in found if one.verdict == FALSE] == []


def test_noop_ends_no_load_before_the_first_fault(tmp_path: Path) -> None:
    """A claim that ends with it is false."""
    history = _written().fault(1, 3_000, 4_000, fault="noop", id="1-noop").fault(1, 8_000, 9_000)
    history.producers = [{"topic": "orders", "rate": 20, "messages": 300}]
    run = history.read_to_end().write(tmp_path / "run").path
    findings = findings_of(run)
    assert [one for one in opinions(run, findings) if one.verdict == FALSE] == []
    (load,) = [claim for claim in findings["claims"] if claim["kind"] == "load"]
    assert load["to_ns"] == at(8_000) // SECOND * SECOND
    load["to_ns"] = at(3_000) // SECOND * SECOND
    assert any("times" in one.claim for one in opinions(run, findings) if one.verdict == FALSE)


def test_timeline_shows_who_has_registered_and_the_last_isr_of_a_ms(tmp_path: Path) -> None:
    """Broker 1 is gone from 5 to 8 s, and registers at 11 s; a follower is out as soon as broker 2 leads."""
    history = _down(_written(), 1, 5_000, 8_000)
    history.add("cluster_events", kind="unfenced", broker=1, at_ns=at(11_000), source="test")
    history.led(2, 1, 12_000, [2, 3]).led(2, 1, 12_000, [2], kind="isr")
    run = history.read_to_end().write(tmp_path / "run").path
    shown = timeline_of(run, findings_of(run))
    bars = [(bar.kind, round(bar.end - bar.begin, 3)) for bar in shown.leaders]
    assert bars[1:3] == [("no leader", 6.0), ("broker 1", 1.0)]
    assert [kind for kind, _ in bars] == ["broker 1", "no leader", "broker 1", "broker 2"]
    assert [bar.text for bar in shown.isrs] == ["1, 2, 3", "2"]
