"""Each fault alone: what it does, what it proves, and that it says so when it did not bite."""

from __future__ import annotations

import re
import threading
import time
from typing import Any, get_args, get_type_hints

import pytest

from fakes.cluster import FakeNode, fake_scene
from fakes.steps import DISK_FAULTS, NETWORK_FAULTS
from kaput.errors import BrokerError
from kaput.faults.catalogue import descriptions, fault_class, possible_on
from kaput.faults.fault import Clock, in_parallel
from kaput.faults.kill import Kill
from kaput.faults.noop import Noop
from kaput.faults.pause import Pause
from kaput.faults.stop import Stop
from kaput.scenario.cluster import Cluster
from kaput.scenario.fault_kinds import KINDS, Options, faults_on
from kaput.scenario.steps import FaultStep, _without_none


def test_every_kind_has_a_class_for_all_that_it_hits() -> None:
    """Its name and its options are those of the kind, and no class is for more than the kind."""
    words = FaultStep.model_json_schema()["properties"]["fault"]["enum"]
    assert words == list(KINDS)
    for kind in KINDS.values():
        for hits in kind.hits:
            of_fault = fault_class(kind.name, hits)
            assert of_fault.name == kind.name
            assert of_fault.on in (hits, "nodes")
            options = get_type_hints(of_fault)["options"]
            assert kind.options in (options, *get_args(options)) or kind.options is Options


def test_an_option_of_several_faults_has_one_type() -> None:
    """It is one key of a step."""
    types: dict[str, Any] = {}
    for kind in KINDS.values():
        for name, hint in get_type_hints(kind.options, include_extras=True).items():
            if name in kind.options.model_fields:
                plain = _without_none(hint)
                assert types.setdefault(name, plain) == plain, (kind.name, name)


def test_kill_is_proven_by_process_exit_and_healed_by_restart() -> None:
    """A killed node is not running; the heal starts it again."""
    node, fault = FakeNode(1), Kill(fake_scene("kill"))
    effect = fault.inject([node])
    assert effect.confirmed and effect.effective_ns is not None and "gone" in effect.proof
    healed, after = fault.heal([node], effect)
    assert node.done == ["kill", "start"] and healed is not None and healed >= effect.effective_ns
    assert after.confirmed and "broker 1 (pid 2001) was started again" in after.proof


def test_kill_survived_by_the_process_is_not_effective() -> None:
    """The probe decides, not the signal that was sent."""
    assert not Kill(fake_scene("kill")).inject([FakeNode(1, survives=True)]).confirmed


@pytest.mark.parametrize("fault", [Kill, Stop, Pause])
def test_stopped_target_is_not_effective(fault: type[Kill | Stop | Pause]) -> None:
    """Injecting into a node that is down already has no effect, and says so."""
    node = FakeNode(1, running=False)
    effect = fault(fake_scene(fault.name)).inject([node])
    assert not effect.confirmed and effect.effective_ns is None and node.done == []


def test_kill_with_one_stopped_target_of_two_is_not_effective() -> None:
    """A fault on two nodes of which one was down did not do what the scenario says."""
    assert not Kill(fake_scene("kill")).inject([FakeNode(1), FakeNode(2, running=False)]).confirmed


def test_stop_is_proven_by_process_exit() -> None:
    """SIGTERM is a request; the proof is the end of the process."""
    assert Stop(fake_scene("stop")).inject([FakeNode(1)]).confirmed
    assert not Stop(fake_scene("stop")).inject([FakeNode(1, survives=True)]).confirmed


def test_pause_is_proven_by_zero_cpu_time() -> None:
    """No CPU time may pass between SIGSTOP and SIGCONT."""
    node, fault = FakeNode(1), Pause(fake_scene("pause"))
    effect = fault.inject([node])
    _, after = fault.heal([node], effect)
    assert after.confirmed and "0 ms of CPU" in after.proof and node.done == ["pause", "resume"]


def test_cpu_use_while_paused_is_not_effective() -> None:
    """Progress while paused is progress: somebody continued it."""
    node, fault = FakeNode(1, works_while_paused=True), Pause(fake_scene("pause"))
    _, after = fault.heal([node], fault.inject([node]))
    assert not after.confirmed


@pytest.mark.parametrize("name", faults_on("nodes"))
def test_every_fault_keeps_its_scene(name: str) -> None:
    """Whatever else it remembers."""
    scene = fake_scene(name)
    assert fault_class(name)(scene).scene is scene


