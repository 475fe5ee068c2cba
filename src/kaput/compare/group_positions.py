"""Positions of groups in both clusters: as points for positions.py, and as places for group_rows.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kaput.cluster.mirrors.records import Checkpoint
from kaput.compare.description import Positions
from kaput.compare.group_rows import GroupPlace
from kaput.compare.positions import Point
from kaput.compare.records import RecordTotals
from kaput.core import TopicPartition
from kaput.errors import UsageError


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
        found = {group: positions for group, positions in chosen.items() if positions}
        for pattern in wanted:
            if not any(fnmatchcase(group, pattern) for group in found):
                raise UsageError(f"--group {pattern}: no such group has a position in the compared topics")
        return cls(found, target, pairs, names, checkpoints)

    def points(self) -> list[Point]:
        """A point for each position in both clusters, then one for each of the mirror's checkpoints, in the
        order that `places` and `checkpoint_places` expect.
        """
        positions = [
            Point(group, pair.number, offset, self.target[group][pair.target])
            for group, pair, offset in self._in_both()
        ]
        checkpoint_points = [
            Point(checkpoint.group, pair.number, checkpoint.source_offset, checkpoint.target_offset)
            for checkpoint, pair in self._paired_checkpoints()
        ]
        return positions + checkpoint_points

    def places(self, found: RecordTotals, ends: Mapping[TopicPartition, int]) -> dict[str, list[GroupPlace]]:
        """By group, its places. `ends`: of the target's partitions."""
        numbers = {(group, pair.source): number for number, (group, pair, _) in enumerate(self._in_both())}
        return {
            group: [
                self._place(group, place, offset, found.points.get(numbers.get((group, place), -1), {}), ends)
                for place, offset in sorted(positions.items())
            ]
            for group, positions in self.source.items()
        }

    def checkpoint_places(self, found: RecordTotals) -> dict[str, list[GroupPlace]]:
        """By group, the places in the mirror's checkpoints."""
        result: dict[str, list[GroupPlace]] = {}
        first = len(self._in_both())
        for number, (checkpoint, pair) in enumerate(self._paired_checkpoints(), first):
            offsets = checkpoint.source_offset, checkpoint.target_offset
            place = _place(pair.source, *offsets, found.points.get(number, {}))
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
        self,
        group: str,
        place: TopicPartition,
        offset: int,
        at_point: Mapping[str, int | None],
        ends: Mapping[TopicPartition, int],
    ) -> GroupPlace:
        mirrored = TopicPartition(self.names[place.topic], place.partition)
        there = self.target.get(group, {}).get(mirrored)
        return _place(place, offset, there, at_point, ends.get(mirrored, 0))


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
