"""Several runs in one table, and the statistics of repetitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kaput.evidence.findings import Findings
from kaput.report.comparison import FIGURES, Comparison
from kaput.report.document import Block, Bullets, Head, Paragraph, Section, Table
from kaput.report.formats import NOTHING, number, plural
from kaput.report.statistics import Summary, summarise

_VERDICTS = ("held", "inconclusive", "violated")  # the worst is last


def head(comparison: Comparison, runs: Sequence[Findings]) -> Head:
    """How many runs, with which verdicts. The tone is the worst of them, or `loss` where all held and some
    lost messages.
    """
    worst = max((findings.verdict for findings in runs), key=_VERDICTS.index)
    tone = "loss" if worst == "held" and any(findings.lost for findings in runs) else worst
    return Head(f"{plural(len(runs), 'run')}: {_verdicts(runs)}", tone=tone, name=comparison.title)


def _verdicts(runs: Sequence[Findings]) -> str:
    counts = Counter[str](findings.verdict for findings in runs)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])


def table(comparison: Comparison, every: bool = False) -> Section:
    """A line for each run. Figures that are the same in all are named below, unless `every` one is a column,
    as it is for a single run.
    """
    every = every or len(comparison.naming[0].cells) == 1
    figures = [column for column in comparison.figures if every or column.differs]
    shown = [*comparison.naming, *figures]
    rows = list(zip(*(column.cells for column in shown), strict=True))
    align = "".join("l" if column.left else "r" for column in shown)
    blocks: list[Block] = [Table([column.name for column in shown], rows, align)]
    same = [
        f"{column.name} {column.cells[0]}"
        for column in comparison.figures
        if column not in figures and column.cells[0] != NOTHING
    ]
    if same:
        blocks.append(Paragraph(f"The same in all: {', '.join(same)}", "fine"))
    return Section(comparison.title, blocks)


def statistics(findings: Sequence[Findings]) -> Section:
    """A line for each figure."""
    rows = []
    for figure in FIGURES:
        values = [value for one in findings if (value := figure.of(one)) is not None]
        rows.append([figure.name, *(_cells(summarise(values)) if values else ["0", *[NOTHING] * 4])])
    header = ["", "runs", "mean", "minimum", "maximum", "95 % interval"]
    return Section(f"Statistics over {len(findings)} runs: {_verdicts(findings)}", [Table(header, rows)])


def _cells(summary: Summary) -> list[str]:
    known = summary.low is not None and summary.high is not None
    interval = f"{number(summary.low)} to {number(summary.high)}" if known else NOTHING
    figures = (number(value) for value in (summary.mean, summary.minimum, summary.maximum))
    return [str(summary.n), *figures, interval]


def folders(paths: Sequence[Path]) -> Section:
    """Where the runs are."""
    return Section("The runs", [Bullets([str(path) for path in paths])])
