"""Each fault alone: what it does, what it proves, and that it says so when it did not bite."""

from __future__ import annotations

import pytest

from fakes.cluster import FakeNode, fake_scene
from kaput.faults.catalogue import CATALOGUE
from kaput.faults.kill import Kill
from kaput.faults.noop import Noop
from kaput.faults.pause import Pause
from kaput.faults.rolling_restart import RollingRestart
from kaput.faults.stop import Stop
from kaput.scenario.steps import FaultStep


def test_the_catalogue_and_the_scenario_model_agree() -> None:
    """Every word that a scenario may use is a fault that exists, and the other way round."""
    words = FaultStep.model_json_schema()["properties"]["fault"]["enum"]
    assert sorted(words) == sorted(CATALOGUE)


def test_kill_proves_that_the_process_is_gone_and_heals_by_a_restart() -> None:
    """A killed node is not running; the heal starts it again."""
    node, fault = FakeNode(1), Kill(fake_scene())
    effect = fault.inject([node])
    assert effect.bit and effect.effective_ns is not None and "gone" in effect.proof
    healed, after = fault.heal([node], effect)
    assert node.done == ["kill", "start"] and healed >= effect.effective_ns and after.bit


def test_a_node_that_survives_its_kill_was_not_bitten() -> None:
    """The probe decides, not the signal that was sent."""
    assert not Kill(fake_scene()).inject([FakeNode(1, survives=True)]).bit


@pytest.mark.parametrize("fault", [Kill, Stop, Pause, RollingRestart])
def test_a_dead_target_cannot_be_hit(fault: type[Kill | Stop | Pause]) -> None:
    """Injecting into a node that is down already has no effect, and says so."""
    node = FakeNode(1, running=False)
    effect = fault(fake_scene()).inject([node])
    assert not effect.bit and effect.effective_ns is None and node.done == []


def test_one_dead_target_of_two_is_half_a_bite() -> None:
    """A fault on two nodes of which one was down did not do what the scenario says."""
    assert not Kill(fake_scene()).inject([FakeNode(1), FakeNode(2, running=False)]).bit


def test_stop_that_does_not_end_the_process_did_not_bite() -> None:
    """SIGTERM is a request; the proof is the end of the process."""
    assert Stop(fake_scene()).inject([FakeNode(1)]).bit
    assert not Stop(fake_scene()).inject([FakeNode(1, survives=True)]).bit


def test_pause_proves_no_progress() -> None:
    """No CPU time may pass between SIGSTOP and SIGCONT."""
    node, fault = FakeNode(1), Pause(fake_scene())
    effect = fault.inject([node])
    _, after = fault.heal([node], effect)
    assert after.bit and "0 ms of CPU" in after.proof and node.done == ["pause", "resume"]


def test_a_paused_node_that_works_was_not_bitten() -> None:
    """Progress while paused is progress: somebody continued it."""
    node, fault = FakeNode(1, works_while_paused=True), Pause(fake_scene())
    _, after = fault.heal([node], fault.inject([node]))
    assert not after.bit


def test_noop_touches_nothing() -> None:
    """noop bites by definition and leaves its target alone."""
    node, fault = FakeNode(1), Noop(fake_scene())
    effect = fault.inject([node])
    assert effect.bit and effect.proof == "nothing done" and node.done == []


def test_a_rolling_restart_restarts_each_target_in_turn() -> None:
    """One after the other, each stopped and started once, and the proof names every step."""
    nodes = [FakeNode(1), FakeNode(2), FakeNode(3)]
    fault = RollingRestart(fake_scene(*nodes))
    healed, after = fault.heal(nodes, fault.inject(nodes))
    assert [node.done[:2] for node in nodes] == [["terminate", "start"]] * 3
    assert after.bit and after.effective_ns is not None and healed > after.effective_ns
    assert after.proof.count("ISR whole") == 3


def test_a_node_that_will_not_stop_ends_the_rolling_restart() -> None:
    """The others are left alone, and the fault did not bite."""
    nodes = [FakeNode(1), FakeNode(2, survives=True), FakeNode(3)]
    fault = RollingRestart(fake_scene(*nodes))
    _, after = fault.heal(nodes, fault.inject(nodes))
    assert not after.bit and "broker 2 still ran" in after.proof
    assert "terminate" not in nodes[2].done
