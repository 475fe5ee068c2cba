"""power-loss proves what it took along."""

from __future__ import annotations

import pytest

from fakes.world import World
from kaput.errors import LabError


def test_proof_lists_the_truncated_bytes_of_each_broker() -> None:
    """By broker, with the logs."""
    effect = World("power-loss", targets=(1, 2)).inject()
    assert effect.confirmed
    cut = "700 bytes cut that it had not synced (orders-0 from offset 900 on)"
    assert effect.proof.endswith(f" ms; broker 1: {cut}; broker 2: {cut}")


@pytest.mark.parametrize(("others", "more"), [(2, ""), (3, " and 1 more"), (1003, " and 1,001 more")])
def test_proof_lists_the_three_most_truncated_logs(others: int, more: str) -> None:
    """Of as long ones the first; how many there are beside those three."""
    world = World("power-loss")
    world.logs.more = {("audit", 1): 700, ("audit", 0): 700}
    world.logs.more |= {("zoo", n): 1 for n in range(others - 2)}
    proof = world.inject().proof
    names = "audit-0 from offset 50 on, audit-1 from offset 50 on, orders-0 from offset 900 on"
    assert proof.endswith(f": {2100 + others - 2:,} bytes cut that it had not synced ({names}{more})"), proof
    world = World("power-loss")
    world.logs.more = {("orders", 1): 701, ("orders", 2): 1}
    assert "(orders-1 from offset 50 on, orders-0 from offset 900 on, orders-2 " in world.inject().proof


def test_unreadable_logs_fail_the_injection() -> None:
    """The lab has failed, and says where."""
    world = World("power-loss")
    world.logs.broken = True
    with pytest.raises(LabError, match=r"^the logs of broker 1 cannot be cut: Input/output error$"):
        world.inject()


def test_fully_synced_logs_are_not_truncated() -> None:
    """The power was lost all the same."""
    world = World("power-loss")
    world.logs.size = 0
    effect = world.inject()
    assert effect.confirmed and effect.proof.endswith("broker 1: 0 bytes cut that it had not synced")


def test_power_loss_with_unsynced_bytes_left_is_not_effective() -> None:
    """And is no bite."""
    world = World("power-loss")
    world.logs.stay = True
    effect = world.inject()
    assert not effect.confirmed
    assert effect.proof.endswith(
        "broker 1: 0 bytes cut that it had not synced (orders-0 from offset 900 on), 700 left"
    )
