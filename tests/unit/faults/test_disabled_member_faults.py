"""Every proof of a fault on members must be able to fail, like those on nodes (test_disabled_faults.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fakes.members import FakeGroups, FakeMember, member_scene
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Effect
from kaput.scenario.fault_kinds import faults_on

Switch = Callable[["World"], None]


class World:
    """A group of three, of which the fault hits member 2; of `join` member 4."""

    def __init__(self, fault: str, has_duration: bool = True) -> None:
        self.groups = FakeGroups()
        self.target = self.groups.member("billing", 4 if fault == "join" else 2)
        self.fault = fault_class(fault, "members")(member_scene(fault, self.groups, has_duration))

    def inject(self) -> Effect:
        return self.fault.inject(self.hit)

    def heal(self, effect: Effect) -> tuple[int | None, Effect]:
        return self.fault.heal(self.hit, effect)

    @property
    def hit(self) -> list[Any]:
        return [self.target]


def _on(switch: str) -> Switch:
    """Sets a switch of the member that is hit."""
    return lambda world: setattr(world.target, switch, True)


def _unfed(world: World) -> None:
    world.target.handed = False


def _no_deal(world: World) -> None:
    world.groups.deals = False


EFFECT_OFF: dict[str, list[Switch]] = {
    "kill": [_on("survives")],
    "stop": [_on("survives")],
    "pause": [_on("moves")],
    "leave": [_on("survives"), _no_deal],
    "join": [_on("fails"), _on("stands")],
    "slow": [_on("brisk"), _unfed],
}
HEAL_OFF: dict[str, list[Switch]] = {
    "kill": [_on("fails"), _on("refuses"), _on("stands")],
    "stop": [_on("fails"), _on("refuses"), _on("stands")],
    "pause": [_on("sleeps")],
    "leave": [_on("fails"), _on("refuses"), _on("stands")],
    "join": [_on("survives")],
    "slow": [_on("stubborn")],
}


def _cases(table: dict[str, list[Switch]]) -> list[tuple[str, Switch]]:
    return [(fault, switch) for fault, switches in table.items() for switch in switches]


def test_disabled_cases_cover_every_member_fault() -> None:
    """A new fault has its effect and its heal switched off here."""
    assert set(EFFECT_OFF) == set(HEAL_OFF) == set(faults_on("members")) - {"reset-offsets", "seek"}


@pytest.mark.parametrize("fault", EFFECT_OFF)
def test_working_member_fault_is_effective_and_healed(fault: str) -> None:
    """With nothing switched off; its proof at the heal says more than that of the injection."""
    world = World(fault)
    effect = world.inject()
    assert effect.confirmed, effect.proof
    healed, after = world.heal(effect)
    assert after.confirmed, after.proof
    assert healed is not None and effect.effective_ns is not None and healed >= effect.effective_ns
    assert after.proof.startswith(effect.proof)
    assert world.target.title in after.proof
    assert world.target.running == (fault != "join") and not world.target.stopped and world.target.pace == 1


@pytest.mark.parametrize(("fault", "switch"), _cases(EFFECT_OFF))
def test_disabled_member_fault_is_not_effective(fault: str, switch: Switch) -> None:
    """Neither at its injection nor when it is healed."""
    world = World(fault)
    switch(world)
    effect = world.inject()
    assert not effect.confirmed, effect.proof
    _, after = world.heal(effect)
    assert not after.confirmed, after.proof


@pytest.mark.parametrize(("fault", "switch"), _cases(HEAL_OFF))
def test_disabled_member_heal_is_not_recorded_as_healed(fault: str, switch: Switch) -> None:
    """No moment of a heal is told, and the run cannot be trusted."""
    world = World(fault)
    effect = world.inject()
    assert effect.confirmed, effect.proof
    switch(world)
    healed, after = world.heal(effect)
    assert healed is None and not after.confirmed, after.proof
    assert after.effective_ns == effect.effective_ns


@pytest.mark.parametrize("fault", sorted(set(EFFECT_OFF) - {"join"}))
def test_stopped_member_is_left_alone(fault: str) -> None:
    """Nothing is done to it, and nothing healed: another step may have business with it."""
    world = World(fault)
    world.target.running = False
    effect = world.inject()
    assert (effect.confirmed, effect.effective_ns, effect.proof) == (False, None, "no target was running")
    healed, after = world.heal(effect)
    assert not after.confirmed and healed is not None and world.target.done == []


def test_existing_member_cannot_join() -> None:
    world = World("join")
    world.target.running = True
    effect = world.inject()
    assert not effect.confirmed and "already in the group" in effect.proof
    healed, after = world.heal(effect)
    assert healed is not None and not after.confirmed and world.target.done == []


@pytest.mark.parametrize("fault", ["kill", "stop", "leave"])
def test_member_without_duration_stays_down(fault: str) -> None:
    """It is healed when the others own everything, and not before."""
    world = World(fault, has_duration=False)
    effect = world.inject()
    healed, after = world.heal(effect)
    assert after.confirmed and healed is not None
    assert after.proof.count("had a new owner") == 1 and not world.target.running

    world = World(fault, has_duration=False)
    if fault != "leave":  # which has seen them go at its injection
        world.groups.deals = False
        healed, after = world.heal(world.inject())
        assert healed is None and not after.confirmed and "had no new owner" in after.proof


def test_new_member_without_duration_stays() -> None:
    """It is healed as soon as it has joined."""
    world = World("join", has_duration=False)
    effect = world.inject()
    healed, after = world.heal(effect)
    assert after.confirmed and healed == effect.effective_ns and world.target.running


def test_member_restarted_externally_is_not_healed() -> None:
    world = World("kill", has_duration=False)
    effect = world.inject()
    world.target.start()
    healed, after = world.heal(effect)
    assert healed is None and not after.confirmed


def test_pause_proof_distinguishes_zombie_from_short_pause() -> None:
    """Whether its group gave its partitions away while it stood still."""
    world = World("pause")
    effect = world.inject()
    assert "had no new owner by the heal" in world.heal(effect)[1].proof
    world = World("pause")
    effect = world.inject()
    awake = [member for member in world.groups.made if member is not world.target]
    world.groups.made = awake
    world.groups.rebalance()
    world.groups.made = [*awake, world.target]
    assert "ms after it stopped" in world.heal(effect)[1].proof


def test_aborted_member_fault_does_not_wait() -> None:
    """The run is being ended: also where the group never comes to an end."""
    world = World("kill", has_duration=False)
    world.groups.deals = False
    effect = world.inject()
    world.fault.abandon()
    began = world.fault.scene.clock.now()
    assert world.heal(effect)[0] is None
    assert world.fault.scene.clock.now() == began


def test_partial_member_effect_is_not_effective_after_the_heal() -> None:
    """One of two members was down."""
    groups = FakeGroups()
    hit: list[Any] = [groups.member("billing", 1), FakeMember(9, running=False)]
    for fault in ("kill", "stop", "pause", "leave", "slow"):
        made = fault_class(fault, "members")(member_scene(fault, groups))
        effect = made.inject(hit)
        assert not effect.confirmed, fault
        assert not made.heal(hit, effect)[1].confirmed, fault
