"""The comparison of runs as text and as Markdown, and the statistics of one scenario's repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.printable import printable
from kaput.report.comparison import FIGURES, Column, Comparison
from kaput.report.layout import NOTHING, columns, number
from kaput.report.statistics import Summary, summarise


def as_text(comparison: Comparison, width: int | None = None) -> Text:
    """A line for each run; the figures that are the same in all of them stand below, once.

    `width`: of the terminal. A table that does not fit is turned over, a column for each run, if that does.
    """
    same = [column for column in comparison.figures if not column.differs]
    shown = [*comparison.naming, *(column for column in comparison.figures if column.differs)]
    if len(comparison.naming[0].cells) == 1:
        same, shown = [], [*comparison.naming, *comparison.figures]
    table, turned = _lines(shown), _turned(shown)
    if width is not None and _width(turned) <= width < _width(table):
        table = turned
    known = [f"{column.name} {column.cells[0]}" for column in same if column.cells[0] != NOTHING]
    below = f"  The same in all: {printable(', '.join(known))}\n" if known else ""
    return Text.assemble((f"{printable(comparison.title)}\n", "bold"), table, below)


def _lines(shown: Sequence[Column]) -> Text:
    rows = list(zip(*(column.cells for column in shown), strict=True))
    return columns([column.name for column in shown], rows, sum(column.left for column in shown))


def _turned(shown: Sequence[Column]) -> Text:
    header, *rows = ([column.name, *column.cells] for column in shown)
    return columns(header, rows)


def _width(table: Text) -> int:
    return max(len(line) for line in table.plain.splitlines())


def as_markdown(comparison: Comparison) -> str:
    """A table with every figure."""
    shown = [*comparison.naming, *comparison.figures]
    rows = [
        [column.name for column in shown],
        ["---" if column.left else "---:" for column in shown],
        *zip(*(column.cells for column in shown), strict=True),
    ]
    table = "".join(f"| {' | '.join(_escaped(cell) for cell in row)} |\n" for row in rows)
    return f"**{comparison.title}**\n\n{table}"


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split())


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
