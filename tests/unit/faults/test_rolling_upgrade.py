"""A rolling upgrade is proven by what the new processes say of themselves, and by what they work with."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fakes.cluster import FakeAdmin, FakeNode, fake_scene
from kaput.errors import LabError
from kaput.faults.fault import Effect, Scene
from kaput.faults.rolling_upgrade import RollingUpgrade


def three() -> list[FakeNode]:
    """Two brokers and a controller, in no order."""
    return [FakeNode(2, version="3.9.2"), FakeNode(101, role="controller", version="3.9.2"), FakeNode(1)]


def scene(nodes: list[FakeNode], admin: FakeAdmin | None = None, switched_off: bool = False) -> Scene:
    """In which a node becomes what it is told to, unless that is switched off."""
    by_id = {node.id: node for node in nodes}

    def upgrade(node: int, version: str) -> None:
        assert not by_id[node].running, "a node is changed while it is down"
        by_id[node].done.append("upgrade")
        if not switched_off:
            by_id[node].version = version

    return replace(fake_scene("rolling-upgrade", *nodes, admin=admin, kafka="4.3.1"), upgrade=upgrade)


def play(given: Scene) -> tuple[Effect, int | None, Effect]:
    """Injects and heals: the effect before, the moment, and the effect after."""
    fault = RollingUpgrade(given)
    effect = fault.inject(None)
    return effect, *fault.heal(None, effect)


def test_nodes_are_upgraded_one_at_a_time_controllers_first() -> None:
    """Controllers first, each while it is down; at last the level is raised."""
    nodes, admin = three(), FakeAdmin(levels=(21, 28))
    effect, healed, after = play(scene(nodes, admin))
    assert [node.done for node in nodes] == [["terminate", "upgrade", "start"]] * 3
    assert effect.proof.startswith("controller 101, broker 1, broker 2: SIGTERM")
    assert after.confirmed and healed is not None
    assert re.findall(r"(\w+ \d+) \(pid \d+\) ended after", after.proof) == [
        "controller 101",
        "broker 1",
        "broker 2",
    ]
    assert after.proof.endswith("; all are Kafka 4.3.1; metadata.version 21 has become 28")
    assert admin.raised == ["metadata.version"]


def test_node_reporting_the_old_version_is_not_upgraded() -> None:
    """The process that came back is what counts, not what it was told to be."""
    nodes, admin = three(), FakeAdmin()
    _, healed, after = play(scene(nodes, admin, switched_off=True))
    assert healed is None and not after.confirmed
    assert "(controller 101 reports Kafka 3.9.2)" in after.proof
    assert nodes[0].done == [] and admin.raised == []


def test_unreachable_node_has_no_reported_version() -> None:
    """What its log said is not asked before."""
    nodes = three()
    _, healed, after = play(scene(nodes, FakeAdmin(mute=[101]), switched_off=True))
    assert healed is None and not after.confirmed and nodes[0].done == []
    assert after.proof.endswith(
        "after the start of controller 101 not every ISR was full within 120 s "
        "(controller 101 does not answer)"
    )


def test_failed_metadata_version_upgrade_is_reported() -> None:
    """All are of the new version, but the cluster does not work as one."""
    _, healed, after = play(
        scene(three(), FakeAdmin(levels=LabError("metadata.version cannot become 28: no")))
    )
    assert healed is None and not after.confirmed
    assert after.proof.endswith("ms of its start; metadata.version cannot become 28: no")


def test_unsupported_rolling_upgrade_restarts_the_stopped_node() -> None:
    """As outside of runs; the node that was stopped is started again as what it was."""
    nodes = three()
    _, healed, after = play(fake_scene("rolling-upgrade", *nodes, kafka="4.3.1"))
    assert healed is None and not after.confirmed
    assert "the nodes of this cluster cannot become Kafka 4.3.1" in after.proof
    assert [node.done for node in nodes] == [[], ["terminate", "start"], []]


@pytest.mark.parametrize("running", [True, False])
def test_no_node_is_upgraded_if_aborted_or_a_node_is_down(running: bool) -> None:
    """Where the run is ended, or a node was down before."""
    nodes = three()
    nodes[0].running = running
    fault = RollingUpgrade(scene(nodes))
    if running:
        fault.abandon()
    effect = fault.inject(None)
    _, after = fault.heal(None, effect)
    assert not after.confirmed and nodes[0].done == []
