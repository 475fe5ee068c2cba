"""The search: draws experiments until one shows something, pursues that, goes on until its budget is spent.

All that it knows is in the store, so it may be killed at any moment and go on. The seed and what came of the
experiments before it determine each draw.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from random import Random

from kaput.errors import LabError
from kaput.search.draw import Beliefs, draw
from kaput.search.experiments import Experiments
from kaput.search.pursuit import Pursuit
from kaput.search.space import Choices
from kaput.search.store import Experiment, Find

MOST_FAILURES = 5  # experiments in a row that the lab could not play: then it is the lab's trouble
Confirm = Callable[[Find], None]


class Search:
    """`wanted`: how many finds are enough. `publish` writes down a find and returns its name."""

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

        Raises what the trials raise, and LabError where the lab fails again and again.
        """
        self._store.forget_unfinished_probes()
        for unheeded in self._store.experiments("draw"):
            if unheeded.symptoms and self._explained_by(unheeded) is None:  # killed before it could look
                self._look_at(unheeded)
        while True:
            self._pursue()
            if self._enough() or self._over or self._experiments.left_s <= 0:
                return
            for experiment in self._experiments.run(self._drawn()):
                self._look_at(experiment)
            self._raise_failures()

    def _pursue(self) -> None:
        """Each candidate that no find explains by then: what was shrunk meanwhile explains more."""
        for find in self._store.finds("candidate"):
            if self._enough():
                return
            found = (
                each for each in self._store.finds("found") if explains(each, [find.symptom], find.choices)
            )
            if (known := next(found, None)) is not None:
                self._store.keep_find(known, again=known.again + 1)
                self._store.keep_find(find, state="explained")
            else:
                self._pursuit.pursue(find)

    def _enough(self) -> bool:
        return self._wanted is not None and len(self._store.finds("found")) >= self._wanted

    def _drawn(self) -> Iterator[Experiment]:
        """New experiments, after those that a killed search had begun, until there is a candidate."""
        yield from self._store.experiments("draw", done=False)
        while self._experiments.left_s > 0 and not self._store.finds("candidate"):
            if len(self._failures) >= MOST_FAILURES:
                return
            judged = self._store.experiments("draw")
            every = [*judged, *self._store.experiments("draw", done=False)]
            rng = Random(f"{self._settings.seed}/{len(every)}")
            beliefs = Beliefs.of((each.choices.arms, each.reward) for each in judged)
            played = {each.choices.key for each in every}
            drawn = draw(
                self._space,
                beliefs,
                rng,
                played,
                uniform=self._settings.uniform,
                together=self._settings.together,
            )
            if not drawn:
                self._over = True
                return
            seed = rng.getrandbits(31)  # one for all: they share what is drawn from it
            yield from [self._store.begin("draw", choices, seed) for choices in drawn]

    def _look_at(self, experiment: Experiment) -> None:
        """Makes what an experiment shows a candidate, unless a find explains it."""
        self._failures = [*self._failures, experiment.error] if experiment.error else []
        if not experiment.symptoms:
            return
        if (find := self._explained_by(experiment)) is not None:
            self._store.keep_find(find, again=find.again + 1)
            return
        self._store.add_find(experiment.symptoms[0], experiment, self._experiments.spent_s)

    def _explained_by(self, experiment: Experiment) -> Find | None:
        of = experiment.symptoms, experiment.choices
        return next((find for find in self._store.finds() if explains(find, *of)), None)

    def _raise_failures(self) -> None:
        if len(self._failures) >= MOST_FAILURES:
            raise LabError(f"{MOST_FAILURES} experiments in a row failed; the last one: {self._failures[-1]}")


def explains(find: Find, symptoms: Collection[str], choices: Choices) -> bool:
    """Whether a find's bug would show itself with these choices: the same symptom, and all that it needs.
    What was rejected, or is another find's, explains itself alone.
    """
    if find.state in ("rejected", "explained"):
        return find.choices.key == choices.key
    if find.symptom not in symptoms:
        return False
    left = [step.get("fault") for step in choices.steps]
    for step in find.choices.steps:
        if step.get("fault") not in left:
            return False
        left.remove(step.get("fault"))
    needed = {key: value for key, value in find.choices.settings.items() if not key.endswith(".messages")}
    return all(choices.settings.get(key) == value for key, value in needed.items())
