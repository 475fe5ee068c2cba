"""The report of a matrix of faults and settings: messages lost, runs with a loss, and unavailability.

Inconclusive runs are only counted: their figures are not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.report.comparison import EVERY_FIGURE
from kaput.report.document import (
    NOTHING,
    Block,
    Cell,
    Code,
    Document,
    Head,
    Paragraph,
    Section,
    Table,
    number,
)
from kaput.report.sentences import verdict_word
from kaput.report.statistics import Summary, summary_of, wilson
from kaput.scenario.matrix import MatrixCell, MatrixFile

LOST, DUPLICATE, UNAVAILABLE = "lost", "duplicate", "unavailable ms"
FIGURES = {name: EVERY_FIGURE[name].of for name in (LOST, DUPLICATE, UNAVAILABLE)}
_LEGEND = (
    "Each cell: the median number of acknowledged messages lost, then how many of its runs lost any. "
    "A dash: not measured."
)
_HOW = (
    "Medians, with the minimum and maximum in parentheses. Runs with a loss: with the 95 % interval of the "
    "share (Wilson). Duplicates: messages stored more than once. Unavailable: the longest time "
    "without an acknowledgement from a partition."
)
_FEW = "A few runs prove little: check the interval of the share before you call a cell safe."


@dataclass(frozen=True)
class CellRuns:
    """A cell and its judged runs: (folder name, findings)."""

    cell: MatrixCell
    runs: Sequence[tuple[str, Findings]]

    @cached_property
    def counted(self) -> list[Findings]:
        return [findings for _, findings in self.runs if findings.verdict != "inconclusive"]

    @property
    def with_loss(self) -> int:
        """How many conclusive runs lost an acknowledged message."""
        return sum(findings.lost > 0 for findings in self.counted)

    def summary(self, figure: str) -> Summary | None:
        """The summary of a figure over the conclusive runs that have it; None if none has it."""
        return summary_of(map(FIGURES[figure], self.counted))

    def to_json(self) -> dict[str, Any]:
        runs = [
            {"folder": folder, "seed": one.run.seed, "verdict": one.verdict, "lost": one.lost}
            for folder, one in self.runs
        ]
        names = {"fault": self.cell.fault, "settings": dict(self.cell.words), "command": self.cell.command}
        share = wilson(self.with_loss, len(self.counted)) if self.counted else None
        found = {name: asdict(one) for name in FIGURES if (one := self.summary(name)) is not None}
        return {**names, "runs": runs, "runs_with_loss": self.with_loss, "share_with_loss_95": share, **found}


def document(matrix: MatrixFile, cells: Sequence[CellRuns], again: str) -> Document:
    """The document. `again`: the command that runs the matrix."""
    faults = list(dict.fromkeys(each.cell.fault for each in cells))
    overview = [
        Section("Lost", [Paragraph(_LEGEND), _grid(cells, faults, _lost_in_short)]),
        Section("Unavailable, in seconds (median)", [_grid(cells, faults, _unavailable_in_short)]),
        Section("Every cell", [Paragraph(_HOW), Paragraph(_where(cells))]),
    ]
    by_fault = {label: [each for each in cells if each.cell.fault == label] for label in faults}
    single = [
        _fault(matrix, label, again, some)
        for label, some in by_fault.items()
        if any(each.runs for each in some)
    ]
    sections = [Section("How it was measured", [Paragraph(matrix.description)])] if matrix.description else []
    verdicts = Counter(verdict_word(one) for each in cells for _, one in each.runs)
    counts = ", ".join(f"{count} {word}" for word, count in sorted(verdicts.items()))
    runs = plural(sum(verdicts.values()), "run")
    head = Head(
        f"{runs} of {plural(len(cells), 'cell')}: {counts or 'none yet'}", name=matrix.title, tone="held"
    )
    more = (
        "The first command continues until each cell has ten runs; the second prints this page; the third "
        "prints the matrix itself, which you can edit and pass to kaput matrix as a file."
    )
    commands = [
        f"{again} --resume --repeat 10",
        f"{again} --resume --budget 0s --format markdown",
        f"{again} --print-matrix",
    ]
    last = Section("More runs", [Paragraph(more), Code("\n".join(commands))])
    return Document(head, [*sections, *overview, *single, last], "Works offline.")


def _where(cells: Sequence[CellRuns]) -> str:
    judged = [one for each in cells for _, one in each.runs]
    versions = sorted({one.run.kafka for one in judged if one.run.kafka})
    counts = sorted({len(each.counted) for each in cells})
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    kafka = ", ".join(versions) or "of unknown version"
    return f"Kafka {kafka}. Conclusive runs of each cell: {each}. {_FEW}"


def _grid(cells: Sequence[CellRuns], faults: Sequence[str], show: Callable[[CellRuns], Cell]) -> Table:
    """A row for each combination of settings, a column for each fault."""
    by = {(each.cell.row, each.cell.fault): each for each in cells}
    rows = dict.fromkeys(each.cell.row for each in cells)
    shown = [[show(by[row, fault]) if (row, fault) in by else NOTHING for fault in faults] for row in rows]
    texts = [[row.replace(",", " "), *cells] for row, cells in zip(rows, shown, strict=True)]
    return Table(["", *faults], texts)


def _lost_in_short(each: CellRuns) -> Cell:
    if not each.counted:
        return Cell(NOTHING)
    text = f"{number(median(one.lost for one in each.counted))} ({each.with_loss}/{len(each.counted)})"
    return Cell(text, bad=each.with_loss > 0, link=_anchor(each.cell))


def _unavailable_in_short(each: CellRuns) -> Cell:
    if (found := each.summary(UNAVAILABLE)) is None:
        return Cell(NOTHING)
    return Cell(f"{found.median / 1000:.1f}", link=_anchor(each.cell))


def _fault(matrix: MatrixFile, label: str, again: str, cells: Sequence[CellRuns]) -> Section:
    header = ["cell", "runs", "lost", "runs with a loss", "duplicates", "unavailable ms"]
    blocks: list[Block] = [
        Paragraph(matrix.faults[label].about),
        Table(header, [list(_row(each)) for each in cells if each.runs], "lrrrrr"),
        Paragraph(
            "To repeat the first cell as its own matrix (for other cells, use the name in their row) or run:"
        ),
        Code(f"{again} --runs again --cells {cells[0].cell.selector}\n{cells[0].cell.command}"),
    ]
    return Section(label, blocks)


def _row(each: CellRuns) -> Iterator[str | Cell]:
    yield Cell(each.cell.selector, anchor=_anchor(each.cell))
    left_out = len(each.runs) - len(each.counted)
    yield f"{len(each.counted)}" + (f" (and {left_out} inconclusive)" if left_out else "")
    if not each.counted:
        yield from [NOTHING] * 4
        return
    n, lost = len(each.counted), each.with_loss
    low, high = wilson(lost, n)
    violated = sum(one.verdict == "violated" for one in each.counted)
    promise = f", {violated} broke Kafka's promise" if violated else ""
    yield Cell(_ranged(each.summary(LOST)) + promise, bad=bool(violated))
    yield f"{lost} of {n} ({100 * low:.0f} to {100 * high:.0f} %)"
    yield _ranged(each.summary(DUPLICATE))
    yield _ranged(each.summary(UNAVAILABLE))


def _ranged(found: Summary | None) -> str:
    return NOTHING if found is None else found.text


def _anchor(cell: MatrixCell) -> str:
    return "".join(char if char.isalnum() else "-" for char in cell.selector)
