"""command: the user's own command lines break brokers that kaput did not start.

runner/existing_cluster.py runs them; here is what they prove. Without a `prove` command the proof is whether
the broker answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kaput.core import MS
from kaput.errors import LabError
from kaput.faults.fault import CommandResult, Commands, Effect, Fault, Scene, in_parallel, now_ns
from kaput.scenario.fault_kinds import CommandOptions

# Statuses of a shell (not executable, not found, ended by a signal) or ssh (no connection), not of `prove`.
_NO_ANSWER_FROM = 126


class Command(Fault[Sequence[int]]):
    """One injection on the brokers with these ids.

    Proof: the result of `prove` before the injection (no), after it (yes), just before the heal (yes), and
    after it (no). A fault without `heal` ends by itself: only its end must be seen. The start of `inject`
    is recorded as the time it took effect: nothing it caused can be earlier.
    """

    name = "command"
    options: CommandOptions
    outlasts = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        topic, partition = scene.step.target.place or ("", "")
        self._known = {"topic": topic, "partition": str(partition)}
        self._hit: list[int] = []

    def inject(self, brokers: Sequence[int]) -> Effect:
        """Runs `inject` for all brokers in parallel. Raises LabError if it fails for one."""
        early = [broker for broker, holds in self._ask(brokers).items() if holds]
        if early:
            return Effect(None, False, f"{_names(early)}: {self._probe} before the injection, too")
        self._hit = list(brokers)
        self._commands().add_pending_heal(self.scene.step.id, brokers, self.options, self._known)
        began = now_ns()
        runs = self._run("inject", self.options.inject or "", brokers)
        took_ms = (now_ns() - began) / MS
        details = f"{_names(brokers)}: inject ended with exit status 0 after {took_ms:,.0f} ms"
        _must_succeed("inject", runs)
        pending = self._wait_until(True, brokers)
        if pending:
            some = began if len(pending) < len(brokers) else None
            waited = self.options.timeout / 1000
            return Effect(
                some, False, f"{details}, but not within {waited:g} s: {self._probe} ({_names(pending)})"
            )
        shown_ms = (now_ns() - began) / MS
        return Effect(began, True, f"{details}; {self._probe}, seen {shown_ms:,.0f} ms after its start")

    def heal(self, brokers: Sequence[int], effect: Effect) -> tuple[int | None, Effect]:
        """Runs `heal` for each broker that was hit, and waits until `prove` shows that the fault is over."""
        if not self._hit:
            return now_ns(), effect
        options = self.options
        early = [] if not options.heal or self.abandoned.is_set() else self._ended(self._hit)
        if early:
            effect = effect.with_proof(f"{_names(early)}: over before it was healed", still_confirmed=False)
        began = now_ns()
        if options.heal:
            runs = self._run("heal", options.heal, self._hit)
            _must_succeed("heal", runs)
            self._commands().heal_done(self.scene.step.id)
        lasting = self._wait_until(False, self._hit)
        if lasting:
            details = f"{_names(lasting)}: still {self._probe} {options.timeout / 1000:g} s after the heal"
            return None, effect.with_proof(details, still_confirmed=False)
        self._commands().heal_done(self.scene.step.id)
        ended = now_ns()
        if options.heal:
            details = f"healed; over {(ended - began) / MS:,.0f} ms after the start of heal"
            return ended, effect.with_proof(details, still_confirmed=True)
        return ended, effect.with_proof("ended by itself", still_confirmed=True)

    @property
    def _probe(self) -> str:
        return "prove succeeds" if self.options.prove else "does not answer"

    def _commands(self) -> Commands:
        if self.scene.commands is None:
            raise LabError("commands are for existing clusters only")
        return self.scene.commands

    def _run(self, kind: str, line: str, brokers: Sequence[int]) -> dict[int, CommandResult]:
        options, step = self.options, self.scene.step.id

        def run(broker: int) -> CommandResult:
            return self._commands().run(step, kind, broker, line, self._known, options.timeout / 1000)

        return dict(zip(brokers, in_parallel(run, brokers), strict=True))

    def _ask(self, brokers: Sequence[int]) -> dict[int, bool | None]:
        """Whether each broker is affected; None if unknown."""
        if not self.options.prove:
            admin = self.scene.admin
            return dict(zip(brokers, in_parallel(lambda b: not admin.answers(b), brokers), strict=True))
        runs = self._run("prove", self.options.prove, brokers)
        return {broker: probe_result(ran) for broker, ran in runs.items()}

    def _ended(self, brokers: Sequence[int]) -> list[int]:
        return [broker for broker, holds in self._ask(brokers).items() if holds is False]

    def _wait_until(self, wanted: bool, brokers: Sequence[int]) -> list[int]:
        """Waits until all brokers are in the wanted state, or time runs out; returns those that are not."""
        clock = self.scene.clock
        limit = clock.now() + self.options.timeout / 1000
        pending = list(brokers)
        while True:
            answers = self._ask(pending)
            pending = [broker for broker in pending if answers[broker] is not wanted]
            if not pending or self.abandoned.is_set() or clock.now() >= limit:
                return pending
            clock.sleep(0.2)


def probe_result(ran: CommandResult) -> bool | None:
    """Whether `prove` shows the fault; None if it did not answer."""
    if ran.status is None or ran.status < 0 or ran.status >= _NO_ANSWER_FROM:
        return None
    return ran.status == 0


def _must_succeed(kind: str, runs: Mapping[int, CommandResult]) -> None:
    wrong = [f"broker {broker}: {ran.how(kind)}" for broker, ran in runs.items() if ran.status != 0]
    if wrong:
        raise LabError("; ".join(wrong))


def _names(brokers: Sequence[int]) -> str:
    return ("broker " if len(brokers) == 1 else "brokers ") + ", ".join(map(str, brokers))
