"""`kaput alerts score` and `tune`: rules played over recorded runs. What they print."""

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
    from kaput.monitor.alerts.rule import Rule
    from kaput.monitor.alerts.rules import Rules
    from kaput.monitor.alerts.scoring.score import RecordedRun, RuleScore, Rung, RunScore
    from kaput.monitor.alerts.scoring.truth import Fault
    from kaput.monitor.alerts.scoring.tuning import Tuning

RunDirs = Annotated[list[Path], typer.Argument(metavar="RUN_DIR", help="Run folders that were judged.")]
RulesFile = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="File of alert rules (default: the built-in ones)."),
]


def score_command(run_dir: RunDirs, rules: RulesFile = None, json: Json = False) -> None:
    """Play alert rules over recorded runs, and score them.

    Per fault and rule: how soon it rang, how soon it was resolved, and whether rightly. An alert is right if
    the fault ended only when it was healed, needless if it ended by itself, false if there was no fault.

    Example: kaput alerts score runs/*broker-killed* --rules mine.yaml
    """
    show_scores(rules_of(rules), _runs(run_dir), json)


def tune_command(
    run_dir: RunDirs,
    rule: Annotated[str, typer.Option("--rule", metavar="NAME", help="The rule.")],
    rules: RulesFile = None,
    thresholds: Annotated[
        str | None,
        typer.Option(metavar="N1,N2", help="Thresholds to try (default: over all that the runs show)."),
    ] = None,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="D1,D2", help="Durations to try as well (default: the rule's own)."),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the chart to this SVG file.")
    ] = None,
    json: Json = False,
) -> None:
    """Try other thresholds of a rule on recorded runs.

    Shows precision and delay against the threshold. It recommends the one that misses least; of several,
    those that are right most often, and of these the soonest that is not at the edge.

    Example: kaput alerts tune runs/* --rule low-send-rate --for 0s,30s
    """
    from json import dumps

    from kaput.monitor.alerts.scoring.document import tuning_document
    from kaput.monitor.alerts.scoring.tuning import tuned

    found = rules_of(rules)
    one = named(found, rule)
    tuning = tuned(found, one, _runs(run_dir), _numbers(thresholds), _durations(for_))
    if chart is not None:
        _write_chart(tuning, chart)
    if json:
        sys.stdout.write(dumps(tuning_document(tuning), indent=2) + "\n")
    else:
        _print(tuning_text(tuning))


def rules_of(path: Path | None) -> Rules:
    """The rules in that file, or the built-in ones. Raises UsageError with every mistake."""
    from kaput.monitor.alerts.loading import builtin, load

    return builtin() if path is None else load(path)


