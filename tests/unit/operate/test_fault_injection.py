"""Faults on demand: proven, listed, healed; and what no such cluster can do is refused before anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fakes.cluster import FakeAdmin
from fakes.world import World
from kaput.cluster.admin import PartitionState
from kaput.core import TopicPartition
from kaput.errors import FaultError, UsageError
from kaput.faults.engine import Life
from kaput.operate.fault_injection import FaultInjector
from kaput.scenario.model import Cluster
from kaput.scenario.timeline import Step


def breaking(world: World, **cluster: object) -> FaultInjector:
    """Of a world of doubles."""
    spec = Cluster.model_validate({"controllers": 1, "network": "namespaces", **cluster})
    return FaultInjector(world.nodes, world.network, world.admin, lambda: spec, seed=1)  # type: ignore[arg-type]


def test_a_fault_is_active_until_it_is_healed() -> None:
    """Its id, whom it hit and its proof are there from the beginning."""
    world = World("kill")
    lab = breaking(world)
    injected = lab.inject("kill", "broker 1", {})
    assert (injected.id, injected.brokers) == ("1-kill", [1])
    assert "process gone" in injected.proof and injected.effective_ns >= injected.injected_ns
    assert lab.active == [injected] and not world.node.running
    healed = lab.heal("1-kill")
    assert lab.active == [] and world.node.running
    assert healed.healed_ns >= injected.effective_ns and "was started again" in healed.proof


def test_ids_are_never_given_twice() -> None:
    lab = breaking(World("kill"))
    first = lab.inject("kill", "broker 1", {})
    lab.heal(first.id)
    assert lab.inject("kill", "broker 1", {}).id == "2-kill"


def test_fault_without_effect_is_an_error_and_undone() -> None:
    """With its proof; nothing is active."""
    world = World("kill")
    world.node.survives = True
    lab = breaking(world)
    with pytest.raises(FaultError, match=r"kill broker 1 did not take effect: .*still running"):
        lab.inject("kill", "broker 1", {})
    assert lab.active == []


def test_fault_undone_by_something_else_is_an_error() -> None:
    """The error says what was seen; the fault is over all the same."""
    world = World("kill")
    lab = breaking(world)
    lab.inject("kill", "broker 1", {})
    world.node.start()
    with pytest.raises(FaultError, match=r"did not last until it was healed: .*started by something else"):
        lab.heal("1-kill")
    assert lab.active == []


def test_unconfirmed_heal_is_an_error() -> None:
    """No heal is claimed that nobody saw."""
    world = World("kill")
    lab = breaking(world)
    lab.inject("kill", "broker 1", {})
    world.node.fails = True
    with pytest.raises(FaultError, match="not confirmed to be healed"):
        lab.heal("1-kill")


def test_fault_took_effect_even_if_its_heal_failed_before_that_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its short time was over before the thread that injected it went on."""
    world = World("kill")
    lab = breaking(world)
    begin = lab._engine.begin

    def seen_late(step: Step) -> Life:
        life = begin(step)
        life.injected = life.ended
        return life

    monkeypatch.setattr(lab._engine, "begin", seen_late)
    world.node.fails = True
    assert lab.inject("kill", "broker 1", {}, for_ms=1).proof.endswith("ms")
    assert [each["state"] for each in lab.history()] == ["not proven"]


def test_heal_of_an_unknown_fault_suggests_the_nearest() -> None:
    """Or that there is none."""
    lab = breaking(World("kill"))
    with pytest.raises(UsageError, match=r"no fault 1-kill is active; active: none$"):
        lab.heal("1-kill")
    lab.inject("kill", "broker 1", {})
    with pytest.raises(UsageError, match="did you mean 1-kill"):
        lab.heal("1-kil")


