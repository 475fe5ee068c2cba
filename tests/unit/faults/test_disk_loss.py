"""disk-loss proves that the disk was empty, and that the broker serves with it."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.world import World
from kaput.errors import UsageError
from kaput.operate.fault_injection import checked_step
from kaput.scenario.checks.scenario import check
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Cluster


def test_disk_is_emptied_while_down_and_formatted_before_the_start() -> None:
    """In this order, and the proof has the numbers."""
    world = World("disk-loss", targets=(1, 2))
    effect = world.inject()
    gone = "2 files deleted (990 bytes)"
    assert effect.confirmed and effect.proof.endswith(f" ms; broker 1: {gone}; broker 2: {gone}")
    healed, after = world.heal(effect)
    assert healed is not None and after.confirmed
    assert "; broker 2, empty, answered within " in after.proof
    assert [world.nodes[i].done for i in (1, 2)] == [["kill", "delete", "format", "start"]] * 2


def test_disk_that_is_filled_meanwhile_is_no_proof() -> None:
    """Something else wrote to it: the broker did not start with an empty disk."""
    world = World("disk-loss")
    effect = world.inject()
    world.node.stored["00.log"] = 1
    _, after = world.heal(effect)
    assert not after.confirmed and "; the disk of broker 1 is not empty; " in f"{after.proof}; "


def test_target_that_was_down_keeps_its_disk() -> None:
    """Another step stopped it."""
    world = World("disk-loss")
    world.node.running = False
    effect = world.inject()
    world.heal(effect)
    assert effect.proof == "no target was running" and not world.node.done and len(world.node.stored) == 2


ZOOKEEPER = {"mode": "zookeeper", "kafka": "3.9.2"}


@pytest.mark.parametrize(
    ("cluster", "target", "message"),
    [
        ({"controllers": 1}, "leader-of orders/0", None),
        ({"brokers": 5}, "broker 4", None),
        (ZOOKEEPER, "any", None),
        ({"brokers": 5}, "broker 3", "broker 3 may be a controller, which would lose its votes, too; write "
         "broker 4"),
        ({"brokers": 5}, "any", "any may be a controller, which would lose its votes, too; write broker 4"),
        ({"brokers": 3}, "broker 1", "disk-loss needs brokers that are not controllers: those would lose "
         "the metadata log and their votes, too; start the cluster with cluster.controllers: 1"),
        ({"controllers": 1}, "controller", "disk-loss hits brokers: a controller has no disk of its own"),
        (ZOOKEEPER, "zookeeper", "disk-loss hits brokers: a zookeeper has no disk of its own"),
    ],
)  # fmt: skip
def test_only_brokers_that_do_not_vote_may_lose_their_disk(
    cluster: dict[str, Any], target: str, message: str | None
) -> None:
    """A controller that comes back empty may vote twice in one epoch, or forget every topic."""
    spec = Cluster.model_validate(cluster, by_alias=True, by_name=True)
    if message is None:
        assert checked_step("disk-loss", target, {}, spec).fault == "disk-loss"
        return
    with pytest.raises(UsageError) as error:
        checked_step("disk-loss", target, {}, spec)
    assert message in str(error.value)


def test_existing_cluster_refuses_it_in_one_sentence() -> None:
    """Its disks are not kaput's; nothing is known of its controllers."""
    found = check(load_builtin("disk-loss-in-sync"), existing=True)
    assert len(found) == 1
    assert found[0].text.startswith("disk-loss needs a cluster that kaput started, not an existing one; ")
