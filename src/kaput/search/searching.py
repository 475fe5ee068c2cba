"""The search: draws experiments until one shows a symptom, pursues it, and repeats until the budget is spent.

To pursue a candidate is to confirm that it reproduces, to shrink it, and to measure its rate.

All state is in the store, so a search can be killed at any moment and resumed. The seed and the results so
far, in their order (which varies side by side), determine each draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product, takewhile
from random import Random
from typing import Any, TypeVar

from kaput.errors import LabError
from kaput.scenario.targets import recorded_target
from kaput.scenario.values import format_duration, parse_duration_ms
from kaput.search.draw import Played, draw
from kaput.search.experiments import Experiments
from kaput.search.sequential import Rate, SequentialTest
from kaput.search.space import Choices, Space, Template
from kaput.search.store import Find, Purpose, StoredExperiment
from kaput.search.symptoms import name_of
from kaput.trials.batch import at_once

_FIRST_TRIES = 3  # of a candidate: its rate there is the reference for all that follows
FINAL_TRIES = 5
SHARE = 0.5  # of the remaining budget that a pursuit may use
_HALVINGS = 3
_LEAST_MS, _LEAST_MESSAGES = 250, 500


class OutOfBudget(Exception):
    """The budget of the pursuit is spent."""


class Pursuit:
    """Pursues candidates. `publish`: publishes a find and returns its name."""

    def __init__(self, experiments: Experiments, publish: Callable[[Find], str]) -> None:
        self._experiments, self._store, self._publish = experiments, experiments.store, publish
        self._until_s = 0.0

    def pursue(self, find: Find) -> None:
        """Confirms, shrinks and publishes a candidate, or rejects it; without budget it stays a candidate."""
        self._until_s = self._experiments.left_s * SHARE
        try:
            if not self._probe(find, find.choices, SequentialTest(), least=_FIRST_TRIES):
                self._store.save_find(find, state="rejected")
                return
        except OutOfBudget:
            return
        confirmed = self._rate(find).expected
        fewest, shortest = self._shrink(find, confirmed)
        find = self._with_cause(find, fewest)
        if self._store.explain(find, fewest):
            return
        choices, rate = shortest, self._final(find, shortest)
        # Two lucky tries may have shortened it too much.
        rarer = rate.hits < rate.of * confirmed / 2
        if fewest.key != shortest.key and self._experiments.left_s > 0 and rarer:
            other = self._final(find, fewest)
            if other.hits > rate.hits:
                choices, rate = fewest, other
        saved = self._store.save_find(find, choices=choices, rate=rate)
        if rate.hits:
            self._store.save_find(saved, state="found", name=self._publish(saved))
        else:
            self._store.save_find(saved, state="rejected")

    def _probe(self, find: Find, choices: Choices, test: SequentialTest, least: int = 0) -> bool:
        """Whether these choices show the symptom, by `least` tries or more. Raises OutOfBudget."""
        try:
            scenario = self._experiments.space.scenario(choices)
        except ValueError:
            return False  # the remaining choices are invalid together
        # As many as reject it if none of them shows it.
        times = at_once(scenario, min(self._store.settings.together, least or test.misses_to_reject))

        def answer() -> bool | None:
            hits = self._hits(find, choices, "probe")
            found = test.answer(hits)
            return None if found and len(hits) < least else found

        for _ in range(2 * test.most):  # tries that failed in the lab do not count
            if (found := answer()) is not None:
                return found
            if self._experiments.left_s <= self._until_s:
                raise OutOfBudget
            # One that can begin only after others have given the answer is not needed.
            self._play("probe", find, choices, takewhile(lambda _: answer() is None, range(times)))
        return False

    def _play(self, purpose: Purpose, find: Find, choices: Choices, times: Iterable[int]) -> None:
        begun = (self._store.begin(purpose, choices, find.seed, find.id) for _ in times)
        for _ in self._experiments.run(begun):
            pass

    def _tries(self, find: Find, choices: Choices, purpose: Purpose) -> list[StoredExperiment]:
        """Those that the lab did not fail."""
        return [
            each
            for each in self._store.experiments(purpose)
            if each.find == find.id and each.choices.key == choices.key and each.error is None
        ]

    def _hits(self, find: Find, choices: Choices, purpose: Purpose) -> list[bool]:
        return [bool(_alike(find, each)) for each in self._tries(find, choices, purpose)]

    def _rate(self, find: Find) -> Rate:
        """Of the whole candidate."""
        hits = self._hits(find, find.choices, "probe")
        return Rate(sum(hits), len(hits))

    def _with_cause(self, find: Find, choices: Choices) -> Find:
        """The find with the symptom that most tries show: merged steps may do the same by another cause."""
        tries = self._tries(find, choices, "probe")
        shown = Counter(symptom for each in tries for symptom in _alike(_any_cause(find), each))
        most = max(shown, key=lambda symptom: (shown[symptom], symptom == find.symptom), default=find.symptom)
        return find if most == find.symptom else replace(find, symptom=most, seen_as=find.symptom)

    def _shrink(self, find: Find, rate: float) -> tuple[Choices, Choices]:
        """Removes or merges faults, removes settings, then shortens durations and message counts, as long
        as the symptom shows. Returns the choices with the fewest faults and settings, and the shortest, as
        far as the budget allowed. `rate`: of the whole candidate.
        """
        best = fewest = replace(find.choices, arms=())

        def reproduces(choices: Choices, test: SequentialTest | None = None) -> bool:
            nonlocal best, fewest
            shows = self._probe(about, choices, test or SequentialTest.for_rate(rate))
            if shows:
                best = choices
                fewest = fewest if test else choices
            return shows

        def reproduces_shorter(choices: Choices) -> bool:
            # Few tries suffice: a find that is longer than necessary is not a mistake.
            return reproduces(choices, SequentialTest.for_rate(rate, most=2))

        about = find
        with suppress(OutOfBudget):
            ddmin(best.steps, lambda steps: reproduces(replace(best, steps=tuple(steps))))
            about = _any_cause(find)
            while any(reproduces(choices) for choices in merged(self._experiments.space, best)):
                pass  # `best` has one step less now
            about = self._with_cause(find, best)
            ddmin(list(best.settings.items()), lambda items: reproduces(replace(best, settings=dict(items))))
            for index in range(len(best.steps)):
                _halve(lambda: _shorter(best, index, "for"), reproduces_shorter)  # noqa: B023
                _halve(lambda: _shorter(best, index, "at"), reproduces_shorter)  # noqa: B023
            _halve(lambda: self._fewer(best), reproduces_shorter)
        return fewest, best

    def _fewer(self, choices: Choices) -> Choices | None:
        """The choices with half as many messages; None if that is too few."""
        settings = dict(choices.settings)
        for index, producers in enumerate(self._experiments.space.scenario(choices).workload.producers):
            if producers.messages is None or producers.messages < 2 * _LEAST_MESSAGES:
                return None
            settings[f"workload.producers.{index}.messages"] = producers.messages // 2
        return replace(choices, settings=settings)

    def _final(self, find: Find, choices: Choices) -> Rate:
        """The rate of the smallest choices, from new tries, so that selection does not bias it, one at a
        time: a reader plays it alone, and how long clients wait depends on what else is played.
        """
        wanted = FINAL_TRIES if self._experiments.left_s > 0 else 1
        missing = wanted - len(self._hits(find, choices, "final"))
        for number in range(missing):
            self._play("final", find, choices, [number])
        hits = self._hits(find, choices, "final")
        return Rate(sum(hits), len(hits))


def _any_cause(find: Find) -> Find:
    """`lost` for `lost:deposed-leader`."""
    return replace(find, symptom=name_of(find.symptom))


def _alike(find: Find, shown: StoredExperiment) -> list[str]:
    """The find's symptom, if the experiment shows it; without a cause it stands for all causes."""
    return [each for each in shown.symptoms if find.symptom in (each, name_of(each))]


