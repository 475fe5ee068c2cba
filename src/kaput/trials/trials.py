"""Plays trials and judges them, as many an hour as the machine allows.

Its place: the verbs `search`, `matrix` and `regress` hand it trials and take what came of them. Not here:
which trials are worth playing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from kaput.analysis.spark.background import Background
from kaput.api.judging import judge
from kaput.api.running import own_provider
from kaput.api.scratch import Scratch
from kaput.api.sealed import sealed_evidence
from kaput.errors import KaputError
from kaput.java import find_java
from kaput.processes.reaper import reap_orphans
from kaput.processes.signals import interrupts
from kaput.runner.experiment import Experiment
from kaput.runner.folder_setup import check_runs
from kaput.runner.progress import NotesAlone, Progress
from kaput.trials.trial import Judged, Trial


def _silent(_text: str) -> None:
    pass


class Trials:
    """A context manager. `runs`: where run folders are made; `scale`: what all timeouts are multiplied by;
    `together`: the most trials that share a cluster and its faults.

    `kafka_home`: an installation to use instead of the locked jars. Entering raises JavaError, UsageError.
    """

    def __init__(
        self,
        runs: Path,
        *,
        progress: Progress | None = None,
        scale: float = 1.0,
        together: int = 1,
        kafka_home: Path | None = None,
    ) -> None:
        self._runs, self._kafka_home = runs, kafka_home
        self._progress = progress or NotesAlone(_silent)
        self._scale, self._together = scale, together
        self._stack = ExitStack()

    def __enter__(self) -> Trials:
        self._java = find_java()
        check_runs(self._runs)
        with ExitStack() as stack:
            stack.enter_context(interrupts())
            self._scratch = stack.enter_context(Scratch())
            self._spark = stack.enter_context(Background(rehearse=True))
            reap_orphans()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def run(self, trials: Iterable[Trial]) -> Iterator[Judged]:
        """What came of each trial, in the order in which that is known; each is drawn when it can begin.

        Raises Interrupted; what the lab cannot do is told in `error`.
        """
        for trial in trials:
            yield self._one(trial)

    def _one(self, trial: Trial) -> Judged:
        began, folder = time.monotonic(), None
        try:
            provider = own_provider(trial.scenario, self._java, self._kafka_home, self._progress.note)
            experiment = Experiment(
                trial.name,
                trial.scenario,
                trial.seed,
                self._runs,
                provider,
                self._progress,
                varied=trial.labels,
                on_load=self._spark.prepare,
                on_load_over=self._spark.begin,
            )
            folder = experiment.folder
            experiment.run()
            findings = judge(sealed_evidence(folder, self._scratch), self._spark.session, self._scratch)
        except KaputError as error:
            return Judged(trial, folder, None, str(error), time.monotonic() - began)
        return Judged(trial, folder, findings, None, time.monotonic() - began)
