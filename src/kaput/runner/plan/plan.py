"""Runs the plan of a scenario alongside its faults: each step at its time, timed and recorded.

A step that fails does not end the plan: an operator would go on too. Not here: what steps do (steps.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal

from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.nemesis_of_run import RunNemesis
from kaput.runner.plan.steps import STEPS
from kaput.runner.plan.world import MirrorControls, PlanWorld
from kaput.runner.run_cluster import RunClusters
from kaput.scenario.model import Scenario
from kaput.scenario.plan import PlanStep
from kaput.scenario.values import parse_duration_ms
from kaput.workload.supervision.supervisor import Supervisor

Outcome = Literal["done", "failed", "skipped"]
OnStep = Callable[[str], None]  # a sentence
_LOAD_OVER = "the load was over before the step was due"


class RunningPlan:
    """The plan of one run. `recorder`: of the table; `on_step` gets sentences at begins and ends."""

    def __init__(
        self, steps: Sequence[PlanStep], world: PlanWorld, recorder: Recorder, on_step: OnStep
    ) -> None:
        self._steps, self._recorder, self._on_step = steps, recorder, on_step
        self._world = world
        self._load_over = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="plan")
        self._playing: Future[None] | None = None
        self._started_at = 0.0

    def start(self) -> None:
        """Starts the plan; times are relative to now."""
        self._started_at = time.monotonic()
        self._playing = self._pool.submit(self._play)

    def load_over(self) -> None:
        """Everything is sent: steps that wait for their time, and those after them, are skipped."""
        self._load_over.set()

    def all_ended(self) -> bool:
        """Whether every step has ended; re-raises an unexpected error."""
        if self._playing is None or not self._playing.done():
            return False
        self._playing.result()
        return True

    def abort(self) -> None:
        """Begins no more steps; returns when the current one has ended."""
        self._world.aborted.set()
        self._load_over.set()
        self._pool.shutdown(wait=True)

    def _play(self) -> None:
        due = True
        for number, step in enumerate(self._steps, start=1):
            due = due and self._wait_until_due(step)
            if self._world.aborted.is_set():
                return
            if due:
                self._run_step(number, step)
            else:
                self._record(number, step, time.time_ns(), None, "skipped", _LOAD_OVER)
        self._release_held_producers()

    def _wait_until_due(self, step: PlanStep) -> bool:
        """Waits until the step may begin; False if the load ended first."""
        if step.at is not None:
            due = self._started_at + parse_duration_ms(step.at) / 1000
            return not self._load_over.wait(max(0.0, due - time.monotonic()))
        unreachable_ms = step.unreachable_ms
        return unreachable_ms is None or self._wait_until_unreachable(step, unreachable_ms / 1000)

    def _wait_until_unreachable(self, step: PlanStep, for_s: float) -> bool:
        """Waits until no broker of the cluster has answered for that long."""
        cluster, since = self._world.cluster(step.cluster), None
        while not self._load_over.wait(0.1):
            began = time.monotonic()
            if cluster.answers():
                since = None
            elif time.monotonic() - (since := since or began) >= for_s:
                return True
        return False

    def _run_step(self, number: int, step: PlanStep) -> None:
        self._on_step(f"plan: {_title(step)}")
        outcome: Outcome = "done"
        started = time.time_ns()
        try:
            proof = STEPS[step.step](self._world, step)
        except LabError as error:
            outcome, proof = "failed", str(error)
        self._record(number, step, started, time.time_ns(), outcome, proof)
        self._on_step(f"plan: {step.step} {outcome}: {proof}")

    def _record(
        self, number: int, step: PlanStep, started: int, ended: int | None, outcome: Outcome, proof: str
    ) -> None:
        self._recorder.row(f"{number} {step.step}", step.step, started, ended, outcome, proof)
        self._recorder.flush()

    def _release_held_producers(self) -> None:
        """Lets producers that were held and never moved continue where they were: the run waits for them."""
        world = self._world
        for name in {world.producer_place(number) for number in world.held}:
            numbers = [number for number in world.held if world.producer_place(number) == name]
            with suppress(LabError):
                world.clients.move_producers(world.cluster(name).destination, numbers)
        world.held.clear()


class NoPlan:
    """For a run without a plan."""

    def all_ended(self) -> bool:
        """True: there is nothing to wait for."""
        return True

    def _ignore(self) -> None:
        """Does nothing."""

    start = load_over = abort = _ignore


def _title(step: PlanStep) -> str:
    """`fence dc1`, `promote dc1->dc2`, `move-groups to dc2`"""
    to = f" to {step.to}" if step.to else ""
    return f"{step.step}{' ' if step.cluster or step.mirror else ''}{step.cluster or step.mirror or ''}{to}"


def plan_of_run(
    stack: ExitStack,
    scenario: Scenario,
    clusters: RunClusters,
    supervisor: Supervisor,
    nemesis: RunNemesis,
    folder: Path,
    on_step: OnStep,
) -> RunningPlan | NoPlan:
    """The plan, not yet started; `stack` closes its recorders."""
    if not scenario.plan:
        return NoPlan()
    rows = stack.enter_context(Recorder(folder, "mirror", "plan"))
    mirrors = MirrorControls(scenario, clusters, rows)
    world = PlanWorld(
        scenario, {each.name: each for each in clusters}, mirrors, supervisor, nemesis.heal_now, rows
    )
    recorder = stack.enter_context(Recorder(folder, "plan", "kaput"))
    return RunningPlan(scenario.plan, world, recorder, on_step)
