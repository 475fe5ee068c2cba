"""The proof of a full disk: full when it was filled, and full until the heal."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.world import World
from kaput.errors import LabError
from kaput.faults.fault import Effect

ONE, TWO = Path("/1/data"), Path("/2/data")


def test_full_disk_is_proven_and_freed() -> None:
    """With the megabytes taken, and who ended of it."""
    world = World("disk-full")
    effect = world.inject()
    assert effect.proof == (
        "broker 1: 0.0 MB of ballast, writing another page fails (no space left on device)"
    )
    healed, after = world.heal(effect)
    assert healed is not None and after.confirmed
    assert after.proof == f"{effect.proof}; no target ended; space available again after the heal"
    assert world.node.done == []


def test_broker_stopped_by_a_full_disk_is_restarted() -> None:
    """Its end may give room back: the file alone must still be there."""
    world = World("disk-full")
    world.disk.ballast(ONE, "segments").disk.taken[ONE, "segments"] = 100
    effect = world.inject()
    world.node.running = False
    del world.disk.taken[ONE, "segments"]
    healed, after = world.heal(effect)
    assert after.confirmed and healed is not None and world.node.running and world.node.done == ["start"]
    assert (
        "; broker 1 shut down; space available again after the heal; broker 1 (pid 2001) was started"
        in after.proof
    )


def test_space_available_before_the_heal_is_reported() -> None:
    """The ballast is whole, but the broker deleted something: it was not full all the time."""
    world = World("disk-full")
    world.disk.taken[ONE, "segments"] = 100
    effect = world.inject()
    del world.disk.taken[ONE, "segments"]
    healed, after = world.heal(effect)
    assert effect.confirmed and not after.confirmed and healed is not None
    assert "; broker 1: another page could be written before the heal; " in after.proof


@pytest.mark.parametrize(("left", "alive"), [(0, True), (999, True), (0, False), (999, False)])
def test_deleted_ballast_file_is_not_a_proof(left: int, alive: bool) -> None:
    """All of it or a part, whatever became of the broker: nobody knows for how long the disk was full."""
    world = World("disk-full")
    effect = world.inject()
    assert effect.confirmed
    world.disk.taken[ONE, "kaput-ballast-1-disk-full"] = left
    world.node.running = alive
    healed, after = world.heal(effect)
    assert not after.confirmed and healed is not None
    assert "broker 1: of 0.0 MB of ballast 0.0 MB were left before the heal" in after.proof


def test_disk_full_before_the_injection_proves_nothing() -> None:
    """Filled by another step: its file stays where it is, and its broker is not told to be expected down."""
    world = World("disk-full", targets=(1, 2))
    world.disk.taken[ONE, "kaput-ballast-9-disk-full"] = 1000
    effect = world.inject()
    assert not effect.confirmed and effect.effective_ns is not None
    assert "broker 1: was full before, so nothing is proven; broker 2: 0.0 MB" in effect.proof
    assert not world.node.expected and world.nodes[2].expected
    _, after = world.heal(effect)
    assert not after.confirmed and world.disk.taken == {(ONE, "kaput-ballast-9-disk-full"): 1000}
    world = World("disk-full")
    world.disk.taken[ONE, "kaput-ballast-9-disk-full"] = 1000
    assert world.inject().effective_ns is None


def test_disk_still_full_after_the_heal_is_not_healed() -> None:
    """The nodes are named, and those that ended are started all the same."""
    world = World("disk-full", targets=(1, 2))
    effect = world.inject()
    world.disk.leftovers = {ONE, TWO}
    world.node.running = False
    healed, after = world.heal(effect)
    assert healed is None and not after.confirmed and world.node.running
    assert "broker 1, broker 2: still full after the heal" in after.proof
    world = World("disk-full", targets=(1, 2))
    effect = world.inject()
    world.node.running = world.nodes[2].running = False
    assert "; broker 1, broker 2 shut down; space available again" in world.heal(effect)[1].proof


def test_ballast_is_reported_in_megabytes() -> None:
    """To a tenth."""
    world = World("disk-full")
    world.disk.room = 123_456_789
    assert "broker 1: 123.5 MB of ballast" in world.inject().proof


def test_shutdown_is_expected_only_while_the_disk_is_full() -> None:
    """While its disk is full its end is expected; afterwards it is a death like any other."""
    world = World("disk-full")
    effect = world.inject()
    assert world.node.expected
    world.heal(effect)
    assert not world.node.expected


def test_failed_disk_full_injection_leaves_nothing_behind() -> None:
    """The injection fails, and the heal takes away what there is of it."""
    world = World("disk-full")
    world.disk.broken = True
    with pytest.raises(LabError, match="cannot be filled: Input/output error"):
        world.inject()
    healed, after = world.heal(Effect(None, False, "failed"))
    assert healed is not None and after == Effect(None, False, "failed")
    assert not world.node.expected and not world.disk.taken


def test_disk_with_space_left_is_not_effective() -> None:
    """The proof says that there is room."""
    world = World("disk-full")
    world.disk.fills = False
    effect = world.inject()
    assert effect.effective_ns is None and effect.proof.endswith("of ballast, still space left")
    world.disk.leftovers = {ONE}
    assert world.heal(effect)[0] is None
