"""Plays experiments of a space and stores their results: connects the search, the store and the trials.

Not here: choosing experiments (searching.py, confirmation.py), and playing a trial (trials/).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from kaput.errors import KaputError
from kaput.evidence.reading import check
from kaput.search.signatures import EventRows, reward, signatures
from kaput.search.space import Choices, Space, time_in_words
from kaput.search.store import SearchStore, StoredExperiment
from kaput.search.symptoms import symptoms
from kaput.trials.batch import Judged, Trial
from kaput.trials.scaling import scaled


class Play(Protocol):
    """Plays trials and judges them, in any order; takes a trial when it can begin (trials/trials.py)."""

    def __call__(self, trials: Iterable[Trial], /) -> Iterator[Judged]: ...


class Experiments:
    """Plays and stores the experiments of one search. `on_done`: called for each finished experiment."""

    def __init__(
        self,
        space: Space,
        store: SearchStore,
        play: Play,
        budget_s: float,
        on_done: Callable[[StoredExperiment], None],
    ) -> None:
        self.space, self.store = space, store
        self._play, self._on_done = play, on_done
        self._budget_s, self._spent_s = budget_s, store.spent_s
        self._since = time.monotonic()
        drawn = store.experiments("draw")
        self._seen = Counter(each for experiment in drawn for each in experiment.signatures)

    @property
    def spent_s(self) -> float:
        """Seconds of search so far, including those before it was resumed."""
        return self._spent_s + time.monotonic() - self._since

    @property
    def left_s(self) -> float:
        """Seconds left of the budget."""
        return self._budget_s - self.spent_s

    def run(self, wanted: Iterable[StoredExperiment]) -> Iterator[StoredExperiment]:
        """Plays experiments that the store has begun; yields each one when its result is stored."""
        begun: dict[str, StoredExperiment] = {}
        for judged in self._play(self._trials(wanted, begun)):
            yield self._keep(begun.pop(judged.trial.name), judged)

    def _trials(
        self, wanted: Iterable[StoredExperiment], begun: dict[str, StoredExperiment]
    ) -> Iterator[Trial]:
        for one in wanted:
            scale = 1.0 if one.purpose == "final" else self.store.settings.scale
            labels = {**one.choices.settings, "faults": _summary(one.choices), "scale": scale}
            scenario = scaled(self.space.scenario(one.choices, optional=True), scale)
            trial = Trial(f"{self.space.name}-{one.id}", scenario, one.seed, labels)
            begun[trial.name] = one
            yield trial

    def _keep(self, experiment: StoredExperiment, judged: Judged) -> StoredExperiment:
        found, missed = _signatures(judged), _missed(judged, len(experiment.choices.steps))
        experiment = replace(
            experiment,
            # Experiments that share a cluster have the seed of the first, even if drawn with another one.
            seed=judged.folder.read_manifest().seed if judged.findings and judged.folder else experiment.seed,
            done=True,
            verdict=judged.findings.verdict if judged.findings else None,
            symptoms=tuple(symptom.key for symptom in symptoms(judged)),
            signatures=tuple(sorted(found)),
            reward=reward(found, self._seen, missed, judged.findings),
            missed=missed,
            seconds=judged.seconds,
            folder=judged.folder.path.name if judged.folder else None,
            error=judged.error,
        )
        self.store.save(experiment)
        self.store.spent_s = self.spent_s
        if experiment.purpose == "draw":
            self._seen.update(found)
        self._on_done(experiment)
        return experiment


def _summary(choices: Choices) -> str:
    """`stop broker 2 at 2s, power-loss broker 1 at election`."""
    return ", ".join(
        f"{s.get('fault')} {s.get('target', '')} at {time_in_words(s.get('at'))}" for s in choices.steps
    )


def _missed(judged: Judged, steps: int) -> tuple[int, ...]:
    """The steps that had no effect, by their places; a step without any record is one of them."""
    if judged.findings is None:
        return ()
    worked = {int(fault.id.partition("-")[0]) - 1 for fault in judged.findings.faults if fault.proven}
    return tuple(index for index in range(steps) if index not in worked)


def _signatures(judged: Judged) -> frozenset[str]:
    if judged.findings is None or judged.folder is None:
        return frozenset()
    try:
        evidence = check(judged.folder)
        events = sorted(evidence.rows("cluster_events"), key=lambda row: row["at_ns"])
        frames = sorted(evidence.rows("frames"), key=lambda row: row["at_ns"])
        return signatures(EventRows(events, frames, evidence.rows("transactions")), judged.findings)
    except KaputError:
        return frozenset()
