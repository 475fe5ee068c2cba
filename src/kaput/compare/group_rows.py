"""Compares groups: where each would continue in the target, in records and seconds.

Positions are not compared as numbers, but by the matched records that are below one and not below the other.
Pure: positions and counts in, rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, Row
from kaput.core import TopicPartition, plural


@dataclass(frozen=True)
class GroupPlace:
    """A group's position in a partition: in the source and in the target (None: none). `again`, `skipped`:
    numbers of matched records that it would read again or skip; `expected`: the first target offset that it
    has not read.
    """

    place: TopicPartition
    source: int
    target: int | None
    target_end: int | None = None
    again: int = 0
    skipped: int = 0
    seconds: float | None = None
    expected: int | None = None

    @property
    def beyond(self) -> bool:
        """Whether the position is past the target's end, which would reset the group."""
        return self.target is not None and self.target_end is not None and self.target > self.target_end

    def as_json(self) -> dict[str, Any]:
        """The place as an example."""
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "source_position": self.source,
            "target_position": self.target,
            "expected_position": self.expected,
            "read_again": self.again,
            "skipped": self.skipped,
            "seconds": self.seconds,
        }


def rows(groups: Mapping[str, Sequence[GroupPlace]]) -> list[Row]:
    """A row for each group that has a position in a compared topic."""
    return [_row(group, places) for group, places in sorted(groups.items())]


def checkpoints(groups: Mapping[str, Sequence[GroupPlace]]) -> list[Row]:
    """A row for each group with checkpoints in the mirror, whether they are used or not."""
    return [_checkpoints(group, places) for group, places in sorted(groups.items())]


def _checkpoints(group: str, places: Sequence[GroupPlace]) -> Row:
    ahead = [each for each in places if each.skipped]
    behind = [each for each in places if each.again]
    counts = {
        "count": len(ahead),
        "checked": len(places),
        "skipped": sum(each.skipped for each in places),
        "read_again": sum(each.again for each in places),
    }
    what, aspect = f"group {group}", "checkpoints"
    examples = [each.as_json() for each in [*ahead, *behind][:5]]
    if ahead:
        meaning = f"A move by the mirror's checkpoints would skip {plural(counts['skipped'], 'record')}."
        return Row(what, aspect, LOST, meaning, counts=counts, examples=examples)
    if behind:
        meaning = (
            f"A move by the mirror's checkpoints would read {plural(counts['read_again'], 'record')} again."
        )
        reason = (
            "a mirror knows only some pairs of offsets: it translates to the nearest one at or below the "
            "position"
        )
        return Row(what, aspect, BY_DESIGN, meaning, reason, counts, examples)
    return Row(what, aspect, IDENTICAL, "The mirror's checkpoints are exact.", counts=counts)


def _row(group: str, places: Sequence[GroupPlace]) -> Row:
    without = [each for each in places if each.target is None]
    ahead = [each for each in places if each.skipped]
    beyond = [each for each in places if each.beyond]
    behind = [each for each in places if each.again]
    counts: dict[str, int | float | str | None] = {
        "partitions": len(places),
        "without_position": len(without),
        "ahead": len(ahead),
        "behind": len(behind),
        "skipped": sum(each.skipped for each in places),
        "read_again": sum(each.again for each in places),
        "seconds": max((each.seconds for each in places if each.seconds is not None), default=0.0),
    }
    what = f"group {group}"
    examples = [each.as_json() for each in [*ahead, *beyond, *without, *behind][:5]]
    seconds = counts["seconds"]

    def row(status: Any, meaning: str, reason: str = "") -> Row:
        return Row(what, "position", status, meaning, reason, counts, examples)

    if len(without) == len(places):
        return row(
            LOST, "The group has no position in the target: it would start where auto.offset.reset says."
        )
    if ahead:
        return row(
            LOST,
            f"The group would skip {plural(sum(each.skipped for each in ahead), 'record')} that it has "
            "not read, "
            f"over {seconds} s in {plural(len(ahead), 'partition')}.",
        )
    if beyond:
        return row(
            LOST, "A position is beyond the target's end: the group would start where auto.offset.reset says."
        )
    if without:
        return row(LOST, f"In {plural(len(without), 'partition')} the group has no position in the target.")
    if behind:
        return row(
            BY_DESIGN,
            f"The group would read {plural(sum(each.again for each in behind), 'record')} again, over "
            f"{seconds} s "
            f"in {plural(len(behind), 'partition')}.",
            "positions are translated at offset syncs, at or before the group's own: at least once",
        )
    return row(IDENTICAL, "The group goes on with the first record that it has not read.")