def _halve(smaller: Callable[[], Choices | None], reproduces: Callable[[Choices], bool]) -> None:
    """Applies `smaller` as long as the symptom shows, at most a few times."""
    for _ in range(_HALVINGS):
        choices = smaller()
        if choices is None or not reproduces(choices):
            return


def _shorter(choices: Choices, index: int, key: str) -> Choices | None:
    """The choices with that duration halved; None if there is none, or half would be too short."""
    step: dict[str, Any] = choices.steps[index]
    try:
        half = parse_duration_ms(step.get(key)) // 2
    except ValueError:
        return None
    if half < _LEAST_MS:
        return None
    steps = [*choices.steps]
    steps[index] = {**step, key: format_duration(half)}
    return replace(choices, steps=tuple(steps))


def merged(space: Space, choices: Choices) -> Iterator[Choices]:
    """The choices with two steps merged into one, in each way that the space allows, with the later step's
    time first. `stop broker 2` and `stop broker 3` may be `stop followers-of orders/0`, if the space has a
    target that names several for such a step. Another step may then need another target (who leads is no
    longer the same), or another event (two ISR changes may have become one).
    """
    for pair in combinations(range(len(choices.steps)), 2):
        first, second = (choices.steps[index] for index in pair)
        left = [step for index, step in enumerate(choices.steps) if index not in pair]
        rests = [left, *_adapted(space, left)]
        templates = [each for each in space.templates if each.has(first) and each.has(second)]
        targets = [
            target
            for each in templates
            for target in _options(each, "target")
            if recorded_target(target).may_be_several
        ]
        for target, step, rest in product(targets, (second, first), rests):
            one = {**step, "target": target}
            yield replace(choices, steps=(*rest[: pair[0]], one, *rest[pair[0] :]))


