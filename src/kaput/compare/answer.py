"""The answer: a row for each aspect of each topic, group or cluster, with counts, examples and the meaning.

The status of a row is `identical`, `differs by design` (with the reason), or `lost`. Rows are created in
`*_rows.py`, by aspect; text and pages in presentation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kaput.evidence.comparisons import COMPARE_SCHEMA, Status

IDENTICAL: Status = "identical"
BY_DESIGN: Status = "differs by design"
LOST: Status = "lost"
_WORST: tuple[Status, ...] = (LOST, BY_DESIGN, IDENTICAL)


@dataclass(frozen=True)
class Row:
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
        """The value in --json."""
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
    """The compared range of a partition: end offsets (exclusive) on both sides; `behind`: the number of
    source records that the mirror had not reached.
    """

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
class Answer:
    """The whole result. `notes`: what could not be compared, and why."""

    source: str
    target: str
    policy: str
    compared: Sequence[ComparedPartition]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @property
    def status(self) -> Status:
        """The worst status of all rows."""
        return next((one for one in _WORST if any(row.status == one for row in self.rows)), IDENTICAL)

    def as_json(self) -> dict[str, Any]:
        """The value in --json."""
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
