"""Tables of scores of alert rules, and of tried thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from kaput.monitor.alerts.scoring.score import FiredAlert, RuleScore, RunScore, ScoredFault
    from kaput.monitor.alerts.scoring.tuning import Tuning


def score_text(scores: Sequence[RunScore], of_rules: Sequence[RuleScore]) -> Text:
    """A table of faults with the alerts that each caused, a table of rules, and the faults not played."""
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
        text.append(f"\nNot evaluated ({words}): {', '.join(sorted(names))}")
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
    text.append("* current value. The bar shows precision.\n")
    if tuning.recommended is None:
        return text.append(f"No recommendation: {tuning.why}.\n")
    best = tuning.recommended
    held = f" for {best.for_ms / 1000:g} s" if best.for_ms else ""
    return text.append(f"Recommended: {best.threshold:,.6g}{held}: {tuning.why}.\n", style="bold")


def _fault_rows(score: RunScore) -> list[list[str]]:
    name = score.run.name
    rows = []
    for fault in score.run.faults:
        first = [name, f"{fault.id} {fault.target}", ", ".join(fault.needs) or "nobody"]
        found = [[*first, *_alert_cells(each)] for each in score.rung if each.fault is fault]
        nothing = [*first, "-", "", "-", "-", _status_without_alert(score, fault)]
        rows += found if found and fault not in score.unnoticed() else [*found, nothing]
    rows += [[name, "none", "nobody", *_alert_cells(each)] for each in score.rung if each.fault is None]
    return rows or [[name, "none", "nobody", "-", "", "-", "-", "rightly silent"]]


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
