"""The fault `command`: what its proof rests on, before, while and after it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fakes.cluster import FakeAdmin, fake_scene
from kaput.errors import LabError
from kaput.faults.command import Command
from kaput.faults.fault import CommandResult, Effect, now_ns
from kaput.scenario.fault_kinds import CommandOptions


class Shell:
    """Commands on two brokers; `inject` breaks and `heal` mends, unless told. What was done is in `done`."""

    def __init__(
        self,
        *,
        breaks: bool = True,
        mends: bool = True,
        before: bool = False,
        status: Mapping[str, int | None] | None = None,
        proves: Sequence[int] = (),
    ) -> None:
        self.broken = dict.fromkeys((1, 2), before)
        self.breaks, self.mends, self.status = breaks, mends, dict(status or {})
        self.proves, self.done, self.owed = list(proves), list[str](), list[str]()
        self.asked = list[tuple[object, ...]]()
        self.debts = list[tuple[object, ...]]()
        self.last_ns = 0

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        self.asked.append((step, kind, broker, line, dict(known), timeout_s))
        self.last_ns = now_ns()
        if kind != "prove":
            self.done.append(f"{line} {broker}")
        if kind in self.status:
            return CommandResult(self.status[kind], "no such container")
        if kind == "inject":
            self.broken[broker] = self.broken[broker] or self.breaks
        elif kind == "heal":
            self.broken[broker] = self.broken[broker] and not self.mends
        elif self.proves:
            return CommandResult(self.proves.pop(0))
        else:
            return CommandResult(0 if self.broken[broker] else 1)
        return CommandResult(0)

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], options: CommandOptions, known: Mapping[str, str]
    ) -> None:
        self.owed.append(step)
        self.debts.append((step, list(brokers), options.heal or "", dict(known)))

    def heal_done(self, step: str) -> None:
        self.owed = [each for each in self.owed if each != step]


def fault(shell: Shell, admin: FakeAdmin | None = None, **options: Any) -> Command:
    """Of two seconds, with all three commands unless told."""
    given = {"inject": "break", "heal": "mend", "prove": "look", "timeout": 2000} | options
    scene = fake_scene("command", admin=admin, target="leader-of orders/0", **given)
    return Command(replace(scene, commands=shell))


MS = r"\d{1,3} ms"  # the doubles do all at once


def test_exact_proof_text_for_two_brokers() -> None:
    """What was run on each, with what it may need; how it ended; and when all that was seen."""
    shell = Shell()
    command = fault(shell)
    before = now_ns()
    effect = command.inject([1, 2])
    after = now_ns()
    assert effect.effective_ns is not None and before <= effect.effective_ns <= after
    assert re.fullmatch(
        rf"brokers 1, 2: inject ended with exit status 0 after {MS}; "
        rf"prove succeeds, seen {MS} after its start",
        effect.proof,
    ), effect.proof
    known = {"topic": "orders", "partition": "0"}
    assert shell.debts == [("1-command", [1, 2], "mend", known)]
    healed, after_all = command.heal([1, 2], effect)
    assert after_all.confirmed is True and healed is not None and after <= healed <= now_ns()
    assert re.fullmatch(rf".*; healed; over {MS} after the start of heal", after_all.proof), after_all.proof
    lines = [("prove", "look"), ("inject", "break"), ("prove", "look")]
    lines += [("prove", "look"), ("heal", "mend"), ("prove", "look")]
    by_broker = [[asked for asked in shell.asked if asked[2] == broker] for broker in (1, 2)]
    assert by_broker == [
        [("1-command", kind, broker, line, known, 2.0) for kind, line in lines] for broker in (1, 2)
    ]


def test_proof_names_the_deviating_broker() -> None:
    """Those that were broken before; those that were mended early; those that stay broken."""
    shell = Shell()
    shell.broken[2] = True
    effect = fault(shell).inject([1, 2])
    assert effect == Effect(None, False, "broker 2: prove succeeds before the injection, too")

    shell = Shell()
    command = fault(shell)
    effect = command.inject([1, 2])
    shell.broken[2] = False
    _, after = command.heal([1, 2], effect)
    assert re.fullmatch(
        rf".* its start; broker 2: over before it was healed; healed; "
        rf"over {MS} after the start of heal",
        after.proof,
    ), after.proof

    shell = Shell(mends=False)
    command = fault(shell)
    effect = command.inject([1, 2])
    shell.broken[1] = False
    healed, after = command.heal([1, 2], effect)
    assert healed is None and after.confirmed is False
    assert after.proof.endswith(
        "; broker 1: over before it was healed; broker 2: still prove succeeds 2 s after the heal"
    )


def test_failed_inject_is_reported_for_each_broker() -> None:
    """With its broker."""
    said = "broker {}: inject ended with exit status 3: no such container"
    with pytest.raises(LabError, match=f"^{said.format(1)}; {said.format(2)}$"):
        fault(Shell(status={"inject": 3})).inject([1, 2])


def test_prove_is_retried_until_the_timeout() -> None:
    """It is looked for again and again, five times a second, until the time is up."""
    shell = Shell(proves=[1, 1, 1, 1, 0])
    command = fault(shell)
    clock = command.scene.clock
    assert command.inject([1]).confirmed and clock.now() == pytest.approx(1000.6)
    command = fault(Shell(breaks=False), timeout=500)
    effect = command.inject([1])
    assert not effect.confirmed and effect.proof.endswith(", but not within 0.5 s: prove succeeds (broker 1)")
    assert command.scene.clock.now() == pytest.approx(1000.6)


def test_prove_is_not_repeated_after_success() -> None:
    """The first is down at once, the second later."""
    shell = Shell(breaks=False)
    shell.broken = {1: False, 2: False}
    command = fault(shell)
    looks = {1: 0, 2: 0}

    def run(
        step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        if kind != "prove":
            return CommandResult(0)
        looks[broker] += 1
        return CommandResult(0 if looks[broker] > broker else 1)

    shell.run = run  # type: ignore[method-assign]
    assert command.inject([1, 2]).confirmed and looks == {1: 2, 2: 3}


def test_aborted_run_runs_prove_once() -> None:
    """And does not wait."""
    shell = Shell(breaks=False)
    command = fault(shell)
    command.abandon()
    assert not command.inject([1]).confirmed and command.scene.clock.now() == 1000
    assert [asked[1] for asked in shell.asked] == ["prove", "inject", "prove"]


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        (CommandResult(0), "heal ended with exit status 0"),
        (CommandResult(1, "no such container"), "heal ended with exit status 1: no such container"),
        (CommandResult(None), "heal took too long and was ended"),
        (CommandResult(None, "waiting"), "heal took too long and was ended: waiting"),
    ],
)
def test_command_result_describes_exit_status_or_timeout(ran: CommandResult, words: str) -> None:
    """Its last words, if it had any."""
    assert ran.how("heal") == words


def test_effect_until_the_heal_is_effective() -> None:
    """It is noted as long as it does."""
    shell = Shell()
    command = fault(shell)
    effect = command.inject([1])
    assert effect.confirmed and effect.effective_ns is not None and shell.owed == ["1-command"]
    # By the machine's own clock: how long that took is its own affair.
    said = r"broker 1: inject ended with exit status 0 after \d+ ms; prove succeeds, seen"
    assert re.match(said, effect.proof), effect.proof
    healed, effect = command.heal([1], effect)
    assert effect.confirmed and healed is not None
    assert healed >= shell.last_ns, "its end counts from when prove showed it, not from the start of heal"
    assert shell.done == ["break 1", "mend 1"] and shell.owed == []


def test_prove_success_before_inject_is_not_effective() -> None:
    """And nothing is done then, nor undone."""
    shell = Shell(before=True)
    command = fault(shell)
    effect = command.inject([1])
    assert (effect.effective_ns, effect.confirmed) == (None, False)
    assert effect.proof == "broker 1: prove succeeds before the injection, too"
    assert command.heal([1], effect)[1] == effect and shell.done == [] and shell.owed == []


def test_inject_exit_status_alone_is_not_a_proof() -> None:
    """Its own exit status is no proof."""
    effect = fault(Shell(breaks=False)).inject([1])
    assert effect.confirmed is False and effect.effective_ns is None
    said = rf"broker 1: inject ended with exit status 0 after {MS}, "
    said += r"but not within 2 s: prove succeeds \(broker 1\)"
    assert re.fullmatch(said, effect.proof), effect.proof


def test_failed_inject_includes_output_and_keeps_pending_heal() -> None:
    """Half of what it does may be done: it is healed all the same."""
    shell = Shell(status={"inject": 1})
    command = fault(shell)
    with pytest.raises(LabError, match="broker 1: inject ended with exit status 1: no such container"):
        command.inject([1])
    assert shell.owed == ["1-command"]
    shell = Shell(status={"inject": None})
    with pytest.raises(LabError, match="inject took too long and was ended"):
        fault(shell).inject([1])


def test_failed_or_ineffective_heal_is_not_healed() -> None:
    """It stays noted where it failed."""
    shell = Shell()
    command = fault(shell)
    effect = command.inject([1])
    shell.status["heal"] = 1
    with pytest.raises(LabError, match="heal ended with exit status 1"):
        command.heal([1], effect)
    assert shell.owed == ["1-command"]
    shell = Shell(mends=False)
    command = fault(shell)
    healed, effect = command.heal([1], command.inject([1]))
    assert healed is None and effect.confirmed is False
    assert shell.owed == [], "what was done to heal it was done"
    assert effect.proof.endswith("broker 1: still prove succeeds 2 s after the heal")


def test_effect_that_ends_before_the_heal_is_not_effective() -> None:
    """Something else has started the broker again."""
    shell = Shell()
    command = fault(shell)
    effect = command.inject([1])
    shell.broken[1] = False
    healed, effect = command.heal([1], effect)
    assert healed is not None and not effect.confirmed
    assert "; broker 1: over before it was healed; healed" in effect.proof


def test_fault_without_heal_command_must_end_by_itself() -> None:
    """As that of a pod which is made again; but its end must come."""
    shell = Shell()
    command = fault(shell, heal="")
    effect = command.inject([1])
    shell.broken[1] = False
    healed, effect = command.heal([1], effect)
    assert effect.confirmed and healed is not None and effect.proof.endswith("; ended by itself")
    assert shell.owed == [] and shell.done == ["break 1"]
    command = fault(Shell(), heal="")
    healed, effect = command.heal([1], command.inject([1]))
    assert healed is None and not effect.confirmed


def test_effect_on_one_of_two_brokers_is_not_effective() -> None:
    """Though it had an effect."""
    shell = Shell(breaks=False)
    shell.broken = {1: False, 2: False}
    command = fault(shell)

    def run(
        step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        if kind == "inject" and broker == 2:
            shell.broken[2] = True
        return CommandResult(0 if kind != "prove" or shell.broken[broker] else 1)

    shell.run = run  # type: ignore[method-assign]
    effect = command.inject([1, 2])
    assert not effect.confirmed and effect.effective_ns is not None and effect.proof.endswith("(broker 1)")


@pytest.mark.parametrize("status", [126, 127, 137, 255, -9, None])
def test_prove_that_cannot_run_is_inconclusive(status: int | None) -> None:
    """A shell without the program, an ssh without a connection: the end of a fault is not seen by that."""
    shell = Shell()
    command = fault(shell)
    effect = command.inject([1])
    shell.status["prove"] = status
    healed, effect = command.heal([1], effect)
    assert healed is None and not effect.confirmed and "over before" not in effect.proof


def test_prove_exit_status_125_means_no_effect() -> None:
    """No."""
    shell = Shell()
    command = fault(shell)
    effect = command.inject([1])
    shell.status["prove"] = 125
    assert "over before" in command.heal([1], effect)[1].proof


def test_without_prove_the_broker_is_probed() -> None:
    """It answered before, and does no more; one that goes on answering was not hit."""
    mute: set[int] = set()
    admin = FakeAdmin()
    admin.answers = lambda node: node not in mute  # type: ignore[method-assign]
    shell = Shell()
    command = fault(shell, admin, prove="")
    broken = command.inject([1])
    assert not broken.confirmed and "not within 2 s: does not answer (broker 1)" in broken.proof
    before = shell.run

    def run(step: str, kind: str, *rest: Any) -> CommandResult:
        (mute.add if kind == "inject" else mute.discard)(1)
        return before(step, kind, *rest)

    shell.run = run  # type: ignore[method-assign]
    command = fault(shell, admin, prove="")
    effect = command.inject([1])
    assert effect.confirmed and "; does not answer, seen" in effect.proof
    healed, effect = command.heal([1], effect)
    assert effect.confirmed and healed is not None


def test_aborted_run_heals_without_waiting_for_a_proof() -> None:
    """What a command did does not end with the run, but nobody waits for its proof any more."""
    shell = Shell()
    command = fault(shell)
    effect = command.inject([1])
    command.abandon()
    command.heal([1], effect)
    assert shell.done == ["break 1", "mend 1"] and shell.owed == [] and Command.outlasts


def test_commands_are_rejected_on_lab_clusters() -> None:
    """In a cluster of kaput's own."""
    command = Command(fake_scene("command", inject="break", prove="look", timeout=10))
    with pytest.raises(LabError, match="commands are for existing clusters only"):
        command.inject([1])
