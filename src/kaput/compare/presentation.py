"""Turns the answer into a document, which report/render shows as text or as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kaput.compare.answer import IDENTICAL, LOST, Answer, ComparedPartition, Row
from kaput.core import plural
from kaput.evidence.comparisons import Status
from kaput.report.document import Bullets, Cell, Document, Head, NamedValues, Paragraph, Section, Table

_WORDS: dict[Status, str] = {
    "identical": "identical",
    "differs by design": "different by design",
    "lost": "lost",
}
_TONES = {"identical": "held", "differs by design": "held", "lost": "violated"}
_FOOT = (
    "identical: the same in both. differs by design: a mirror cannot have it the same, or does not by "
    "default. lost: clients that fail over do not have it."
)


def document(answer: Answer, every: bool = False) -> Document:
    """The document. `every`: list identical rows too, instead of counting them."""
    counts = Counter(row.status for row in answer.rows)
    parts = [f"{counts[one]} {word}" for one, word in _WORDS.items() if counts[one]]
    head = Head(
        answer.status,
        f"{answer.target} as a mirror of {answer.source}: {', '.join(parts)}",
        _TONES[answer.status],
        name=f"{answer.source} and {answer.target}",
        about=f"topics named by policy {answer.policy}",
    )
    sections = [_compared(answer.compared)] if answer.compared else []
    groups: dict[str, list[Row]] = {}
    for row in answer.rows:
        groups.setdefault(row.what, []).append(row)
    sections += [section for what, rows in groups.items() if (section := _rows(what, rows, every))]
    if answer.notes:
        sections.append(Section("Not compared", [Bullets(list(answer.notes))]))
    return Document(head, sections, _FOOT)


def _compared(rows: Sequence[ComparedPartition]) -> Section:
    behind = sum(row.behind for row in rows)
    text = "to the end of the source, as it was when the comparison began"
    if behind:
        text = f"the mirror was behind: its last {plural(behind, 'record')} were not compared"
    table = Table(
        ["partition", "source", "compared", "target", "compared", "matched", "behind"],
        [
            [
                f"{row.topic}/{row.partition}",
                f"{row.source_start:,}-{row.source_end:,}",
                f"to {row.source_compared_to:,}",
                f"{row.target_start:,}-{row.target_end:,}",
                f"to {row.target_compared_to:,}",
                f"{row.matched:,}",
                f"{row.behind:,}",
            ]
            for row in rows[:40]
        ],
        left_out=max(0, len(rows) - 40),
    )
    return Section("Compared", [Paragraph(text), table])


def _rows(what: str, rows: Sequence[Row], every: bool) -> Section | None:
    shown = [row for row in rows if every or row.status != IDENTICAL]
    hidden = [row.aspect for row in rows if row not in shown]
    blocks: list[Any] = []
    if shown:
        blocks.append(Table(["aspect", "", "count", "what it means"], [_cells(row) for row in shown], "llrl"))
    if hidden:
        blocks.append(NamedValues([("identical:", ", ".join(hidden))]))
    return Section(what, blocks) if blocks else None


def _cells(row: Row) -> list[str | Cell]:
    count = next((row.counts[name] for name in _MAIN if isinstance(row.counts.get(name), int)), None)
    stories = [_example_text(example) for example in row.examples]
    if row.reason:
        stories = [f"because {row.reason}", *stories]
    return [
        Cell(row.aspect, stories=stories),
        Cell(row.status, bad=row.status == LOST),
        "" if count is None else f"{count:,}",
        row.meaning,
    ]


_MAIN = ("count", "skipped", "missing", "different", "settings")


def _example_text(example: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in example.items() if value is not None
    )