def named(rules: Rules, name: str) -> Rule:
    """The rule of that name. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.scenario.nearest import hint

    if name not in rules.by_name:
        raise UsageError(f"no rule {name}; {hint(name, rules.by_name)}")
    return rules.by_name[name]


def score_results(rules: Rules, results: Sequence[Result], to_stderr: bool) -> None:
    """Prints the scores of runs that were just made, and leaves alerts.json in each of their folders."""
    from json import dumps

    from kaput.errors import EvidenceError
    from kaput.evidence.folder import replace_text
    from kaput.monitor.alerts.scoring.document import score_document
    from kaput.monitor.alerts.scoring.judged import run_of
    from kaput.monitor.alerts.scoring.score import by_rule, scored

    scores = []
    for result in results:
        try:
            score = scored(rules, run_of(result.folder, result.findings))
        except EvidenceError as error:
            sys.stderr.write(f"kaput: no alerts: {error}\n")
            continue
        document = score_document([score], by_rule(rules, [score]))
        replace_text(result.folder.path / "alerts.json", dumps(document, indent=2) + "\n")
        scores.append(score)
    if scores:
        _print(score_text(scores, by_rule(rules, scores)), to_stderr)


def show_scores(rules: Rules, runs: Sequence[RecordedRun], json: bool) -> None:
    """Prints the scores of these runs."""
    from json import dumps

    from kaput.monitor.alerts.scoring.document import score_document
    from kaput.monitor.alerts.scoring.score import by_rule, scored

    scores = [scored(rules, run) for run in runs]
    of_rules = by_rule(rules, scores)
    if json:
        sys.stdout.write(dumps(score_document(scores, of_rules), indent=2) + "\n")
    else:
        _print(score_text(scores, of_rules))


def score_text(scores: Sequence[RunScore], of_rules: Sequence[RuleScore]) -> Text:
    """A table of faults, with what was announced because of each; one of rules; what was not played."""
    from kaput.report.document import Table
    from kaput.report.render.terminal import table_text

    header = ["run", "fault", "needed", "rule", "severity", "after s", "resolved s", "judgement"]
    text = table_text(Table(header, [row for score in scores for row in _fault_rows(score)], "lllllrrl"))
    rows = [_rule_row(score) for score in of_rules]
    header = ["rule", "severity", "right", "needless", "false", "missed", "precision", "recall", "after s"]
    text.append("\n").append_text(table_text(Table(header, rows, "llrrrrrrr")))
    played = {score.rule.name for score in of_rules}
    why: dict[str, set[str]] = {}
    for score in scores:
        for name, words in score.not_played.items():
            if name not in played:
                why.setdefault(words, set()).add(name)
    for words, names in sorted(why.items()):
        text.append(f"\nNot played, for {words}: {', '.join(sorted(names))}")
    return text.append("\n" if why else "")


def tuning_text(tuning: Tuning) -> Text:
    """The table with bars, and the recommendation."""
    from kaput.report.document import Table
    from kaput.report.render.terminal import table_text

    header = [
        "threshold",
        "for s",
        "right",
        "needless",
        "false",
        "missed",
        "precision",
        "recall",
        "after s",
        "",
    ]
    rows = [
        [
            f"{point.threshold:,.6g}{' *' if point is tuning.current else ''}",
            f"{point.for_ms / 1000:g}",
            *_figures(point.score),
            _bar(point.score.precision),
        ]
        for point in tuning.points
    ]
    text = table_text(Table(header, rows, "rrrrrrrrrl"))
    text.append("* as it is. The bar is precision.\n")
    if tuning.recommended is None:
        return text.append(f"No recommendation: {tuning.why}.\n")
    best = tuning.recommended
    held = f" for {best.for_ms / 1000:g} s" if best.for_ms else ""
    return text.append(f"Recommended: {best.threshold:,.6g}{held}: {tuning.why}.\n", style="bold")


def _runs(paths: Sequence[Path]) -> list[RecordedRun]:
    from kaput.monitor.alerts.scoring.judged import recorded_run

    return [recorded_run(path) for path in paths]


def _fault_rows(score: RunScore) -> list[list[str]]:
    name = score.run.name
    rows = []
    for fault in score.run.faults:
        first = [name, f"{fault.id} {fault.target}", ", ".join(fault.needs) or "nobody"]
        found = [[*first, *_rung_cells(each)] for each in score.rung if each.fault is fault]
        nothing = [*first, "-", "", "-", "-", _silence(score, fault)]
        rows += found if found and fault not in score.unnoticed() else [*found, nothing]
    rows += [[name, "none", "nobody", *_rung_cells(each)] for each in score.rung if each.fault is None]
    return rows or [[name, "none", "nobody", "-", "", "-", "-", "rightly silent"]]


def _silence(score: RunScore, fault: Fault) -> str:
    """Of a fault that nothing rang for."""
    if fault in score.unnoticed():
        return "missed"
    hurts = {"writes", "reads"} & set(fault.needs)
    if not hurts:
        return "rightly silent"
    return "with another fault" if hurts & score.noticed(fault) else "not played"


def _rung_cells(each: Rung) -> list[str]:
    labels = ", ".join(f"{name} {value}" for name, value in sorted(each.episode.labels.items()))
    rule = each.episode.rule
    return [
        f"{rule.name}{f' ({labels})' if labels else ''}",
        rule.severity,
        _seconds(each.detect_s),
        _seconds(each.resolve_s),
        each.judgement,
    ]


def _rule_row(score: RuleScore) -> list[str]:
    return [score.rule.name, score.rule.severity, *_figures(score)]


def _figures(score: RuleScore) -> list[str]:
    counts = [f"{count:,}" for count in (score.right, score.needless, score.false, score.missed)]
    return [*counts, _share(score.precision), _share(score.recall), _seconds(score.typical_detect_s)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _bar(share: float | None) -> str:
    return "" if share is None else "#" * round(share * 20)


def _numbers(text: str | None) -> list[float]:
    """Raises UsageError."""
    from kaput.errors import UsageError

    try:
        return [float(each) for each in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--thresholds {text}: write numbers with commas between them") from None


def _durations(text: str | None) -> list[int]:
    """Milliseconds. Raises UsageError."""
    from kaput.errors import UsageError
    from kaput.scenario.values import parse_duration_ms

    try:
        return [parse_duration_ms(each) for each in text.split(",")] if text else []
    except ValueError as error:
        raise UsageError(f"--for {text}: {error}") from None


def chart_of(tuning: Tuning) -> str:
    """The chart, as SVG."""
    from kaput.report.charts.thresholds import ThresholdPoint, thresholds_svg

    points = [
        ThresholdPoint(
            point.threshold, point.for_ms / 1000, score.precision, score.recall, score.typical_detect_s
        )
        for point in tuning.points
        for score in [point.score]
    ]
    return thresholds_svg(tuning.rule.name, points)


def _write_chart(tuning: Tuning, path: Path) -> None:
    """Raises UsageError."""
    from kaput.errors import UsageError

    try:
        path.write_text(chart_of(tuning), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written to ({error.strerror})") from None


def _print(text: Text, to_stderr: bool = False) -> None:
    from kaput.console import Console

    Console(stderr=to_stderr, soft_wrap=True).print(text, end="")
