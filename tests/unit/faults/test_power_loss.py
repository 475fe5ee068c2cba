"""power-loss proves what it took along."""

from __future__ import annotations

from fakes.world import World


def test_the_bytes_that_were_cut_are_the_proof() -> None:
    """By broker, with the logs."""
    effect = World("power-loss", targets=(1, 2)).inject()
    assert effect.bit
    assert "broker 1: 700 bytes cut that it had not synced (orders-0 from offset 900 on)" in effect.proof
    assert "broker 2: 700 bytes" in effect.proof


def test_where_everything_was_synced_nothing_is_cut() -> None:
    """The power was lost all the same."""
    world = World("power-loss")
    world.logs.size = 0
    effect = world.inject()
    assert effect.bit and effect.proof.endswith("broker 1: 0 bytes cut that it had not synced")


def test_what_stays_is_told() -> None:
    """And is no bite."""
    world = World("power-loss")
    world.logs.stay = True
    effect = world.inject()
    assert not effect.bit and effect.proof.endswith(", 700 left")
