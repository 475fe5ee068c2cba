"""`kaput alerts score` and `tune`: evaluate rules on recorded runs. Output: alerts_text.py."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kaput.cli.cluster_options import Json

if TYPE_CHECKING:
    from rich.text import Text

    from kaput.cli.series import Result
    from kaput.monitor.alerts.rules import AlertRule, AlertRules
    from kaput.monitor.alerts.scoring.score import RecordedRun
    from kaput.monitor.alerts.scoring.tuning import Tuning

RunDirs = Annotated[list[Path], typer.Argument(metavar="RUN_DIR", help="Judged run folders.")]
RulesFile = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="Alert rules file (default: the built-in rules)."),
]


def score_command(run_dir: RunDirs, rules: RulesFile = None, json: Json = False) -> None:
    """Score alert rules on recorded runs.

    For each fault and rule, shows how soon the alert fired, how soon it was resolved, and whether it was
    right. An alert is right if the fault ended only when it was healed, needless if the fault ended by
    itself, false if there was no fault.

    Example: kaput alerts score runs/*broker-killed* --rules mine.yaml
    """
    show_scores(rules_of(rules), _runs(run_dir), json)


def tune_command(
    run_dir: RunDirs,
    rule: Annotated[str, typer.Option("--rule", metavar="NAME", help="AlertRule to tune.")],
    rules: RulesFile = None,
    thresholds: Annotated[
        str | None,
        typer.Option(
            metavar="N1,N2",
            help="Thresholds to try (default: from the usual value in the runs to the worst).",
        ),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="D1,D2", help="Durations to try in addition to the rule's own."),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a chart to this SVG file.")
    ] = None,
    json: Json = False,
) -> None:
    """Try other thresholds of a rule on recorded runs.

    Shows precision and delay for each threshold. Recommends the one that misses the fewest faults; among
    equals, the one that is right most often, then the fastest one that is not at the edge.

    Example: kaput alerts tune runs/* --rule low-send-rate --for 0s,30s
    """
    from json import dumps

    from kaput.cli.alerts_text import tuning_text
    from kaput.cli.durations import milliseconds
    from kaput.monitor.alerts.scoring.tuning import tuned, tuning_document

    found = rules_of(rules)
    one = rule_named(found, rule)
    durations = [milliseconds("--for", each) for each in for_.split(",")] if for_ else []
    tuning = tuned(found, one, _runs(run_dir), _numbers(thresholds), durations)
    if chart is not None:
        _write_chart(tuning, chart)
    if json:
        sys.stdout.write(dumps(tuning_document(tuning), indent=2) + "\n")
    else:
        _print(tuning_text(tuning))


def rules_of(path: Path | None) -> AlertRules:
    """The rules in a file, or the built-in ones. Raises UsageError with every mistake."""
    from kaput.monitor.alerts.rules import builtin, load

    return builtin() if path is None else load(path)


def rule_named(rules: AlertRules, name: str) -> AlertRule:
    """The rule with that name. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.scenario.nearest import hint

    if name not in rules.by_name:
        raise UsageError(f"no rule {name}; {hint(name, rules.by_name)}")
    return rules.by_name[name]


def score_results(rules: AlertRules, results: Sequence[Result], to_stderr: bool) -> None:
    """Prints the scores of runs that were just played, and writes alerts.json to each run folder."""
    from json import dumps

    from kaput.cli.alerts_text import score_text
    from kaput.errors import EvidenceError
    from kaput.evidence.folder import replace_text
    from kaput.monitor.alerts.scoring.score import by_rule, run_of, score_document, scored

    scores = []
    for result in results:
        try:
            score = scored(rules, run_of(result.folder, result.findings))
        except EvidenceError as error:
            sys.stderr.write(f"kaput: alerts not scored: {error}\n")
            continue
        document = score_document([score], by_rule(rules, [score]))
        replace_text(result.folder.path / "alerts.json", dumps(document, indent=2) + "\n")
        scores.append(score)
    if scores:
        _print(score_text(scores, by_rule(rules, scores)), to_stderr)


def show_scores(rules: AlertRules, runs: Sequence[RecordedRun], json: bool) -> None:
    """Prints the scores of these runs."""
    from json import dumps

    from kaput.cli.alerts_text import score_text
    from kaput.monitor.alerts.scoring.score import by_rule, score_document, scored

    scores = [scored(rules, run) for run in runs]
    of_rules = by_rule(rules, scores)
    if json:
        sys.stdout.write(dumps(score_document(scores, of_rules), indent=2) + "\n")
    else:
        _print(score_text(scores, of_rules))


def _runs(paths: Sequence[Path]) -> list[RecordedRun]:
    from kaput.monitor.alerts.scoring.score import recorded_run

    return [recorded_run(path) for path in paths]


def _numbers(text: str | None) -> list[float]:
    """Parses numbers. Raises UsageError."""
    from kaput.errors import UsageError

    try:
        return [float(each) for each in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--thresholds {text}: write numbers separated by commas") from None


def chart_of(tuning: Tuning) -> str:
    """The chart as SVG."""
    from kaput.report.charts.standalone import ThresholdPoint, thresholds_svg

    points = [
        ThresholdPoint(
            point.threshold, point.for_ms / 1000, score.precision, score.recall, score.typical_detect_s
        )
        for point in tuning.points
        for score in [point.score]
    ]
    return thresholds_svg(tuning.rule.name, points)


def _write_chart(tuning: Tuning, path: Path) -> None:
    """Writes the chart. Raises UsageError."""
    from kaput.errors import UsageError

    try:
        path.write_text(chart_of(tuning), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def _print(text: Text, to_stderr: bool = False) -> None:
    from kaput.console import Console

    Console(stderr=to_stderr, soft_wrap=True).print(text, end="")
