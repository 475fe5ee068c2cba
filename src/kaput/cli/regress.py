"""`kaput regress`: plays the same seeds on two or more versions or settings, and reports regressions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from kaput.cli import completion
from kaput.cli.run import Overrides, Tags
from kaput.cli.trials import Budget, FormatOption, Json, JudgedRuns, Resume, key_of, play, show
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS
from kaput.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from kaput.evidence.findings import Findings
    from kaput.report.regression_report import Sides
    from kaput.scenario.model import Scenario
    from kaput.trials.batch import Trial


def regress_command(
    a: Annotated[str, Argument(metavar="A", help="Kafka version or KEY=VALUE to compare B with.")],
    b: Annotated[str, Argument(metavar="B", help="Kafka version or KEY=VALUE to compare with A.")],
    scenario: Annotated[
        list[str] | None,
        Argument(
            metavar="SCENARIO",
            autocompletion=completion.scenarios,
            help="Built-in names or YAML files, after any more versions.",
        ),
    ] = None,
    *,
    tag: Tags = None,
    space: Annotated[
        str | None,
        Option(metavar="FILE", help="Draw each pair's experiment from this space (see kaput search)."),
    ] = None,
    set_: Overrides = None,
    repeat: Annotated[int, Option(min=1, metavar="N", help="Number of pairs per scenario.")] = 10,
    budget: Budget = None,
    runs: Runs = DEFAULT_RUNS / "regress",
    resume: Resume = False,
    format: FormatOption = "text",
    json: Json = False,
) -> None:
    """Compare versions or settings in runs with the same seeds.

    Exit status 1 if anything got worse: a figure beyond chance, or a Kafka promise that is now broken. A KEY
    that names a list without a position, as in workload.producers.acks=1, applies to all of its entries.

    Example: kaput regress 4.0.2 4.3.1 leader-kill-acks-all --budget 2h

    Example: kaput regress cluster.brokers=3 cluster.brokers=5 --tag lag
    """
    from kaput.report.regression_report import document

    words = [a, b, *(scenario or [])]
    names, scenarios = _split(words)
    trials = [] if space is None else _space_trials(names, space, set_ or [], repeat)
    if space is None or scenarios or tag:
        trials += _trials(names, scenarios, tag or [], set_ or [], repeat)
    played = play([trial for _, trial in trials], runs, budget, resume, "regress")
    sides = _collect(names, trials, played.runs)
    verdicts = [
        one.verdict for by in sides.runs.values() for found in by.values() for _, one in found.values()
    ]
    if verdicts:
        tags = [f"--tag={each}" for each in tag or ()]
        drawn = [] if space is None else [f"--space={space}"]
        options = [*tags, *drawn, *(f"--set={text}" for text in set_ or ()), "--repeat", str(repeat)]
        command = shlex.join(["kaput", "regress", *words, *options])
        show(document(sides, command), "Regressions", sides.to_json, "json" if json else format)
    if sides.regressions() and played.ended is None:
        raise typer.Exit(1)
    # A promise that the first side also breaks is not a regression.
    played.end(["held" if verdict == "violated" else verdict for verdict in verdicts])


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits arguments into sides and scenarios. Raises UsageError with fewer than two sides."""
    from kaput.scenario.cluster import KAFKA_VERSION

    sides = [word for word in words if KAFKA_VERSION.fullmatch(word) or "=" in word]
    if len(sides) < 2 or len(set(sides)) < len(sides):
        raise UsageError("give two or more different versions or settings, such as 4.0.2 4.3.1")
    return sides, [word for word in words if word not in sides]


def _trials(
    sides: Sequence[str], names: Sequence[str], tags: Sequence[str], overrides: Sequence[str], repeat: int
) -> list[tuple[str, Trial]]:
    """Trials with their sides: A B, then B A, so that changes on the machine affect both. Expectations are
    removed, since they may hold only for one side.
    """
    from kaput.cli.scenario_choice import choose
    from kaput.scenario.loader import find, resolve
    from kaput.scenario.overrides import varied
    from kaput.trials.batch import Trial

    files = {Path(name).stem: name for name in names}
    made: dict[str, list[tuple[str, Scenario, dict[str, JsonValue]]]] = {side: [] for side in sides}
    for choice in choose(names, tags, overrides, []):
        name, source = find(files.get(choice.name, choice.name))
        for side in sides:
            changes = _changes(side, overrides, choice.scenario.dump())
            made[side].append((name, resolve(source, changes), varied(tuple(changes))))
    return [
        (side, Trial(name, scenario, seed, labels))
        for seed in range(1, repeat + 1)
        for side in (sides if seed % 2 else reversed(sides))
        for name, scenario, labels in made[side]
    ]


def _space_trials(
    sides: Sequence[str], name: str, overrides: Sequence[str], repeat: int
) -> list[tuple[str, Trial]]:
    """Trials of a space: the experiment drawn with a seed is played on every side."""
    import yaml

    from kaput.scenario.loader import resolve
    from kaput.scenario.overrides import varied
    from kaput.scenario.source import parse
    from kaput.search.draw import draw
    from kaput.search.loading import load
    from kaput.trials.batch import Trial

    space, made = load(name), []
    for seed in range(1, repeat + 1):
        for choices in draw(space, [], Random(seed), uniform=True):
            data = space.scenario_data(choices)
            source = parse(space.name, yaml.safe_dump(data))
            for side in sides if seed % 2 else reversed(sides):
                changes = _changes(side, overrides, data)
                labels = varied(tuple(changes))
                made.append((side, Trial(space.name, resolve(source, changes), seed, labels)))
    return made


def _changes(side: str, overrides: Sequence[str], data: Mapping[str, Any]) -> list[str]:
    from kaput.scenario.overrides import for_every

    text = side if "=" in side else f"cluster.kafka={side}"
    return ["expect={}", *overrides, *for_every(text, data)]


def _collect(sides: Sequence[str], trials: Sequence[tuple[str, Trial]], done: JudgedRuns) -> Sides:
    from kaput.report.regression_report import Sides

    runs: dict[str, dict[str, dict[int, tuple[str, Findings]]]] = {
        trial.name: {side: {} for side in sides} for _, trial in trials
    }
    for side, trial in trials:
        if (run := done.get(key_of(trial))) is not None:
            runs[trial.name][side][trial.seed] = run
    return Sides(sides, runs)
