"""Plays and judges trials, as many an hour as the machine allows.

Used by the commands `search`, `matrix` and `regress`. Not here: deciding which trials to play.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from kaput.analysis.spark.in_process import WithoutSpark, load_analysis
from kaput.api.judging import Scratch, judge, mirror_comparison, sealed_evidence
from kaput.api.running import own_provider
from kaput.cluster.distribution import Distribution, from_home, resolve
from kaput.cluster.network.reexec import check_inside
from kaput.errors import KaputError
from kaput.evidence.folder import RunFolder
from kaput.java import find_java
from kaput.processes.ending import reap_orphans
from kaput.processes.signals import interrupts
from kaput.runner.experiment import Experiment
from kaput.runner.folder_setup import check_runs
from kaput.runner.machine import of_this_machine, shortage
from kaput.runner.progress import NotesOnly, Progress
from kaput.scenario.model import Scenario
from kaput.threads import in_background
from kaput.trials.batch import (
    Judged,
    PlayedTrial,
    Trial,
    TrialBatch,
    at_once,
    needs_own,
    why_alone,
    why_apart,
)
from kaput.trials.scaling import scaled
from kaput.trials.warm import WarmClusters

_OBSERVED_S = 1.0  # the cores, before another trial begins side by side with those that are played
_BUSY_PERCENT = 75  # of all cores: none begins then, so that those that are played are not disturbed
_STOP_S = 15.0  # for experiments to end when their results are no longer wanted


class Trials:
    """A context manager that plays trials. `runs`: where run folders are created; `together`: how many trials
    may share a cluster and its faults; `side_by_side`: whether as many that cannot share one are played at
    the same time, each on its own; `busy_percent`: of the cores, since the last call; `kafka_home`: an
    installation to use instead of the locked jars. Entering raises JavaError, UsageError.
    """

    def __init__(
        self,
        runs: Path,
        *,
        progress: Progress | None = None,
        together: int = 1,
        side_by_side: bool = False,
        busy_percent: Callable[[], float] = psutil.cpu_percent,
        kafka_home: Path | None = None,
    ) -> None:
        self._runs, self._kafka_home = runs, kafka_home
        self._together, self._side_by_side, self._busy_percent = together, side_by_side, busy_percent
        self._progress = progress or NotesOnly(lambda _text: None)
        self._engine = WithoutSpark(threads=1)  # the next trials are played meanwhile
        self._stack = ExitStack()
        self._count = 0  # of trials on warm clusters
        self._observed_at = 0.0  # the cores
        self._beginning: set[int] = set()  # batches that have no cluster yet

    def __enter__(self) -> Trials:
        self._java = find_java()
        check_runs(self._runs)
        with ExitStack() as stack:
            stack.enter_context(interrupts())
            self._scratch = stack.enter_context(Scratch())
            stack.enter_context(self._engine)
            load_analysis()
            reap_orphans()
            self._clusters = stack.enter_context(
                WarmClusters(self._runs, self._java, self._distribution, self._progress.note)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def run(self, trials: Iterable[Trial]) -> Iterator[Judged]:
        """Plays and judges trials; yields results in the order in which they finish. A trial is taken from
        `trials` when it can begin or can join the current batch: successive trials with the same cluster and
        faults share them. Failures of the lab are reported in `error`. Raises Interrupted.
        """
        batches, stop = batched(trials, self._together), threading.Event()
        batch: list[Trial] | None = None
        playing: dict[Future[list[PlayedTrial]], int] = {}  # each with how many may be played with it
        judging: set[Future[Judged]] = set()
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")
        try:
            while True:
                # A batch is played while earlier ones are judged, of which no more wait.
                while len(judging) <= self._together and self._has_room(playing.values()):
                    batch = batch or next(batches, None)
                    if batch is None or not (most := self._may_begin(batch, len(playing))):
                        break
                    number, self._count = self._count + 1, self._count + len(batch)
                    self._beginning.add(number)
                    playing[in_background(partial(self._play, batch, number, stop), "play")] = most
                    batch = None
                waiting: set[Future[Any]] = {*judging, *playing}
                if not waiting:
                    return
                ended, _ = wait(waiting, _OBSERVED_S, return_when=FIRST_COMPLETED)
                for played in [future for future in playing if future in ended]:
                    del playing[played]
                    judging |= {pool.submit(self._judged, each) for each in played.result()}
                for future in [future for future in judging if future in ended]:
                    judging.remove(future)
                    yield future.result()
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            wait(playing, _STOP_S)

    def judge(self, trial: Trial, folder: RunFolder) -> Judged:
        """Judges a trial whose run was completely recorded earlier."""
        return self._judged(PlayedTrial(trial, folder, None, time.monotonic()))

    def _has_room(self, playing: Collection[int]) -> bool:
        """Whether another batch may begin: with others only once they have their clusters (whose memory is
        not free any more), and if cores were idle since the last one began. `playing`: of each one that is
        played, how many may be with it.
        """
        now = time.monotonic()
        too_early = self._beginning or now - self._observed_at < _OBSERVED_S
        if playing and (too_early or len(playing) >= min(playing)):
            return False
        self._observed_at, busy = now, self._busy_percent()
        return not playing or busy <= _BUSY_PERCENT

    def _may_begin(self, batch: list[Trial], others: int) -> int:
        """How many such batches may be played at the same time; 0: not yet, with so many others."""
        first = batch[0].scenario
        alone = why_alone(first) is not None
        most = at_once(first, self._together) if alone and self._side_by_side else 1
        if others == 0:
            return most
        fits = self._clusters.has_free(first) or shortage(first, of_this_machine()) is None
        return most if others < most and fits else 0

    def _play(self, batch: list[Trial], number: int, stop: threading.Event) -> list[PlayedTrial]:
        began = time.monotonic()
        try:
            trials = [replace(trial, scenario=scaled(trial.scenario, trial.scale)) for trial in batch]
            first = trials[0].scenario
            if first.cluster.network == "namespaces":
                check_inside()
            if needs_own(first) is not None:
                if shortage(first, of_this_machine()) is not None:
                    self._clusters.end_free()
                return [self._alone(batch[0], first, began)]
            self._progress.phase("provision")
            with self._clusters.cluster(first, stop) as cluster:
                self._beginning.discard(number)
                every = TrialBatch(
                    trials, cluster, number, runs=self._runs, progress=self._progress, stop=stop
                ).play()
            # The caller expects its own trials, with unscaled times.
            return [replace(one, trial=trial) for one, trial in zip(every, batch, strict=True)]
        except KaputError as error:
            return [PlayedTrial(trial, None, str(error), began) for trial in batch]
        finally:
            self._beginning.discard(number)

    def _alone(self, trial: Trial, scenario: Scenario, began: float) -> PlayedTrial:
        provider = own_provider(scenario, self._java, self._kafka_home, self._progress.note)
        experiment = Experiment(
            trial.name,
            scenario,
            trial.seed,
            self._runs,
            provider,
            self._progress,
            varied=trial.labels,
            compare=mirror_comparison(self._engine.session, self._scratch),
        )
        experiment.manifest = experiment.manifest.model_copy(update={"scale": trial.scale})
        failure = None
        try:
            experiment.run()
        except KaputError as error:
            failure = str(error)
        return PlayedTrial(trial, experiment.folder, failure, began)

    def _judged(self, played: PlayedTrial) -> Judged:
        findings, error = None, played.error
        try:
            if error is None and played.folder is not None:
                evidence = sealed_evidence(played.folder, self._scratch)
                findings = judge(evidence, self._engine.session, self._scratch)
        except KaputError as failure:
            error = str(failure)
        return Judged(played.trial, played.folder, findings, error, time.monotonic() - played.began)

    def _distribution(self, version: str) -> Distribution:
        if self._kafka_home is not None:
            return from_home(self._kafka_home)
        return resolve(version, self._java, note=self._progress.note)


def batched(trials: Iterable[Trial], most: int) -> Iterator[list[Trial]]:
    """Batches of up to `most` successive trials that can share a cluster and its faults."""
    left = iter(trials)
    following = next(left, None)
    while following is not None:
        first, batch, following = following, [following], None
        most_here = 1 if why_alone(first.scenario) is not None else most
        while len(batch) < most_here and (following := next(left, None)) is not None:
            if first.scale != following.scale or why_apart(first.scenario, following.scenario) is not None:
                break
            batch.append(following)
            following = None
        yield batch
        following = following or next(left, None)
