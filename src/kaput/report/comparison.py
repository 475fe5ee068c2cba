"""Several runs in one table: side by side, or as statistics of repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.report.layout import NOTHING, columns, number
from kaput.report.statistics import Summary, summarise

_RUNS_ACROSS = 4  # up to so many runs are columns, more are rows


@dataclass(frozen=True)
class Figure:
    """One figure of a run: its name with the unit, and where it stands. None: not measured."""

    name: str
    of: Callable[[Findings], float | None]


def _count(name: str) -> Callable[[Findings], float | None]:
    return lambda findings: sum(a.count for a in findings.anomaly(name))


def _longest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


FIGURES = (
    Figure("sent", lambda f: f.totals.sent),
    Figure("acknowledged", lambda f: f.totals.acked),
    Figure("lost", _count("lost")),
    Figure("loss window ms", lambda f: _longest(fault.loss_window_ms for fault in f.faults)),
    Figure("election ms", lambda f: _longest(fault.election_ms for fault in f.faults)),
    Figure("unavailable ms", lambda f: _longest(fault.unavailable_ms for fault in f.faults)),
    Figure("duplicates", _count("duplicate")),
    Figure("ack p99 ms", lambda f: f.latency_ms.ack.p99),
)


def side_by_side(findings: Sequence[Findings]) -> Text:
    """The runs beside each other: a column a run while they fit, else a row a run."""
    header = ["", *(f.run.scenario for f in findings)]
    rows = [["verdict", *(f.verdict for f in findings)]]
    rows += [[figure.name, *(number(figure.of(f)) for f in findings)] for figure in FIGURES]
    table = [header, *rows]
    if len(findings) > _RUNS_ACROSS:
        table = [list(column) for column in zip(*table, strict=True)]
    return Text.assemble(("Runs\n", "bold"), columns(table[0], table[1:]))


def render_statistics(findings: Sequence[Findings]) -> Text:
    """Mean, minimum, maximum and 95 % interval of each figure over repetitions of one scenario."""
    header = ["", "runs", "mean", "minimum", "maximum", "95 % interval"]
    rows = []
    for figure in FIGURES:
        values = [value for f in findings if (value := figure.of(f)) is not None]
        rows.append([figure.name, *(_cells(summarise(values)) if values else ["0", *[NOTHING] * 4])])
    verdicts = {v: sum(f.verdict == v for f in findings) for v in ("held", "violated", "inconclusive")}
    said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items() if count)
    return Text.assemble((f"Statistics over {len(findings)} runs: {said}\n", "bold"), columns(header, rows))


def _cells(summary: Summary) -> list[str]:
    interval = (
        NOTHING
        if summary.low is None or summary.high is None
        else f"{number(summary.low)} to {number(summary.high)}"
    )
    figures = (number(value) for value in (summary.mean, summary.minimum, summary.maximum))
    return [str(summary.n), *figures, interval]