def test_noop_is_effective_and_changes_nothing() -> None:
    """noop bites by definition and leaves its target alone."""
    node, fault = FakeNode(1), Noop(fake_scene("noop"))
    effect = fault.inject([node])
    assert effect.confirmed and effect.proof == "nothing done" and node.done == []
    assert effect.effective_ns is not None
    healed, after = fault.heal([node], effect)
    assert healed is not None and healed >= effect.effective_ns and after == effect and node.done == []


@pytest.mark.parametrize("kind", [Kill, Stop])
def test_heal_starts_only_nodes_stopped_by_the_fault(kind: type[Kill | Stop]) -> None:
    """A node that was down before is another step's: this one's heal must not end that."""
    nodes = [FakeNode(1), FakeNode(2, running=False)]
    fault = kind(fake_scene(kind.name))
    fault.heal(nodes, fault.inject(nodes))
    assert nodes[0].running and not nodes[1].running


@pytest.mark.parametrize("kind", [Kill, Stop])
@pytest.mark.parametrize("up", [True, False])
def test_node_started_externally_is_not_effective(kind: type[Kill | Stop], up: bool) -> None:
    """Whether it still runs at the heal or has ended again; it is left as it is."""
    node, fault = FakeNode(1), kind(fake_scene(kind.name))
    effect = fault.inject([node])
    node.start()
    node.running = up
    healed, after = fault.heal([node], effect)
    assert healed is not None and not after.confirmed
    assert "broker 1 (pid 2001) had been started by something else" in after.proof
    assert node.done.count("start") == 1


def test_failed_start_does_not_prevent_other_starts() -> None:
    """Each is started whatever became of the one before, and the proof names who is down."""
    nodes = [FakeNode(1, refuses=True), FakeNode(2, fails=True), FakeNode(3)]
    fault = Kill(fake_scene("kill"))
    healed, after = fault.heal(nodes, fault.inject(nodes))
    assert healed is None and after.confirmed is False and nodes[2].running
    assert "broker 1 could not be started again: broker 1 cannot be spawned" in after.proof
    assert "broker 2 does not run after its start" in after.proof
    assert after.proof.endswith(
        "; broker 1 could not be started again: broker 1 cannot be spawned;"
        " broker 2 does not run after its start; broker 3 (pid 2003) was started again"
    )


def test_heal_time_is_the_last_start() -> None:
    """Until then one of its nodes is down."""

    class Slow(FakeNode):
        def start(self) -> None:
            super().start()
            self.started_ns = time.time_ns()
            time.sleep(0.02)

    nodes = [Slow(1), Slow(2)]
    fault = Kill(fake_scene("kill"))
    healed, _ = fault.heal(nodes, fault.inject(nodes))
    assert healed is not None and nodes[0].started_ns < nodes[1].started_ns <= healed


def test_partial_kill_names_the_surviving_broker() -> None:
    """It took effect where it did, and is no bite."""
    effect = Kill(fake_scene("kill")).inject([FakeNode(1, survives=True), FakeNode(2)])
    assert effect.confirmed is False and effect.effective_ns is not None
    assert effect.proof.endswith("but broker 1 (pid 1001) still running")
    assert Kill(fake_scene("kill")).inject([FakeNode(1, survives=True)]).effective_ns is None


def test_kill_effect_time_is_the_last_process_exit() -> None:
    """Its times are those of the ends, not of the signals."""

    class Late(FakeNode):
        def kill(self) -> int:
            return super().kill() + 7_000_000_000 * self.id

    before = time.time_ns()
    effect = Kill(fake_scene("kill")).inject([Late(2), Late(1)])
    after = time.time_ns()
    assert effect.effective_ns is not None
    assert before <= effect.effective_ns - 14_000_000_000 <= after
    (took,) = re.findall(r"gone after ([\d.]+) ms", effect.proof)
    assert 14_000 <= float(took) <= 14_000.1 + (after - before) / 1e6