def _adapted(space: Space, steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The steps, with another target for one of them, or another event if it waits for one."""
    for key in ("target", "at"):
        for index, step in enumerate(steps):
            others = [
                option
                for template in space.templates
                if template.has(step)
                for option in _options(template, key)
                if option != step.get(key) and (key != "at" or _both_events(option, step["at"]))
            ]
            for option in others:
                yield [*steps[:index], {**step, key: option}, *steps[index + 1 :]]


def _both_events(one: Any, other: Any) -> bool:
    return isinstance(one, dict) and isinstance(other, dict)


def _options(template: Template, key: str) -> tuple[Any, ...]:
    return next((knob.options for knob in template.knobs if knob.path == (key,)), ())


T = TypeVar("T")


def ddmin(items: Sequence[T], reproduces: Callable[[list[T]], bool]) -> list[T]:
    """Zeller's delta debugging: a sublist of `items`, in order, from which no part can be removed.
    `reproduces`: tests a sublist; it is called only for proper sublists. Its exceptions end the reduction.
    Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28 (2002).
    """
    current, parts = list(items), 2
    if current and reproduces([]):
        return []
    while len(current) > 1:
        size = -(-len(current) // parts)
        chunks = [current[at : at + size] for at in range(0, len(current), size)]
        rests = [[each for other in chunks if other is not chunk for each in other] for chunk in chunks]
        tried = [*chunks, *rests] if len(chunks) > 2 else chunks
        smaller = next((part for part in tried if len(part) < len(current) and reproduces(part)), None)
        if smaller is not None:
            current, parts = smaller, 2
        elif parts < len(current):
            parts = min(len(current), 2 * parts)
        else:
            break
    return current


MOST_FAILURES = 5  # experiments in a row that failed in the lab: then the search fails


class Search:
    """A search. `wanted`: how many finds are enough; `publish`: publishes a find and returns its name."""

    def __init__(
        self, experiments: Experiments, *, wanted: int | None = None, publish: Callable[[Find], str]
    ) -> None:
        self._experiments, self._store, self._space = experiments, experiments.store, experiments.space
        self._settings, self._wanted = self._store.settings, wanted
        self._pursuit = Pursuit(experiments, publish)
        self._failures: list[str] = []
        self._over = False

    def run(self) -> None:
        """Searches until the budget is spent, enough is found, or nothing is left to draw. Raises what the
        trials raise, and LabError if MOST_FAILURES experiments in a row fail.
        """
        self._store.forget_unfinished_probes()
        for experiment in self._store.experiments("draw"):
            # The search was killed before it was processed.
            if experiment.symptoms and self._explained_by(experiment) is None:
                self._process(experiment)
        while True:
            for find in self._store.finds("candidate"):
                # A find that was just shrunk may explain more.
                if not self._enough() and not self._store.explain(find, find.choices):
                    self._pursuit.pursue(find)
            if self._enough() or self._over or self._experiments.left_s <= 0:
                return
            for experiment in self._experiments.run(self._next_experiments()):
                self._process(experiment)
            if len(self._failures) >= MOST_FAILURES:
                last = self._failures[-1]
                raise LabError(f"{MOST_FAILURES} experiments in a row failed; the last one: {last}")

    def _enough(self) -> bool:
        return self._wanted is not None and len(self._store.finds("found")) >= self._wanted

    def _next_experiments(self) -> Iterator[StoredExperiment]:
        """Unfinished experiments of a killed search, then new ones until there is a candidate."""
        yield from self._store.experiments("draw", done=False)
        while self._experiments.left_s > 0 and not self._store.finds("candidate"):
            if len(self._failures) >= MOST_FAILURES:
                return
            judged = self._store.experiments("draw")
            begun = self._store.experiments("draw", done=False)
            every = [*judged, *begun]
            rng = Random(f"{self._settings.seed}/{len(every)}")
            played = {each.choices.key for each in every}
            drawn = draw(
                self._space,
                [Played(each.choices, each.reward, each.missed) for each in judged if each.error is None],
                rng,
                played,
                begun=[each.choices for each in begun],
                uniform=self._settings.uniform,
                together=self._settings.together,
            )
            if not drawn:
                self._over = True
                return
            # One for all: experiments that share a cluster share its random choices.
            seed = rng.getrandbits(31)
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
