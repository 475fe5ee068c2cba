"""`kaput alerts`: alert rules, their Prometheus version, and their scores on recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from kaput.cli.options import Json, JudgedRuns, milliseconds, write_text
from kaput.cli.verbs import Verb, group, prefixed_note, print_json
from kaput.core import plural
from kaput.errors import EvidenceError, UsageError
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from rich.text import Text

    from kaput.cli.results import Result
    from kaput.monitor.alerts.rules import AlertRule, AlertRules
    from kaput.monitor.alerts.scoring.score import (
        FiredAlert,
        RecordedRun,
        RuleScore,
        RunScore,
        ScoredFault,
        Tuning,
    )


app = group(
    "Show, check, score and tune alert rules.\n\nExample: kaput alerts show > alerts.yaml", lists=True
)


@app.command("list", cls=Verb)
def list_command(rules: RulesFile = None, json: Json = False) -> None:
    """List alert rules with their severity and condition.

    Example: kaput alerts list --rules alerts.yaml
    """
    from kaput.monitor.alerts.rules import condition_words

    alert_rules = rules_of(rules)
    if json:
        print_json([_document(rule) for rule in alert_rules], indent=2)
        return
    width = max(len(rule.name) for rule in alert_rules)
    for rule in alert_rules:
        sys.stdout.write(f"{rule.name:{width}}  {rule.severity:6}  {condition_words(rule)}\n")


@app.command("show", cls=Verb)
def show_command(
    name: Annotated[
        str | None,
        Argument(metavar="NAME", help="Rule to print (default: the whole file, for editing)."),
    ] = None,
    rules: RulesFile = None,
    json: Json = False,
) -> None:
    """Print the alert rules file, or one rule and the reason for it.

    Example: kaput alerts show low-send-rate
    """
    if name is not None:
        _show_rule(rule_named(rules_of(rules), name), json)
    elif json:
        print_json([_document(rule) for rule in rules_of(rules)], indent=2)
    else:
        sys.stdout.write(_text(rules))


@app.command("check", cls=Verb)
def check_command(
    file: Annotated[Path, Argument(metavar="FILE", help="Alert rules file.")], json: Json = False
) -> None:
    """Check an alert rules file and list every mistake with its line.

    Exit status: 0 if the file is valid; 2 if not.

    Example: kaput alerts check alerts.yaml
    """
    of_file = rules_of(file)
    pages = sum(rule.severity == "page" for rule in of_file)
    if json:
        print_json({"file": str(file), "rules": len(of_file.alert_rules), "pages": pages}, indent=2)
    else:
        sys.stdout.write(f"{file}: {plural(len(of_file.alert_rules), 'rule')}, {pages} with severity page\n")


@app.command("rules", cls=Verb)
def rules_command(
    rules: RulesFile = None,
    prometheus: Annotated[
        bool, Option("--prometheus", help="Print alerting rules for Prometheus 2.42 or newer.")
    ] = False,
    alertmanager: Annotated[
        bool, Option("--alertmanager", help="Print inhibition rules for Alertmanager.")
    ] = False,
) -> None:
    """Print the rules in the format of Prometheus or Alertmanager.

    The rules use the metrics that kaput exposes.

    Example: kaput alerts rules --prometheus > kaput.rules.yml
    """
    from kaput.monitor.alerts.prometheus import alerting_rules, inhibit_rules

    if prometheus == alertmanager:
        raise UsageError("choose one: --prometheus or --alertmanager")
    alert_rules = rules_of(rules)
    sys.stdout.write(alerting_rules(alert_rules) if prometheus else inhibit_rules(alert_rules))


def _text(path: Path | None) -> str:
    from kaput.monitor.alerts.rules import builtin_text
    from kaput.scenario.source import read

    if path is None:
        return builtin_text()
    rules_of(path)
    return read(path)


def _show_rule(rule: AlertRule, json: bool) -> None:
    if json:
        print_json(_document(rule), indent=2)
        return
    from kaput.monitor.alerts.rules import condition_words

    sys.stdout.write(f"{rule.name} ({rule.severity}): {condition_words(rule)}\n{rule.why}\n")
    for inhibitor in rule.unless:
        equal = f" with the same {', '.join(inhibitor.equal)}" if inhibitor.equal else ""
        sys.stdout.write(f"Silent while {inhibitor.rule} fires{equal}.\n")


def _document(rule: AlertRule) -> dict[str, Any]:
    """A rule as in the file, without unset keys."""
    from kaput.monitor.alerts.rules import condition_words

    written: dict[str, Any] = rule.model_dump(by_alias=True, exclude_defaults=True)
    return {**written, "condition": condition_words(rule)}


RulesFile = Annotated[
    Path | None, Option("--rules", metavar="FILE", help="Alert rules file (default: the built-in rules).")
]


@app.command("score", cls=Verb)
def score_command(run_dir: JudgedRuns, rules: RulesFile = None, json: Json = False) -> None:
    """Score alert rules on recorded runs.

    For each fault and rule, shows how soon the alert fired, how soon it was resolved, and whether it was
    right. An alert is right if the fault ended only when it was healed, needless if the fault ended by
    itself, false if there was no fault.

    Example: kaput alerts score runs/*broker-killed* --rules alerts.yaml
    """
    from kaput.monitor.alerts.scoring.score import by_rule, score_document, scored

    alert_rules = rules_of(rules)
    scores = [scored(alert_rules, run) for run in _runs(run_dir)]
    of_rules = by_rule(alert_rules, scores)
    if json:
        print_json(score_document(scores, of_rules), indent=2)
    else:
        _print(score_text(scores, of_rules))


@app.command("tune", cls=Verb)
def tune_command(
    run_dir: JudgedRuns,
    rule: Annotated[str, Option("--rule", metavar="NAME", help="Rule to tune.")],
    rules: RulesFile = None,
    thresholds: Annotated[
        str | None,
        Option(
            metavar="N1,N2",
            help="Thresholds to try (default: from the usual value in the runs to the worst).",
        ),
    ] = None,
    durations: Annotated[
        str | None, Option(metavar="D1,D2", help="Durations to try in addition to the rule's own.")
    ] = None,
    chart: Annotated[Path | None, Option(metavar="FILE", help="Write a chart to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """Try other thresholds of a rule on recorded runs.

    Shows precision and delay for each threshold. Recommends the one that misses the fewest faults; among
    equals, the one that is right most often, then the fastest one that is not at the edge.

    Example: kaput alerts tune runs/* --rule low-send-rate --durations 0s,30s
    """

    from kaput.monitor.alerts.scoring.score import tuned, tuning_document

    alert_rules = rules_of(rules)
    one = rule_named(alert_rules, rule)
    tried = [milliseconds("--durations", each) for each in durations.split(",")] if durations else []
    tuning = tuned(alert_rules, one, _runs(run_dir), _numbers(thresholds), tried)
    if chart is not None:
        write_text("--chart", chart, chart_of(tuning))
    if json:
        print_json(tuning_document(tuning), indent=2)
    else:
        _print(tuning_text(tuning))


def rules_of(path: Path | None) -> AlertRules:
    """The rules in a file, or the built-in ones. Raises UsageError with every mistake."""
    from kaput.monitor.alerts.rules import builtin, load

    return builtin() if path is None else load(path)


def rule_named(rules: AlertRules, name: str) -> AlertRule:
    """The rule with that name. Raises UsageError."""
    if name not in rules.by_name:
        raise UsageError(f"no rule {name}; {hint(name, rules.by_name)}")
    return rules.by_name[name]


def score_results(rules: AlertRules, results: Sequence[Result], to_stderr: bool) -> None:
    """Prints the scores of runs that were just played, and writes alerts.json to each run folder."""
    from json import dumps

    from kaput.evidence.folder import replace_text
    from kaput.monitor.alerts.scoring.score import by_rule, run_of, score_document, scored

    scores = []
    for result in results:
        try:
            score = scored(rules, run_of(result.folder, result.findings))
        except EvidenceError as error:
            prefixed_note(f"alerts not scored: {error}")
            continue
        document = score_document([score], by_rule(rules, [score]))
        replace_text(result.folder.path / "alerts.json", dumps(document, indent=2) + "\n")
        scores.append(score)
    if scores:
        _print(score_text(scores, by_rule(rules, scores)), to_stderr)


def _runs(paths: Sequence[Path]) -> list[RecordedRun]:
    from kaput.monitor.alerts.scoring.score import recorded_run

    return [recorded_run(path) for path in paths]


def _numbers(text: str | None) -> list[float]:
    """Parses numbers. Raises UsageError."""
    try:
        return [float(each) for each in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--thresholds {text}: write numbers separated by commas") from None


def chart_of(tuning: Tuning) -> str:
    """The chart as SVG."""
    from kaput.report.charts.standalone import ThresholdPoint, thresholds_svg

    points = [
        ThresholdPoint(
            each.threshold, each.rule.for_ / 1000, each.precision, each.recall, each.typical_detect_s
        )
        for each in tuning.points
    ]
    return thresholds_svg(tuning.rule.name, points)


def _print(text: Text, to_stderr: bool = False) -> None:
    from kaput.console import Console

    Console(stderr=to_stderr, soft_wrap=True).print(text, end="")


def score_text(scores: Sequence[RunScore], of_rules: Sequence[RuleScore]) -> Text:
    """A table of faults with the alerts that each caused, a table of rules, and the faults not played."""
    from kaput.report.document import Table
    from kaput.report.render.terminal import table_text

    header = ["run", "fault", "needed help for", "rule", "severity", "after s", "resolved s", "judgement"]
    text = table_text(Table(header, [row for score in scores for row in _fault_rows(score)], "lllllrrl"))
    rows = [[score.rule.name, score.rule.severity, *_figures(score)] for score in of_rules]
    text.append("\n").append_text(table_text(Table(["rule", "severity", *_FIGURES], rows, "llrrrrrrr")))
    played = {score.rule.name for score in of_rules}
    why: dict[str, set[str]] = {}
    for score in scores:
        for name, words in score.not_played.items():
            if name not in played:
                why.setdefault(words, set()).add(name)
    for words, names in sorted(why.items()):
        text.append(f"\nNot evaluated ({words}): {', '.join(sorted(names))}")
    return text.append("\n" if why else "")


def tuning_text(tuning: Tuning) -> Text:
    """The table with bars, and the recommendation."""
    from kaput.report.document import Table
    from kaput.report.render.terminal import table_text

    rows = [
        [
            f"{point.threshold:,.6g}{' *' if point is tuning.current else ''}",
            f"{point.rule.for_ / 1000:g}",
            *_figures(point),
            "" if point.precision is None else "#" * round(point.precision * 20),
        ]
        for point in tuning.points
    ]
    text = table_text(Table(["threshold", "for s", *_FIGURES, ""], rows, "rrrrrrrrrl"))
    text.append("* current value. The bar shows precision.\n")
    if tuning.recommended is None:
        return text.append(f"No recommendation: {tuning.why}.\n")
    best = tuning.recommended
    held = f" for {best.rule.for_ / 1000:g} s" if best.rule.for_ else ""
    return text.append(f"Recommended: {best.threshold:,.6g}{held}: {tuning.why}.\n", style="bold")


_NEEDS = {"reserve": "replicas"}  # others are plain words


def _fault_rows(score: RunScore) -> list[list[str]]:
    name = score.run.name
    rows = []
    for fault in score.run.faults:
        first = [
            name,
            f"{fault.id} {fault.target}",
            ", ".join(_NEEDS.get(each, each) for each in fault.needs) or "nothing",
        ]
        lines = [[*first, *_alert_cells(each)] for each in score.rung if each.fault is fault]
        nothing = [*first, "-", "", "-", "-", _status_without_alert(score, fault)]
        rows += lines if lines and fault not in score.unnoticed() else [*lines, nothing]
    rows += [[name, "none", "nothing", *_alert_cells(each)] for each in score.rung if each.fault is None]
    return rows or [[name, "none", "nothing", "-", "", "-", "-", "rightly silent"]]


def _status_without_alert(score: RunScore, fault: ScoredFault) -> str:
    """The status of a fault for which no alert fired."""
    if fault in score.unnoticed():
        return "missed"
    hurts = {"writes", "reads"} & set(fault.needs)
    if not hurts:
        return "rightly silent"
    return "with another fault" if hurts & score.noticed(fault) else "not played"


def _alert_cells(each: FiredAlert) -> list[str]:
    labels = ", ".join(f"{name} {value}" for name, value in sorted(each.episode.labels.items()))
    rule = each.episode.rule
    return [
        f"{rule.name}{f' ({labels})' if labels else ''}",
        rule.severity,
        _seconds(each.detect_s),
        _seconds(each.resolve_s),
        each.judgement,
    ]


_FIGURES = ("right", "needless", "false", "missed", "precision", "recall", "after s")


def _figures(score: RuleScore) -> list[str]:
    counts = [f"{count:,}" for count in (score.right, score.needless, score.false, score.missed)]
    return [*counts, _share(score.precision), _share(score.recall), _seconds(score.typical_detect_s)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