def test_stop_effect_time_is_sigterm_and_proof_has_the_duration() -> None:
    """All targets are told at the same time."""

    both = threading.Barrier(2)
    told: list[int] = []

    class Slow(FakeNode):
        def terminate(self, timeout_s: float) -> bool:
            assert timeout_s == 60
            told.append(time.time_ns())
            both.wait(60)
            time.sleep(0.1)
            return super().terminate(timeout_s)

    start = time.time_ns()
    effect = Stop(fake_scene("stop")).inject([Slow(1), Slow(2)])
    after = time.time_ns()
    assert effect.effective_ns is not None and start <= effect.effective_ns <= min(told)
    (took,) = re.findall(r"SIGTERM, ended after (\d+) ms", effect.proof)
    assert 100 <= int(took) <= 1 + (after - start) / 1e6
    effect = Stop(fake_scene("stop")).inject([FakeNode(1, survives=True), FakeNode(2)])
    assert effect.confirmed is False
    assert re.search(r": broker 1 \(pid 1001\) still running \d{1,4} ms after SIGTERM", effect.proof)
    assert effect.effective_ns is not None


def test_node_still_running_after_stop_is_not_healed() -> None:
    """It may still end of it; there is nothing to be started yet."""
    node, fault = FakeNode(1, survives=True), Stop(fake_scene("stop"))
    healed, after = fault.heal([node], fault.inject([node]))
    assert healed is None and "broker 1 (pid 1001) has not ended" in after.proof


def test_already_paused_node_is_not_paused_again() -> None:
    """Another step's pause proves nothing of this one, whose heal must not end it either."""
    nodes = [FakeNode(1, stopped=True), FakeNode(2)]
    fault = Pause(fake_scene("pause"))
    effect = fault.inject(nodes[:1])
    said = "broker 1 (pid 1001): stopped already before SIGSTOP"
    assert (effect.effective_ns, effect.confirmed, effect.proof) == (None, False, said)
    fault = Pause(fake_scene("pause"))
    effect = fault.inject(nodes)
    assert not effect.confirmed and effect.effective_ns is not None
    _, after = fault.heal(nodes, effect)
    assert not after.confirmed and nodes[0].stopped and nodes[0].done == [] and not nodes[1].stopped


def test_partial_pause_resumes_the_paused_node() -> None:
    """The other one went on: no bite, and nobody stays stopped."""
    nodes = [FakeNode(1), FakeNode(2, moves=True)]
    fault = Pause(fake_scene("pause"))
    effect = fault.inject(nodes)
    said = "broker 1 (pid 1001), broker 2 (pid 1002): not in the stopped state after SIGSTOP"
    assert (effect.effective_ns, effect.confirmed, effect.proof) == (None, False, said)
    assert fault.scene.clock.now() == pytest.approx(1005, abs=0.01)
    healed, after = fault.heal(nodes, effect)
    assert healed is not None and after == effect and nodes[0].done == ["pause", "resume"]
    nodes = [FakeNode(1, sleeps=True), FakeNode(2, moves=True)]
    fault = Pause(fake_scene("pause"))
    healed, after = fault.heal(nodes, fault.inject(nodes))
    assert healed is None and not after.confirmed


def test_node_resumed_before_the_heal_is_not_effective() -> None:
    """Even if it used no CPU time that could be measured."""
    node, fault = FakeNode(1), Pause(fake_scene("pause"))
    effect = fault.inject([node])
    node.stopped = False
    healed, after = fault.heal([node], effect)
    assert healed is not None and not after.confirmed and "broker 1 was no longer stopped" in after.proof


@pytest.mark.parametrize("again", [True, False])
def test_node_that_exited_while_paused_is_not_resumed(again: bool) -> None:
    """Killed by another step, and perhaps started by it: its new process is nobody's to continue."""
    node, fault = FakeNode(1), Pause(fake_scene("pause"))
    effect = fault.inject([node])
    node.kill()
    if again:
        node.stopped = False
        node.start()
    healed, after = fault.heal([node], effect)
    assert healed is not None and after.confirmed
    assert after.proof == f"{effect.proof}; broker 1 had ended by then"
    assert "resume" not in node.done


def test_node_exit_during_the_heal_does_not_block_other_resumes() -> None:
    """Its CPU time cannot be read any more; the others are continued all the same."""

    class Ends(FakeNode):
        def cpu_seconds(self) -> float:
            self.cpu += 1
            if self.cpu > 2:
                raise BrokerError(f"{self.title} has ended")
            return self.cpu

    nodes = [Ends(1), FakeNode(2)]
    fault = Pause(fake_scene("pause"))
    _, after = fault.heal(nodes, fault.inject(nodes))
    assert nodes[1].done == ["pause", "resume"]
    assert "broker 2 used 0 ms of CPU" in after.proof and "broker 1 used" not in after.proof


