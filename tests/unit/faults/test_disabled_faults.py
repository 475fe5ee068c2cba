"""Every proof must be able to fail: no fault bites that does nothing, none is healed that still works.

The doubles accept everything that is done to them, and one of them then does not do it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fakes.world import World
from kaput.scenario.fault_kinds import KINDS, faults_on

Switch = Callable[[World], None]


def _on(thing: str, switch: str, value: object) -> Switch:
    """Sets `switch` of the world's node, network or disk."""
    return lambda world: setattr(getattr(world, thing), switch, value)


def _unreachable(world: World) -> None:
    world.network.deaf.add(1)


NETWORK = _on("network", "works", False)
UNCOUNTED = _on("network", "counts", False)
HAUNTED, UNMOVED = _on("network", "stays", True), _on("network", "keeps", True)
# noop is the fault that does nothing; it bites by definition.
EFFECT_OFF: dict[str, list[Switch]] = {
    "kill": [_on("node", "survives", True)],
    "stop": [_on("node", "survives", True)],
    "power-loss": [_on("node", "survives", True), _on("logs", "stay", True)],
    "disk-loss": [_on("node", "survives", True), _on("node", "stuck", True)],
    "pause": [_on("node", "moves", True)],
    "cpu-pressure": [_on("node", "moves", True), _on("node", "works_while_paused", True)],
    "clock-skew": [_on("clocks", "obey", False), _on("clocks", "silent", True)],
    "memory-pressure": [_on("memory", "obeys", False), _on("memory", "unused", True)],
    "rolling-restart": [_on("node", "survives", True)],
    "disk-full": [_on("disk", "fills", False)],
    "disk-stall": [_on("devices", "obey", False)],
    "disk-error": [_on("devices", "obey", False)],
    "isolate": [NETWORK, UNCOUNTED],
    "cut": [NETWORK, UNCOUNTED],
    "partition": [NETWORK, UNCOUNTED],
    "flap": [NETWORK, UNCOUNTED],
    "loss": [NETWORK, UNCOUNTED],
    "reset": [NETWORK],
    "bandwidth": [NETWORK, UNCOUNTED],
    "delay": [NETWORK],
}
HEAL_OFF: dict[str, list[Switch]] = {
    "kill": [_on("node", "fails", True), _on("node", "refuses", True)],
    "stop": [_on("node", "fails", True), _on("node", "refuses", True)],
    "power-loss": [_on("node", "fails", True), _on("node", "refuses", True)],
    "disk-loss": [
        _on("node", "fails", True),
        _on("node", "refuses", True),
        _on("admin", "_mute", frozenset({1})),
    ],
    "pause": [_on("node", "sleeps", True)],
    "cpu-pressure": [_on("node", "sleeps", True)],
    "clock-skew": [_on("clocks", "obey", False), _on("clocks", "silent", True)],
    "memory-pressure": [_on("memory", "stays", True)],
    "rolling-restart": [_on("node", "fails", True), _on("node", "refuses", True)],
    "disk-full": [_on("disk", "frees", False)],
    "disk-stall": [_on("devices", "stay", True)],
    "disk-error": [_on("devices", "stay", True), _on("node", "fails", True), _on("node", "refuses", True)],
    "isolate": [HAUNTED, UNMOVED],
    "cut": [HAUNTED, UNMOVED],
    "partition": [HAUNTED, UNMOVED],
    "flap": [HAUNTED, UNMOVED],
    "loss": [HAUNTED, UNMOVED],
    "reset": [_unreachable],  # it is over by itself: what may be wrong is that nobody is let in again
    "bandwidth": [HAUNTED],
    "delay": [HAUNTED],
}

BY_TURNS = ("rolling-restart", "flap", "cpu-pressure")  # they heal and injure by turns from the start


def _cases(table: dict[str, list[Switch]]) -> list[tuple[str, Switch]]:
    return [(fault, switch) for fault, switches in table.items() for switch in switches]


def test_disabled_cases_cover_every_node_fault() -> None:
    """A new fault has its effect and its heal switched off here."""
    # What requests do is in test_requested_changes.py; protocol bites when the first frame comes, so that
    # its proof is complete at the heal: test_protocol.py
    assert (
        set(EFFECT_OFF)
        == set(HEAL_OFF)
        == {name for name in faults_on("nodes") if not KINDS[name].by_request}
        - {"noop", "protocol", "command", "log-dir-failure"}
    )


@pytest.mark.parametrize("fault", EFFECT_OFF)
def test_working_fault_is_effective_and_healed(fault: str) -> None:
    """With nothing switched off; its proof at the heal says more than that of the injection."""
    world = World(fault)
    effect = world.inject()
    assert effect.confirmed, effect.proof
    healed, after = world.heal(effect)
    assert after.confirmed, after.proof
    assert healed is not None and effect.effective_ns is not None and healed >= effect.effective_ns
    assert after.proof.startswith(f"{effect.proof}; ")
    assert not any(world.network.tables.values()) and not world.disk.taken
    assert not any(queue.kind for queue in world.network.queues.values())
    assert all(node.running and not node.stopped and not node.expected for node in world.nodes.values())


@pytest.mark.parametrize(("fault", "switch"), _cases(EFFECT_OFF))
def test_disabled_fault_is_not_effective(fault: str, switch: Switch) -> None:
    """Neither at its injection nor when it is healed."""
    world = World(fault)
    switch(world)
    effect = world.inject()
    assert not effect.confirmed, effect.proof
    _, after = world.heal(effect)
    assert not after.confirmed, after.proof


@pytest.mark.parametrize(("fault", "switch"), _cases(HEAL_OFF))
def test_disabled_heal_is_not_recorded_as_healed(fault: str, switch: Switch) -> None:
    """No moment of a heal is told, and the run cannot be trusted."""
    world = World(fault)
    if fault in BY_TURNS:
        switch(world)
        effect = world.inject()
    else:
        effect = world.inject()
        assert effect.confirmed, effect.proof
        switch(world)
    healed, after = world.heal(effect)
    assert healed is None and not after.confirmed, after.proof
    assert after.effective_ns == effect.effective_ns


@pytest.mark.parametrize("fault", EFFECT_OFF)
def test_partial_effect_is_not_effective_after_the_heal(fault: str) -> None:
    """One of two targets was down at the injection: what happens until the heal makes that no better."""
    world = World(fault, targets=(1, 2))
    world.nodes[2].running = False
    effect = world.inject()
    assert not effect.confirmed, effect.proof
    world.nodes[2].running = True  # somebody else starts it
    _, after = world.heal(effect)
    assert not after.confirmed, after.proof


@pytest.mark.parametrize("fault", EFFECT_OFF)
def test_stopped_target_is_left_alone(fault: str) -> None:
    """Nothing is done to it, and nothing healed: another step may have business with it."""
    world = World(fault)
    world.node.running = False
    effect = world.inject()
    assert (effect.confirmed, effect.effective_ns, effect.proof) == (False, None, "no target was running")
    healed, after = world.heal(effect)
    assert not after.confirmed and healed is not None and world.node.done == []
    assert not any(world.network.tables.values()) and not world.disk.taken
