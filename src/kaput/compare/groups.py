"""Compares groups: where each would continue in the target, in records and seconds.

Positions are not compared as numbers, but by the matched records that are below one and not below the other
(positions.py). Pure: positions and counts in, rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kaput.cluster.mirrors.records import Checkpoint
from kaput.compare.answer import BY_DESIGN, IDENTICAL, LOST, AspectRow
from kaput.compare.description import Positions
from kaput.compare.mirrors import Bounds
from kaput.compare.positions import TranslatedPosition
from kaput.compare.records import RecordTotals
from kaput.core import TopicPartition, plural
from kaput.errors import UsageError
from kaput.evidence.comparisons import Status


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


def group_rows(groups: Mapping[str, Sequence[GroupPlace]]) -> list[AspectRow]:
    """A row for each group that has a position in a compared topic."""
    return [_group_row(group, places) for group, places in sorted(groups.items())]


def checkpoint_rows(groups: Mapping[str, Sequence[GroupPlace]]) -> list[AspectRow]:
    """A row for each group with checkpoints in the mirror, whether they are used or not."""
    return [_checkpoint_row(group, places) for group, places in sorted(groups.items())]


def _checkpoint_row(group: str, places: Sequence[GroupPlace]) -> AspectRow:
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
        return AspectRow(what, aspect, LOST, meaning, counts=counts, examples=examples)
    if behind:
        meaning = (
            f"A move by the mirror's checkpoints would read {plural(counts['read_again'], 'record')} again."
        )
        reason = (
            "a mirror knows only some pairs of offsets: it translates to the nearest one at or below the "
            "position"
        )
        return AspectRow(what, aspect, BY_DESIGN, meaning, reason, counts, examples)
    return AspectRow(what, aspect, IDENTICAL, "The mirror's checkpoints are exact.", counts=counts)


def _group_row(group: str, places: Sequence[GroupPlace]) -> AspectRow:
    without = [each for each in places if each.target is None]
    ahead = [each for each in places if each.skipped]
    beyond = [each for each in places if each.beyond]
    behind = [each for each in places if each.again]
    skipped, again = sum(each.skipped for each in places), sum(each.again for each in places)
    seconds = max((each.seconds for each in places if each.seconds is not None), default=0.0)
    counts: dict[str, int | float | str | None] = {
        "partitions": len(places),
        "without_position": len(without),
        "ahead": len(ahead),
        "behind": len(behind),
        "skipped": skipped,
        "read_again": again,
        "seconds": seconds,
    }
    what = f"group {group}"
    examples = [each.as_json() for each in [*ahead, *beyond, *without, *behind][:5]]

    def row(status: Status, meaning: str, reason: str = "") -> AspectRow:
        return AspectRow(what, "position", status, meaning, reason, counts, examples)

    if len(without) == len(places):
        meaning = "The group has no position in the target: it would start where auto.offset.reset says."
        return row(LOST, meaning)
    if ahead:
        return row(
            LOST,
            f"The group would skip {plural(skipped, 'record')} that it has not read, over {seconds} s in "
            f"{plural(len(ahead), 'partition')}.",
        )
    if beyond:
        meaning = "A position is beyond the target's end: the group would start where auto.offset.reset says."
        return row(LOST, meaning)
    if without:
        return row(LOST, f"In {plural(len(without), 'partition')} the group has no position in the target.")
    if behind:
        return row(
            BY_DESIGN,
            f"The group would read {plural(again, 'record')} again, over {seconds} s in "
            f"{plural(len(behind), 'partition')}.",
            "positions are translated at offset syncs, at or before the group's own: at least once",
        )
    return row(IDENTICAL, "The group goes on with the first record that it has not read.")


@dataclass(frozen=True)
class PartitionPair:
    """A partition in both clusters; `number` identifies the pair in rows."""

    number: int
    source: TopicPartition
    target: TopicPartition


@dataclass(frozen=True)
class GroupPositions:
    """The positions of groups in the compared topics. `names`: source topic to target topic."""

    source: Positions
    target: Positions
    pairs: Sequence[PartitionPair]
    names: Mapping[str, str]
    checkpoints: Sequence[Checkpoint] = ()

    @classmethod
    def select(
        cls,
        source: Positions,
        target: Positions,
        pairs: Sequence[PartitionPair],
        names: Mapping[str, str],
        wanted: Sequence[str],
        checkpoints: Sequence[Checkpoint] = (),
    ) -> GroupPositions:
        """Selects groups. `wanted`: names and patterns; empty: all. Raises UsageError if one matches none."""
        chosen = {
            group: {place: offset for place, offset in positions.items() if place.topic in names}
            for group, positions in source.items()
            if not wanted or any(fnmatchcase(group, pattern) for pattern in wanted)
        }
        located = {group: positions for group, positions in chosen.items() if positions}
        for pattern in wanted:
            if not any(fnmatchcase(group, pattern) for group in located):
                raise UsageError(f"--group {pattern}: no such group has a position in the compared topics")
        return cls(located, target, pairs, names, checkpoints)

    def points(self) -> list[TranslatedPosition]:
        """Points for positions in both clusters, then for checkpoints, ordered as places are expected."""
        positions = [
            TranslatedPosition(group, pair.number, offset, self.target[group][pair.target])
            for group, pair, offset in self._in_both()
        ]
        checkpoint_points = [
            TranslatedPosition(
                checkpoint.group, pair.number, checkpoint.source_offset, checkpoint.target_offset
            )
            for checkpoint, pair in self._paired_checkpoints()
        ]
        return positions + checkpoint_points

    def places(self, totals: RecordTotals, bounds: Bounds) -> dict[str, list[GroupPlace]]:
        """By group. `bounds`: of the target's partitions."""
        numbers = {(group, pair.source): number for number, (group, pair, _) in enumerate(self._in_both())}
        result: dict[str, list[GroupPlace]] = {}
        for group, positions in self.source.items():
            for place, offset in sorted(positions.items()):
                mirrored = TopicPartition(self.names[place.topic], place.partition)
                there = self.target.get(group, {}).get(mirrored)
                at_point = totals.points.get(numbers.get((group, place), -1), {})
                end = bounds.get(mirrored, (0, 0))[1]
                result.setdefault(group, []).append(_place(place, offset, there, at_point, end))
        return result

    def checkpoint_places(self, totals: RecordTotals) -> dict[str, list[GroupPlace]]:
        result: dict[str, list[GroupPlace]] = {}
        first = len(self._in_both())
        for number, (checkpoint, pair) in enumerate(self._paired_checkpoints(), first):
            offsets = checkpoint.source_offset, checkpoint.target_offset
            place = _place(pair.source, *offsets, totals.points.get(number, {}))
            result.setdefault(checkpoint.group, []).append(place)
        return result

    def _paired_checkpoints(self) -> list[tuple[Checkpoint, PartitionPair]]:
        by_target = {pair.target: pair for pair in self.pairs}
        return [
            (checkpoint, by_target[checkpoint.place])
            for checkpoint in self.checkpoints
            if checkpoint.group in self.source and checkpoint.place in by_target
        ]

    def _in_both(self) -> list[tuple[str, PartitionPair, int]]:
        by_place = {pair.source: pair for pair in self.pairs}
        return [
            (group, by_place[place], offset)
            for group, positions in sorted(self.source.items())
            for place, offset in sorted(positions.items())
            if place in by_place and by_place[place].target in self.target.get(group, {})
        ]


def _place(
    place: TopicPartition,
    source: int,
    target: int | None,
    at_point: Mapping[str, int | None],
    target_end: int | None = None,
) -> GroupPlace:
    first, last = at_point.get("first_ms"), at_point.get("last_ms")
    return GroupPlace(
        place,
        source,
        target,
        target_end,
        at_point.get("again") or 0,
        at_point.get("skipped") or 0,
        None if first is None or last is None else round((last - first) / 1000, 3),
        at_point.get("expected"),
    )
