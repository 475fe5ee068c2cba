"""A rolling restart goes on only when the cluster is whole: whoever was restarted answers, all are led."""

from __future__ import annotations

import re
import threading

import pytest

from fakes.cluster import FakeAdmin, FakeNode, fake_scene
from kaput.cluster.admin import PartitionState
from kaput.cluster.wire import AccessRefused
from kaput.errors import LabError
from kaput.faults.fault import Effect, lacking
from kaput.faults.rolling_restart import RollingRestart
from waiting import PATIENCE_S

WHOLE = PartitionState(2, [1, 2, 3], [3, 2, 1])


def roll(nodes: list[FakeNode], admin: FakeAdmin | None = None) -> tuple[Effect, int | None, Effect]:
    """Injects and heals: the effect before, the moment, and the effect after."""
    fault = RollingRestart(fake_scene("rolling-restart", *nodes, admin=admin))
    effect = fault.inject(nodes)  # type: ignore[arg-type]
    return effect, *fault.heal(nodes, effect)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "whole"),
    [
        (WHOLE, True),
        (PartitionState(2, [1, 2, 3], [2, 3]), False),
        (PartitionState(None, [1, 2, 3], [1, 2, 3]), False),
        # Replication factor 1: the ISR keeps its last replica, dead or not.
        (PartitionState(None, [1], [1]), False),
        (PartitionState(1, [1], [1]), True),
        (PartitionState(None, [1, 2], []), False),
    ],
)
def test_healthy_means_a_leader_and_a_full_isr(state: PartitionState, whole: bool) -> None:
    """On every partition; the one that lacks something is named with what it has."""
    said = lacking({("orders", 0): WHOLE, ("orders", 1): state, ("orders", 2): WHOLE})
    if whole:
        assert said == ""
    else:
        assert said == f"orders/1 has leader {state.leader} and ISR {state.isr} of {state.replicas}"


def test_every_unhealthy_partition_is_listed() -> None:
    """With a comma between them."""
    short = PartitionState(1, [1, 2], [1])
    said = lacking({("orders", 0): short, ("orders", 1): short})
    assert said == "orders/0 has leader 1 and ISR [1] of [1, 2], orders/1 has leader 1 and ISR [1] of [1, 2]"


def test_targets_are_restarted_one_at_a_time() -> None:
    """One after the other, each stopped and started once, and the proof names every step."""
    nodes = [FakeNode(1), FakeNode(2), FakeNode(3)]
    effect, healed, after = roll(nodes)
    assert [node.done for node in nodes] == [["terminate", "start"]] * 3
    assert after.confirmed and after.effective_ns is not None and healed is not None
    assert healed > after.effective_ns == effect.effective_ns
    assert effect.proof == "broker 1, broker 2, broker 3: SIGTERM, one after the other"
    steps = [
        rf"broker {i} \(pid 100{i}\) ended after \d ms; ISR full within \d+ ms of its start"
        for i in (1, 2, 3)
    ]
    assert re.fullmatch("; ".join(steps), after.proof.removeprefix(f"{effect.proof}; "))


def test_next_restart_waits_for_leaders_and_full_isrs() -> None:
    """Nobody is stopped while a partition has no leader, is short of a replica, or cannot be asked about; a
    refusal, too, is no more than an answer that is missing.
    """
    nodes = [FakeNode(1), FakeNode(2)]
    leaderless, short = PartitionState(None, [1], [1]), PartitionState(2, [1, 2, 3], [2, 3])

    class Watching(FakeAdmin):
        def partitions(self, topics: object) -> object:  # type: ignore[override]
            states.append([list(node.done) for node in nodes])
            return super().partitions(topics)  # type: ignore[arg-type]

    states: list[list[list[str]]] = []
    admin = Watching(views=[WHOLE, leaderless, LabError("no answer"), AccessRefused("its user"), short])
    _, _, after = roll(nodes, admin)
    assert after.confirmed, after.proof
    first = ["terminate", "start"]
    assert states == [[[], []], *[[first, []]] * 5, [first, first]]


