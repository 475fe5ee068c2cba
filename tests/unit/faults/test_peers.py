"""Who is on the other side: words become parties."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeNode, fake_scene
from kaput.faults.cut import Cut
from kaput.faults.isolate import Isolate
from kaput.faults.partition import Partition
from kaput.faults.rules import CLIENTS, named, title
from kaput.scenario.fault_kinds import Side

NODES = [FakeNode(1), FakeNode(2), FakeNode(3), FakeNode(101, role="controller")]


@pytest.mark.parametrize(
    ("words", "parties"),
    [
        (["clients"], {CLIENTS}),
        (["brokers"], {1, 2, 3}),
        (["controllers"], {101}),
        (["broker 2"], {2}),
        (["broker 2", "clients"], {2, CLIENTS}),
        (["clients", "brokers"], {CLIENTS, 1, 2, 3}),
        (["clients", "controllers"], {CLIENTS, 101}),
        (["clients", "all-nodes"], {CLIENTS, 1, 2, 3, 101}),
        (["all-nodes"], {1, 2, 3, 101}),
        (["everybody"], {1, 2, 3, 101, CLIENTS}),
    ],
)
def test_party_names_resolve_to_nodes_and_clients(words: list[str], parties: set[int]) -> None:
    """Each word names nodes or the clients; several are put together."""
    assert named(words, fake_scene("noop", *NODES)) == parties


def test_proof_lists_nodes_then_clients() -> None:
    """Nodes by their titles, the clients last."""
    scene = fake_scene("noop", *NODES)
    assert title({CLIENTS, 101, 2}, scene) == "broker 2, controller 101, the clients"


def test_target_is_not_cut_from_itself() -> None:
    """A target that `from` names as well stays whole."""
    fault = Cut(fake_scene("cut", *NODES, from_=("brokers",), direction="in"))
    (barrier,) = fault.barriers([NODES[0]])  # type: ignore[list-item]
    assert (barrier.node, barrier.parties, barrier.direction) == (1, {2, 3}, "in")


def test_isolate_blocks_all_nodes_and_no_clients() -> None:
    """Several targets are isolated from each other."""
    found = Isolate(fake_scene("isolate", *NODES)).barriers(NODES[:2])  # type: ignore[arg-type]
    assert {b.node: set(b.parties) for b in found} == {1: {2, 3, 101}, 2: {1, 3, 101}}


def test_combined_node_counts_as_a_broker() -> None:
    """And no controller of its own."""
    scene = fake_scene("noop", FakeNode(1, role="combined"), FakeNode(201, role="zookeeper"))
    assert named(["brokers"], scene) == {1} and named(["zookeeper"], scene) == {201}


@pytest.mark.parametrize(
    ("side", "barriers"),
    [
        ("both", {1: {3, 101}, 2: {3, 101}}),
        ("others", {1: {3, 101, CLIENTS}, 2: {3, 101, CLIENTS}}),
        ("target", {1: {3, 101}, 2: {3, 101}, 3: {CLIENTS}, 101: {CLIENTS}}),
    ],
)
def test_network_partition_keeps_both_sides_connected(side: Side, barriers: dict[int, set[int]]) -> None:
    """Targets still hear each other; the clients are where they were put."""
    found = Partition(fake_scene("partition", *NODES, clients_with=side)).barriers(NODES[:2])  # type: ignore[arg-type]
    assert {b.node: set(b.parties) for b in found} == barriers
