"""The answer: a row for each aspect of each topic, group or cluster, with counts, examples and the meaning.

As JSON, and as a document, which report/render shows as text or as a page.

The status of a row is `identical`, `differs by design` (with the reason), or `lost`. Rows are created in
`*_rows.py` and groups.py, by aspect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kaput.core import plural
from kaput.evidence.comparisons import COMPARE_SCHEMA, Status
from kaput.report.document import Bullets, Cell, Document, Head, NamedValues, Paragraph, Section, Table

IDENTICAL: Status = "identical"
BY_DESIGN: Status = "differs by design"
LOST: Status = "lost"
_WORST: tuple[Status, ...] = (LOST, BY_DESIGN, IDENTICAL)


@dataclass(frozen=True)
class AspectRow:
    """`what`: `topic orders`, `group billing`, or `cluster`; `meaning`: a sentence for the operator who
    fails over. `partitions`: counts by partition, without zeros.
    """

    what: str
    aspect: str
    status: Status
    meaning: str
    reason: str = ""
    counts: Mapping[str, int | float | str | None] = field(default_factory=dict)
    examples: Sequence[Mapping[str, Any]] = ()
    partitions: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "aspect": self.aspect,
            "status": self.status,
            "reason": self.reason or None,
            "counts": dict(self.counts),
            "partitions": {str(number): dict(counts) for number, counts in sorted(self.partitions.items())},
            "examples": [dict(example) for example in self.examples],
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class ComparedPartition:
    """A partition's compared range; `behind`: source records that the mirror had not reached."""

    topic: str
    target_topic: str
    partition: int
    source_start: int
    source_end: int
    source_compared_to: int
    target_start: int
    target_end: int
    target_compared_to: int
    records: int
    target_records: int
    matched: int
    behind: int


@dataclass(frozen=True)
class ComparisonAnswer:
    """The whole result. `notes`: what could not be compared, and why."""

    source: str
    target: str
    policy: str
    compared: Sequence[ComparedPartition]
    rows: Sequence[AspectRow]
    notes: Sequence[str] = ()

    @property
    def status(self) -> Status:
        """The worst status of all rows."""
        return next((one for one in _WORST if any(row.status == one for row in self.rows)), IDENTICAL)

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": COMPARE_SCHEMA,
            "source": self.source,
            "target": self.target,
            "policy": self.policy,
            "status": self.status,
            "counts": {one: sum(row.status == one for row in self.rows) for one in reversed(_WORST)},
            "compared": [vars(each) for each in self.compared],
            "rows": [row.as_json() for row in self.rows],
            "notes": list(self.notes),
        }


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


def document(answer: ComparisonAnswer, every: bool = False) -> Document:
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
    groups: dict[str, list[AspectRow]] = {}
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


def _rows(what: str, rows: Sequence[AspectRow], every: bool) -> Section | None:
    shown = [row for row in rows if every or row.status != IDENTICAL]
    hidden = [row.aspect for row in rows if row not in shown]
    blocks: list[Any] = []
    if shown:
        blocks.append(Table(["aspect", "", "count", "what it means"], [_cells(row) for row in shown], "llrl"))
    if hidden:
        blocks.append(NamedValues([("identical:", ", ".join(hidden))]))
    return Section(what, blocks) if blocks else None


def _cells(row: AspectRow) -> list[str | Cell]:
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
