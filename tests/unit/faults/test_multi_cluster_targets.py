"""Faults in runs with several clusters: whom a target means, and who is on the other side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.cluster import FakeAdmin, FakeNode, fake_scene
from fakes.network import FakeNetwork
from kaput.faults.cut import Cut
from kaput.faults.fault import Scene
from kaput.faults.isolate import Isolate
from kaput.faults.resolving import ClusterPart
from kaput.faults.rules import CLIENTS, across, listens, named, nodes_to_block
from kaput.scenario.model import Scenario, cluster_of_target
from kaput.scenario.targets import parse_target
from kaput.scenario.timeline import timeline

DC1, DC2 = frozenset({1, 2, 9002}), frozenset({1001, 9001})


class FakeMirror(FakeNode):
    """The process of a mirror."""

    @property
    def title(self) -> str:
        return {9001: "mirror dc1->dc2", 9002: "mirror dc2->dc1"}[self.id]


def nodes() -> list[FakeNode]:
    """Two brokers in dc1, one in dc2, and a mirror beside each."""
    brokers = [FakeNode(1), FakeNode(2), FakeNode(1001)]
    return [*brokers, FakeMirror(9001, role="mirror"), FakeMirror(9002, role="mirror")]


def scene(whole: bool = True, fault: str = "isolate", **options: object) -> Scene:
    """Where dc1 is hit as a whole."""
    target = "cluster dc1" if whole else "any"
    found = fake_scene(fault, *nodes(), target=target, network=FakeNetwork(), **options)
    return replace(found, clusters={"dc1": DC1, "dc2": DC2})


def test_parties_of_clusters_and_mirrors() -> None:
    """A mirror belongs to the cluster that it writes to."""
    assert named(["dc2"], scene()) == named(["cluster dc2"], scene()) == DC2
    assert named(["mirror dc1->dc2"], scene()) == {9001}
    assert named(["controllers"], scene()) == set()
    assert named(["everybody"], scene()) == {CLIENTS, *DC1, *DC2}
    assert across(1, ["everybody"], scene()) == {CLIENTS, *DC2}
    assert not listens(9001, scene()) and listens(1001, scene()) and not listens(CLIENTS, scene())


def test_rules_of_a_cluster_target_cover_its_mirrors() -> None:
    """Packets are stopped at every node, and at the mirrors beside them."""
    brokers = [node for node in nodes() if node.id in (1, 2)]
    assert nodes_to_block(brokers, scene()) == [1, 2, 9002]  # type: ignore[arg-type]
    assert nodes_to_block(brokers, scene(whole=False)) == [1, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "parties", "from_mirror"),
    [
        ((), {CLIENTS, 1001, 9001}, {1001}),
        (("dc2",), {1001, 9001}, {1001}),
        (("clients",), {CLIENTS}, set()),
    ],
)
def test_isolated_cluster_keeps_its_internal_connections(
    words: tuple[str, ...], parties: set[int], from_mirror: set[int]
) -> None:
    """From everybody outside, or whom the step names; its own nodes still reach each other."""
    brokers = [node for node in nodes() if node.id in (1, 2)]
    one, two, mirror = Isolate(scene(from_=words)).barriers(brokers)  # type: ignore[arg-type]
    assert (one.node, two.node, mirror.node) == (1, 2, 9002)
    assert one.parties == two.parties == mirror.parties == parties
    assert one.forbids == {(party, 1) for party in parties}
    # Nobody connects to a mirror: it is the mirror that must not get through.
    assert mirror.forbids == {(9002, party) for party in from_mirror}


def test_cut_between_clusters_keeps_its_direction() -> None:
    """As any other one."""
    brokers = [node for node in nodes() if node.id in (1, 2)]
    barriers = Cut(scene(fault="cut", from_=("dc2",), direction="in")).barriers(brokers)  # type: ignore[arg-type]
    assert {each.direction for each in barriers} == {"in"}
    assert {each.parties for each in barriers} == {DC2}


def test_mirror_is_cut_off_from_one_cluster() -> None:
    """It is the mirror that must not get through, since nobody connects to it."""
    (mirror,) = (node for node in nodes() if node.id == 9001)
    (only,) = Cut(scene(False, "cut", from_=("dc1",))).barriers([mirror])  # type: ignore[list-item]
    assert (only.node, only.parties) == (9001, DC1)
    assert only.forbids == {(9001, 1), (9001, 2)}


def test_isolate_in_a_single_cluster_spares_clients() -> None:
    """Isolating a node cuts it off from all other nodes, not from clients."""
    alone = replace(fake_scene("isolate", *map(FakeNode, (1, 2, 3))), clusters={})
    (only,) = Isolate(alone).barriers([alone.nodes[1]])
    assert (only.node, only.parties, only.reached) == (1, {2, 3}, None)


def test_cluster_part_includes_its_mirrors() -> None:
    """Its nodes, and the mirrors beside them."""
    part = ClusterPart({1: FakeNode(1)}, [1], FakeAdmin(), ["orders"], [9002])  # type: ignore[dict-item, arg-type]
    assert part.inside == {1, 9002}


@pytest.mark.parametrize(
    ("target", "cluster"),
    [
        ("cluster dc2", "dc2"),
        ("mirror dc1->dc2", None),
        ("broker 1001", "dc2"),
        ("broker 7", "dc1"),  # one that is added later
        ("leader-of dc2:orders/0", "dc2"),
        ("leader-of orders/0", "dc1"),
        ("topic dc2:orders", "dc2"),
        ("coordinator-of audit", "dc2"),
        ("member 1 of audit", "dc2"),
        ("producer 1", "dc2"),
        ("any", "dc1"),
    ],
)
def test_step_cluster_is_resolved_from_its_target(target: str, cluster: str | None) -> None:
    """The first one, unless the target is in another."""
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "x",
            "clusters": {"dc1": {}, "dc2": {"brokers": 1}},
            "topics": [{"name": "orders"}, {"name": "orders", "cluster": "dc2"}],
            "workload": {
                "producers": [
                    {"topic": "orders", "messages": 1},
                    {"topic": "orders", "messages": 1, "cluster": "dc2"},
                ],
                "groups": [{"id": "audit", "topics": ["orders"], "cluster": "dc2"}],
            },
            "faults": [{"at": "1s", "fault": "noop", "target": target}],
        }
    )
    assert cluster_of_target(scenario, parse_target(target)) == cluster
    assert [step.cluster for step in timeline(scenario, 1)] == [cluster]