def test_pause_waits_for_a_delayed_stopped_state() -> None:
    """Thread by thread: some seconds for all of them, a millisecond between two looks."""

    class Hesitates(FakeNode):
        looks = 0

        def is_stopped(self) -> bool:
            self.looks += 1
            return self.stopped and self.looks > 1000

    fault = Pause(fake_scene("pause"))
    assert fault.inject([Hesitates(1)]).confirmed
    assert fault.scene.clock.now() == pytest.approx(1001, abs=0.01)


def test_node_still_stopped_after_sigcont_is_not_healed() -> None:
    """No moment of a heal, and the sentence."""
    node, fault = FakeNode(1, sleeps=True), Pause(fake_scene("pause"))
    effect = fault.inject([node])
    healed, after = fault.heal([node], effect)
    assert healed is None and not after.confirmed
    said = "broker 1 used 0 ms of CPU; still in the stopped state after SIGCONT"
    assert after.proof.startswith(f"{effect.proof}; in ") and after.proof.endswith(said)


def test_pause_proof_has_duration_and_cpu_time_per_node() -> None:
    """In milliseconds, each node's own."""
    nodes = [FakeNode(1), FakeNode(2, works_while_paused=True)]
    fault = Pause(fake_scene("pause"))
    before = time.time_ns()
    effect = fault.inject(nodes)
    assert effect.proof == "broker 1 (pid 1001), broker 2 (pid 1002): SIGSTOP, state stopped"
    time.sleep(0.05)
    _, after = fault.heal(nodes, effect)
    over_ms = (time.time_ns() - before) / 1e6
    said = after.proof.removeprefix(effect.proof)
    (lasted,) = re.findall(r"^; in (\d+) ms until SIGCONT broker 1 used 0 ms of CPU; broker 2 used 10", said)
    assert 50 <= int(lasted) <= 1 + over_ms and said.endswith("; running again") and not after.confirmed
    assert FakeNode(1, works_while_paused=True).cpu_seconds() > 1


def test_sixteen_actions_run_in_parallel() -> None:
    """Each waits until all have begun; the results are in their order."""
    all_there = threading.Barrier(16)

    def act(number: int) -> int:
        all_there.wait(60)
        return 2 * number

    assert in_parallel(act, range(16)) == [2 * number for number in range(16)]
    assert in_parallel(act, []) == []


def test_exception_is_raised_after_all_actions_ended() -> None:
    """The others are not left half-way."""
    done: list[int] = []

    def act(number: int) -> None:
        if number == 0:
            raise ValueError(number)
        done.append(number)

    with pytest.raises(ValueError, match="0"):
        in_parallel(act, range(5))
    assert sorted(done) == [1, 2, 3, 4]


def test_clock_sleeps_for_the_given_time() -> None:
    """And goes forward only."""
    clock = Clock()
    began = time.monotonic()
    before = clock.now()
    clock.sleep(0.02)
    assert 0.02 <= clock.now() - before <= time.monotonic() - began


ANYWHERE = {name for name in faults_on("nodes") if KINDS[name].needs is None} - {
    "noop",
    "command",
    "change-config",
}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set()),
        ({"network": "namespaces"}, NETWORK_FAULTS),
        ({"network": "namespaces", "disk-mb": 100}, NETWORK_FAULTS | {"disk-full"}),
        ({"network": "namespaces", "disk-mb": 100, "disk-fs": "ext4"}, NETWORK_FAULTS | DISK_FAULTS),
        ({"controllers": 1}, {"disk-loss"}),
        ({"proxies": "everybody"}, {"protocol"}),
        ({"faketime": True}, {"clock-skew"}),
        ({"memory-groups": True}, {"memory-pressure"}),
    ],
)
def test_only_possible_faults_are_offered(settings: dict[str, object], more: set[str]) -> None:
    found = possible_on(Cluster.model_validate(settings))
    assert {each.fault for each in found} == ANYWHERE | more


def test_each_fault_on_nodes_is_marked() -> None:
    """Those on members, topics and the cluster are not, although some have the same names."""
    marked = [each.fault for each in descriptions() if each.on_nodes]
    assert marked == [name for name in faults_on("nodes") if name != "command"]
