"""`kaput regress`: the same seeds on two versions or settings, or more, and what became worse."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.run import Overrides, Tags
from kaput.cli.trials import (
    Format,
    FormatOption,
    Json,
    JudgedRuns,
    Resume,
    check_resume,
    judged_runs,
    key_of,
    play,
    show,
)
from kaput.cli.verbs import Runs
from kaput.core import DEFAULT_RUNS

if TYPE_CHECKING:
    from kaput.evidence.findings import Findings
    from kaput.report.regression_report import Sides
    from kaput.trials.trial import Trial


def regress_command(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A version of Kafka, or KEY=VALUE: what B is compared with.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    scenario: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCENARIO", help="Built-in names or YAML files; before them more versions."),
    ] = None,
    *,
    tag: Tags = None,
    set_: Overrides = None,
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="How many pairs each scenario gets.")] = 10,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin no run that would end later. 0s: none.")
    ] = None,
    runs: Runs = DEFAULT_RUNS / "regress",
    resume: Resume = False,
    format: FormatOption = Format.TEXT,
    json: Json = False,
) -> None:
    """Compare versions or settings by runs with the same seeds.

    Exits with 1 if anything became worse: a figure beyond chance, or a promise of Kafka's that is broken now.
    A KEY that names a list without a position, as in workload.producers.acks=1, means all of its entries.

    Example: kaput regress 4.0.2 4.3.1 leader-kill-acks-all --budget 2h

    Example: kaput regress cluster.brokers=3 cluster.brokers=5 --tag lag
    """
    from kaput.cli.durations import milliseconds
    from kaput.errors import LabError
    from kaput.report.regression_report import document

    words = [a, b, *(scenario or [])]
    names, scenarios = _split(words)
    trials = _trials(names, scenarios, tag or [], set_ or [], repeat)
    budget_s = None if budget is None else milliseconds("--budget", budget) / 1000
    done = judged_runs(runs)
    wanted = [trial for _, trial in trials]
    check_resume(wanted, done, runs, resume)
    played = play([trial for trial in wanted if key_of(trial) not in done], runs, budget_s, "regress")
    sides = _collected(names, trials, judged_runs(runs))
    judged = [run for by_side in sides.runs.values() for each in by_side.values() for run in each.values()]
    if judged:
        command = shlex.join(["kaput", "regress", *_given(words, tag, set_)])
        show(document(sides, command), "Regressions", sides.to_json, Format.JSON if json else format)
    if played.ended is not None:
        raise played.ended
    if not judged:
        raise LabError(f"{runs} has no judged run of these scenarios")
    raise typer.Exit(_status(sides, bool(played.failed)))


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The sides, then the scenarios. Raises UsageError where there are not two sides."""
    from kaput.errors import UsageError
    from kaput.scenario.cluster import KAFKA_VERSION

    sides = [word for word in words if KAFKA_VERSION.fullmatch(word) or "=" in word]
    if len(sides) < 2 or len(set(sides)) < len(sides):
        raise UsageError("name two sides that differ, such as 4.0.2 4.3.1")
    return sides, [word for word in words if word not in sides]


def _trials(
    sides: Sequence[str], names: Sequence[str], tags: Sequence[str], overrides: Sequence[str], repeat: int
) -> list[tuple[str, Trial]]:
    """With their sides: A B, then B A, so that what changes meanwhile on the machine affects both."""
    from kaput.cli.scenario_choice import choose
    from kaput.scenario.loader import find, resolve
    from kaput.scenario.overrides import for_every
    from kaput.scenario.variation import varied
    from kaput.trials.trial import Trial

    made = []
    for choice in choose(names, tags, overrides, []):
        path = next((name for name in names if find(name)[0] == choice.name), choice.name)
        source = find(path)[1]
        for side in sides:
            text = side if "=" in side else f"cluster.kafka={side}"
            changes = [*overrides, *for_every(text, choice.scenario.dump())]
            made.append((side, choice.name, resolve(source, changes), varied(tuple(changes))))
    count = len(sides)
    blocks = [made[at : at + count] for at in range(0, len(made), count)]
    return [
        (side, Trial(name, scenario, seed, labels))
        for seed in range(1, repeat + 1)
        for block in blocks
        for side, name, scenario, labels in (block if seed % 2 else reversed(block))
    ]


def _collected(sides: Sequence[str], trials: Sequence[tuple[str, Trial]], done: JudgedRuns) -> Sides:
    from kaput.report.regression_report import Sides

    runs: dict[str, dict[str, dict[int, tuple[str, Findings]]]] = {
        trial.name: {side: {} for side in sides} for _, trial in trials
    }
    for side, trial in trials:
        if (run := done.get(key_of(trial))) is not None:
            runs[trial.name][side][trial.seed] = run
    return Sides(sides, runs)


def _given(words: Sequence[str], tags: Sequence[str] | None, overrides: Sequence[str] | None) -> list[str]:
    """The command line, without what does not change the answer."""
    return [*words, *(f"--tag={tag}" for tag in tags or ()), *(f"--set={text}" for text in overrides or ())]


def _status(sides: Sides, failed: bool) -> int:
    """1 for a regression; else that of the worst run of any side but the first."""
    from kaput.cli.judging import exit_status

    if sides.broken() or any(each.verdict == "worse" for each in sides.differences()):
        return 1
    verdicts = [one.verdict for by in sides.runs.values() for runs in by.values() for _, one in runs.values()]
    # A promise that no side keeps is no regression.
    return exit_status([word for word in verdicts if word != "violated"] or ["held"], failed)