@pytest.mark.parametrize(
    ("fault", "target", "options", "cluster", "said"),
    [
        ("kil", "any", {}, {}, "did you mean kill"),
        ("leader-election", "any", {}, {}, r"did you mean elect-preferred\?"),
        ("grow", "cluster", {}, {}, "without a scenario, faults can only hit nodes, topics"),
        ("kill", "broker 9", {}, {}, "no such broker: 9; brokers are 1 to 3"),
        ("kill", "brocker 1", {}, {}, "target"),
        ("kill", "any", {"delay": "1s"}, {}, "kill takes no delay"),
        ("delay", "any", {}, {"network": "loopback"}, "start the cluster with cluster.network: namespaces"),
        ("delay", "any", {"delay": "soon"}, {}, "delay: "),
        ("disk-full", "any", {}, {}, "start the cluster with cluster.disk-mb"),
        (
            "protocol",
            "any",
            {"api": "Produce", "what": "disconnect"},
            {},
            "start the cluster with cluster.proxies: clients",
        ),
        ("leave", "member 1 of g", {}, {}, "without a scenario, faults can only hit nodes, topics"),
        ("kill", "any member of g", {}, {}, "without a scenario, faults can only hit nodes, topics"),
        ("pause", "producer 0", {}, {}, "without a scenario, faults can only hit nodes, topics"),
        (
            "kill",
            "transaction-coordinator-of producer 0",
            {},
            {},
            "without a scenario, faults can only hit nodes, topics",
        ),
    ],
)
def test_invalid_faults_are_rejected_before_injection(
    fault: str, target: str, options: Mapping[str, object], cluster: dict[str, object], said: str
) -> None:
    """In the words of a scenario's mistakes."""
    world = World("kill")
    with pytest.raises(UsageError, match=said):
        breaking(world, **cluster).inject(fault, target, options)
    assert all(node.running for node in world.nodes.values())


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("leader-of orders/99", "leader-of orders/99: orders has partitions 0 to 0"),
        ("followers-of orders/1", "followers-of orders/1: orders has partitions 0 to 0"),
        ("leader-of order/0", "no topic order; did you mean orders?"),
        ("leader-of nope/0", "no topic nope$"),
    ],
)
def test_unknown_partition_target_is_rejected(target: str, why: str) -> None:
    """With those that are; nothing is waited for, and nothing is broken."""
    world = World("kill")
    lab = breaking(world)
    with pytest.raises(UsageError, match=why):
        lab.inject("kill", target, {})
    assert lab.active == [] and world.node.running


