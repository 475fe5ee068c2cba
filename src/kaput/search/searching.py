"""The search: draws experiments until one shows a symptom, pursues it, and repeats until the budget is spent.

All state is in the store, so a search can be killed at any moment and resumed. The seed and the results so
far determine each draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from kaput.errors import LabError
from kaput.search.confirmation import Pursuit
from kaput.search.draw import Played, draw
from kaput.search.experiments import Experiments
from kaput.search.store import Find, StoredExperiment

MOST_FAILURES = 5  # experiments in a row that failed in the lab: then the search fails
Confirm = Callable[[Find], None]


class Search:
    """A search. `wanted`: how many finds are enough; `publish`: publishes a find and returns its name."""

    def __init__(
        self,
        experiments: Experiments,
        *,
        wanted: int | None = None,
        publish: Callable[[Find], str],
    ) -> None:
        self._experiments, self._store, self._space = experiments, experiments.store, experiments.space
        self._settings, self._wanted = self._store.settings, wanted
        self._pursuit = Pursuit(experiments, publish)
        self._failures: list[str] = []
        self._over = False

    def run(self) -> None:
        """Searches until the budget is spent, enough is found, or nothing is left to draw.

        Raises what the trials raise, and LabError if MOST_FAILURES experiments in a row fail.
        """
        self._store.forget_unfinished_probes()
        for unprocessed in self._store.experiments("draw"):
            if (
                unprocessed.symptoms and self._explained_by(unprocessed) is None
            ):  # killed before it was processed
                self._process(unprocessed)
        while True:
            self._pursue()
            if self._enough() or self._over or self._experiments.left_s <= 0:
                return
            for experiment in self._experiments.run(self._next_experiments()):
                self._process(experiment)
            self._raise_failures()

    def _pursue(self) -> None:
        """Pursues the candidates that no find explains: a find that was just shrunk may explain more."""
        for find in self._store.finds("candidate"):
            if self._enough():
                return
            if not self._store.explain(find, find.choices):
                self._pursuit.pursue(find)

    def _enough(self) -> bool:
        return self._wanted is not None and len(self._store.finds("found")) >= self._wanted

    def _next_experiments(self) -> Iterator[StoredExperiment]:
        """Unfinished experiments of a killed search, then new ones until there is a candidate."""
        yield from self._store.experiments("draw", done=False)
        while self._experiments.left_s > 0 and not self._store.finds("candidate"):
            if len(self._failures) >= MOST_FAILURES:
                return
            judged = self._store.experiments("draw")
            every = [*judged, *self._store.experiments("draw", done=False)]
            rng = Random(f"{self._settings.seed}/{len(every)}")
            played = {each.choices.key for each in every}
            drawn = draw(
                self._space,
                [Played(each.choices, each.reward, each.missed) for each in judged if each.error is None],
                rng,
                played,
                uniform=self._settings.uniform,
                together=self._settings.together,
            )
            if not drawn:
                self._over = True
                return
            seed = rng.getrandbits(
                31
            )  # one for all: experiments that share a cluster share its random choices
            yield from [self._store.begin("draw", choices, seed) for choices in drawn]

    def _process(self, experiment: StoredExperiment) -> None:
        """Adds the symptom of an experiment as a candidate, unless a find explains it."""
        self._failures = [*self._failures, experiment.error] if experiment.error else []
        if not experiment.symptoms:
            return
        if (find := self._explained_by(experiment)) is not None:
            self._store.save_find(find, again=find.again + 1)
            return
        self._store.add_find(experiment.symptoms[0], experiment, self._experiments.spent_s)

    def _explained_by(self, experiment: StoredExperiment) -> Find | None:
        of = experiment.symptoms, experiment.choices
        return next((find for find in self._store.finds() if find.explains(*of)), None)

    def _raise_failures(self) -> None:
        if len(self._failures) >= MOST_FAILURES:
            raise LabError(f"{MOST_FAILURES} experiments in a row failed; the last one: {self._failures[-1]}")