def test_restarted_broker_must_answer_before_the_next_restart() -> None:
    """What the others say may be from before: that it is in the ISR is no proof that it is back."""
    nodes = [FakeNode(1), FakeNode(2)]
    effect, healed, after = roll(nodes, FakeAdmin(mute=[1]))
    assert effect.confirmed and not after.confirmed and healed is None
    assert "after the start of broker 1 not every ISR was full within 120 s (broker 1 does not answer)" in (
        after.proof
    )
    assert nodes[1].done == []


@pytest.mark.parametrize("view", [PartitionState(None, [1], [1]), LabError("no answer")])
def test_unhealthy_cluster_is_not_restarted(view: PartitionState | LabError) -> None:
    """Not bitten, with what was lacking, and nobody touched."""
    nodes = [FakeNode(1), FakeNode(2)]
    effect, healed, after = roll(nodes, FakeAdmin(views=[view] * 9999))
    assert (effect.confirmed, effect.effective_ns) == (False, None) and after == effect and healed is not None
    why = "no answer" if isinstance(view, LabError) else "orders/0 has leader None and ISR [1] of [1]"
    assert effect.proof == f"not every ISR was full within 120 s ({why}), so no node was restarted"
    assert [node.done for node in nodes] == [[], []]


def test_no_node_is_restarted_if_a_target_is_down() -> None:
    """Nobody is restarted where one of them is down already."""
    nodes = [FakeNode(1), FakeNode(2, running=False)]
    effect, healed, after = roll(nodes)
    assert (effect.confirmed, effect.effective_ns, effect.proof) == (
        False,
        None,
        "not every target was running",
    )
    assert healed is not None and after == effect and nodes[0].done == []
    nodes = [FakeNode(1, running=False)]
    assert roll(nodes)[0].proof == "no target was running"


def test_node_that_ignores_sigterm_ends_the_rolling_restart() -> None:
    """The others are left alone, and the fault did not bite."""
    nodes = [FakeNode(1), FakeNode(2, survives=True), FakeNode(3)]
    effect, healed, after = roll(nodes)
    assert effect.confirmed and not after.confirmed and healed is None
    assert after.proof.endswith("; broker 2 still ran 0 s after SIGTERM")
    assert nodes[0].running and nodes[2].done == []
    nodes = [FakeNode(1, survives=True), FakeNode(2)]
    effect, healed, after = roll(nodes)
    assert not effect.confirmed and effect.effective_ns is not None and not after.confirmed and healed is None
    assert nodes[1].done == [] and nodes[0].done == ["terminate"]


def test_failed_start_ends_the_restart_and_is_retried_by_the_heal() -> None:
    """The thread says so instead of dying of it."""

    class Once(FakeNode):
        def start(self) -> None:
            self.tries = getattr(self, "tries", 0) + 1
            if self.tries == 1:
                raise LabError("no memory")
            super().start()

    nodes = [Once(1), FakeNode(2)]
    _, healed, after = roll(nodes)
    assert not after.confirmed and healed is None and nodes[0].running and nodes[1].done == []
    assert "broker 1 could not be started again: no memory" in after.proof
    assert "broker 1 (pid 2001) was started again" in after.proof


def test_heal_does_not_start_nodes_already_restarted() -> None:
    """Another step may have killed it since."""

    class Killed(FakeNode):
        def terminate(self, timeout_s: float) -> bool:
            nodes[0].running = False
            return super().terminate(timeout_s)

    nodes = [FakeNode(1), Killed(2)]
    _, healed, after = roll(nodes)
    assert after.confirmed and healed is not None and not nodes[0].running


def test_aborted_rolling_restart_stops() -> None:
    """A run that is being ended waits for no ISR; a heal starts whoever was stopped."""
    nodes = [FakeNode(1), FakeNode(2)]
    fault = RollingRestart(fake_scene("rolling-restart", *nodes, admin=FakeAdmin(views=[WHOLE], mute=[1])))
    effect = fault.inject(nodes)  # type: ignore[arg-type]
    fault.abandon()
    healing = threading.Thread(target=fault.heal, args=(nodes, effect))
    healing.start()
    healing.join(PATIENCE_S)
    assert not healing.is_alive() and nodes[0].running and nodes[1].done == []
    fault = RollingRestart(fake_scene("rolling-restart", *nodes))
    fault.abandon()
    effect = fault.inject(nodes)  # type: ignore[arg-type]
    assert not effect.confirmed and "(the run was ended)" in effect.proof