class _Brokers(FakeAdmin):
    """Partitions by their replicas, the first of which leads; what is asked of it happens at once."""

    def __init__(self, alive: Collection[int] = (1, 2, 3), **replicas: list[int]) -> None:
        super().__init__()
        self.alive = frozenset(alive)
        self.states = {
            TopicPartition(topic, 0): PartitionState(nodes[0], nodes, nodes, leader_epoch=0)
            for topic, nodes in replicas.items()
        }

    def topics(self) -> list[str]:
        return [topic for topic, _ in self.states]

    def live(self, topics: Sequence[str]) -> tuple[frozenset[int], dict[TopicPartition, PartitionState]]:
        return self.alive, {}

    def partitions(self, topics: Iterable[str]) -> dict[Any, PartitionState]:
        wanted = set(topics)
        return {place: state for place, state in self.states.items() if place.topic in wanted}

    def coordinator(self, group: str) -> int:
        return 2

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        for place, nodes in wanted.items():
            leader = self.states[place].leader
            self.states[place] = replace(
                self.states[place],
                leader=leader if leader in nodes else nodes[0],
                replicas=list(nodes),
                isr=list(nodes),
            )

    def elect_preferred(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            state = self.states[place]
            self.states[place] = replace(state, leader=state.replicas[0], leader_epoch=state.leader_epoch + 1)


def moving(admin: _Brokers, brokers: int = 3) -> FaultInjector:
    """Of a cluster of so many brokers, some of which may be dead."""
    world = World("kill")
    world.admin = admin
    return breaking(world, brokers=brokers)


@pytest.mark.parametrize(
    ("fault", "target", "options", "replicas", "text"),
    [
        (
            "move-replicas",
            "leader-of orders/0",
            {},
            [1, 2, 3],
            "orders/0 has 3 replicas on 3 brokers: none of",
        ),
        ("move-replicas", "broker 2", {}, [1, 2, 3], "none of the others is without one; add brokers first"),
        ("move-replicas", "any", {}, [1, 2, 3], "none of the others is without one; add brokers first"),
        ("move-replicas", "all", {}, [1, 2], "too few are left"),
        ("move-leader", "leader-of orders/0", {}, [2], "orders/0 has one replica, so no other broker can"),
        ("move-leader", "broker 2", {}, [2], "orders/0 has one replica, so no other broker can"),
        ("move-leader", "all", {}, [2], "orders/0 has one replica, so no other broker can"),
        ("move-leader", "broker 2", {"to": 3}, [2, 1], "broker 3 has no replica of orders/0; brokers 2, 1"),
        ("move-leader", "leader-of orders/0", {"to": 2}, [2, 1], "broker 2 leads orders/0 already"),
        (
            "reassign",
            "cluster",
            {"replication-factor": 4},
            [1],
            "4 replicas need as many brokers; 3 are there",
        ),
    ],
)
def test_move_without_a_broker_to_go_to_is_refused(
    fault: str, target: str, options: dict[str, Any], replicas: list[int], text: str
) -> None:
    """At once, as a mistake of the user: nothing is wrong with the cluster."""
    injector = moving(_Brokers(orders=replicas))
    with pytest.raises(UsageError, match=re.escape(text)):
        injector.inject(fault, target, options)
    assert injector.history() == []


@pytest.mark.parametrize(
    ("options", "isr", "text"),
    [
        ({"to": 3}, [1, 2], "broker 3 is not in sync with the leader of orders/0; followers in sync: 2"),
        ({}, [1], "orders/0 has no follower in sync, so no other broker can lead it now"),
    ],
)
def test_leader_does_not_move_to_a_follower_that_is_not_in_sync(
    options: dict[str, Any], isr: list[int], text: str
) -> None:
    """Kafka would elect none of them; nothing is changed."""
    admin, place = _Brokers(orders=[1, 2, 3]), TopicPartition("orders", 0)
    admin.states[place] = replace(admin.states[place], isr=isr)
    before = admin.states[place]
    injector = moving(admin)
    with pytest.raises(UsageError, match=re.escape(text)):
        injector.inject("move-leader", "leader-of orders/0", options)
    assert admin.states[place] == before and injector.history() == []


@pytest.mark.parametrize(
    ("target", "replicas", "moved"),
    [
        ("followers-of orders/0", [1, 2], [1, 3]),
        ("broker 2", [1, 2], [1, 3]),
        ("leader-of orders/0", [1, 2], [2, 3]),
    ],
)
def test_replicas_move_where_enough_other_brokers_are(
    target: str, replicas: list[int], moved: list[int]
) -> None:
    """And those of other partitions stay, whatever they are."""
    admin = _Brokers(orders=replicas, everywhere=[1, 3])
    moving(admin).inject("move-replicas", target, {})
    assert [sorted(state.replicas) for state in admin.states.values()] == [moved, [1, 3]]


def test_replicas_move_away_from_a_dead_broker() -> None:
    """It is not one of those that are left: broker 4 takes its place. With no other broker they cannot."""
    admin = _Brokers([1, 2, 4], orders=[1, 2, 3])
    moving(admin, brokers=4).inject("move-replicas", "broker 3", {})
    assert sorted(admin.states[TopicPartition("orders", 0)].replicas) == [1, 2, 4]
    with pytest.raises(UsageError, match="orders/0 has 3 replicas on 2 brokers: none of the others is"):
        moving(_Brokers([1, 2], orders=[1, 2, 3])).inject("move-replicas", "broker 3", {})


@pytest.mark.parametrize("target", ["any", "minority", "coordinator-of billing", "broker 2"])
def test_leaders_move_whatever_partitions_the_target_does_not_lead(target: str) -> None:
    """One with a single replica is of no concern to a broker that does not have it, and neither is `to`.
    At random, broker 2 is hit.
    """
    admin = _Brokers(orders=[2, 1], single=[3])
    moving(admin).inject("move-leader", target, {"to": 1})
    assert [state.leader for state in admin.states.values()] == [1, 3]
