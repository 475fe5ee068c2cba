"""Plays experiments of a space and keeps what came of them: between the search, the store and the trials.

Not here: which experiments (searching.py, pursuit.py), and how a trial is played (trials/).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from kaput.errors import KaputError
from kaput.evidence.reading import check
from kaput.search.signatures import Seen, reward, signatures
from kaput.search.space import Choices, Space
from kaput.search.store import Experiment, Store
from kaput.search.symptoms import symptoms
from kaput.trials.scaling import scaled
from kaput.trials.trial import Judged, Trial


class Play(Protocol):
    """Plays trials and judges them, in any order; each is drawn when it can begin (trials/trials.py)."""

    def __call__(self, trials: Iterable[Trial], /) -> Iterator[Judged]: ...


class Experiments:
    """`tell` hears of each experiment that is done."""

    def __init__(
        self, space: Space, store: Store, play: Play, budget_s: float, tell: Callable[[Experiment], None]
    ) -> None:
        self.space, self.store = space, store
        self._play, self._tell = play, tell
        self._budget_s, self._spent_s = budget_s, store.spent_s
        self._since = time.monotonic()
        drawn = store.experiments("draw")
        self._seen = Counter(each for experiment in drawn for each in experiment.signatures)

    @property
    def spent_s(self) -> float:
        """Seconds of search so far, those before it was resumed included."""
        return self._spent_s + time.monotonic() - self._since

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left."""
        return self._budget_s - self.spent_s

    def run(self, wanted: Iterable[Experiment]) -> Iterator[Experiment]:
        """What came of experiments that the store has begun, each as soon as it is known and kept."""
        begun: dict[str, Experiment] = {}
        for judged in self._play(self._trials(wanted, begun)):
            yield self._keep(begun.pop(judged.trial.name), judged)

    def _trials(self, wanted: Iterable[Experiment], begun: dict[str, Experiment]) -> Iterator[Trial]:
        for one in wanted:
            scale = 1.0 if one.purpose == "final" else self.store.settings.scale
            labels = {**one.choices.settings, "faults": _in_short(one.choices), "scale": scale}
            scenario = scaled(self.space.scenario(one.choices), scale)
            trial = Trial(f"{self.space.name}-{one.id}", scenario, one.seed, labels)
            begun[trial.name] = one
            yield trial

    def _keep(self, experiment: Experiment, judged: Judged) -> Experiment:
        found = _signatures(judged)
        experiment = replace(
            experiment,
            # What shares a cluster has the seed of the first, also where it was drawn with another one.
            seed=judged.folder.read_manifest().seed if judged.findings and judged.folder else experiment.seed,
            done=True,
            verdict=judged.findings.verdict if judged.findings else None,
            symptoms=tuple(symptom.key for symptom in symptoms(judged)),
            signatures=tuple(sorted(found)),
            reward=reward(found, self._seen),
            seconds=judged.seconds,
            folder=judged.folder.path.name if judged.folder else None,
            error=judged.error,
        )
        self.store.keep(experiment)
        self.store.spent_s = self.spent_s
        if experiment.purpose == "draw":
            self._seen.update(found)
        self._tell(experiment)
        return experiment


def _in_short(choices: Choices) -> str:
    """`stop broker 2 at 2s, power-loss broker 1 at 4s`."""
    return ", ".join(f"{s.get('fault')} {s.get('target', '')} at {s.get('at')}" for s in choices.steps)


def _signatures(judged: Judged) -> frozenset[str]:
    if judged.findings is None or judged.folder is None:
        return frozenset()
    try:
        evidence = check(judged.folder)
        events = sorted(evidence.rows("cluster_events"), key=lambda row: row["at_ns"])
        frames = sorted(evidence.rows("frames"), key=lambda row: row["at_ns"])
        return signatures(Seen(events, frames, evidence.rows("transactions")), judged.findings)
    except KaputError:
        return frozenset()
