"""When the record at a position was written: fetches its batch once, and caches it while it is needed.

A group that stands still costs nothing; one that lags and moves costs a batch per partition and poll.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kaput.cluster.admin import monitor_requests, requests
from kaput.cluster.record_batches import first_record
from kaput.core import TopicPartition
from kaput.monitor.sources.nodes import Ask, Job, Nodes
from kaput.monitor.sources.view import View

_OUT_OF_RANGE = 1
_ROUNDS = 3
# Enough for a usual batch of each partition; larger ones are fetched again.
_SMALL_BYTES, _SMALL_ALL_BYTES = 32 << 10, 4 << 20
_LARGE_BYTES, _LARGE_ALL_BYTES = 1 << 20, 16 << 20
NOTHING = math.inf  # instead of a time: there is no record at or after the position


class Position(NamedTuple):
    """An offset in a partition. Under a later leader the same offset may be another record."""

    place: TopicPartition
    offset: int
    epoch: int


class _Answer(NamedTuple):
    """A leader's answer for a partition: its data, or its log start if the position is below that."""

    data: bytes
    start: int | None = None


class RecordTimes:
    """Times of records by position, for the positions requested last."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: dict[Position, float] = {}
        self._starts: dict[TopicPartition, int] = {}  # of logs that start above a position

    def of(self, position: Position) -> tuple[int, float | None]:
        """The log start, 0 unless it is above the position; and when the record was written, in ms since the
        epoch: None if unknown, NOTHING if there is no record.
        """
        return self._starts.get(position.place, 0), self._known.get(position)

    def look(self, view: View, wanted: Collection[Position], ends: Mapping[TopicPartition, int]) -> None:
        """Fetches the times of these positions, in bounded time, and forgets all others."""
        self._known = {position: self._known[position] for position in wanted if self._still_valid(position)}
        self._starts = {}
        left = {position: position.offset for position in wanted if position not in self._known}
        for number in range(_ROUNDS):
            jobs = self._jobs(view, left, large=number > 0)
            if not jobs:
                return
            for answers in self._nodes.run(jobs).values():
                for position, answer in answers.items():
                    self._take(position, answer, left, ends)

    def _still_valid(self, position: Position) -> bool:
        """Not if the position is below the log start, which moves, or had no record, as there
        may be one now.
        """
        known = self._known.get(position, NOTHING)
        return known != NOTHING and position.offset >= self._starts.get(position.place, 0)

    def _take(
        self,
        position: Position,
        answer: _Answer,
        left: dict[Position, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        if answer.start is not None:
            self._starts[position.place] = answer.start
            left[position] = max(left[position], answer.start)
            record = None
        else:
            record, left[position] = first_record(answer.data, left[position])
        if record is not None and record.timestamp_ms >= 0:
            self._known[position] = record.timestamp_ms
        elif left[position] >= ends[position.place]:
            self._known[position] = NOTHING
        elif record is None:
            return  # fetched again
        del left[position]

    def _jobs(self, view: View, left: Mapping[Position, int], large: bool) -> dict[int, Job]:
        """One request per leader. Of several positions in the same partition, one at a time."""
        by_leader: dict[int, dict[TopicPartition, Position]] = {}
        for position in left:
            leader = view.partitions[position.place].leader
            if leader is not None and leader in view.alive:
                by_leader.setdefault(leader, {}).setdefault(position.place, position)
        return {
            leader: Job(view.alive[leader], _BatchFetch(found, left, large))
            for leader, found in by_leader.items()
        }


class _BatchFetch:
    """Fetches batches at positions from one leader."""

    def __init__(
        self, found: Mapping[TopicPartition, Position], left: Mapping[Position, int], large: bool
    ) -> None:
        self._found, self._large = found, large
        self._offsets = {place: left[position] for place, position in found.items()}

    def __call__(self, ask: Ask) -> dict[Position, _Answer]:
        sizes = (_LARGE_BYTES, _LARGE_ALL_BYTES) if self._large else (_SMALL_BYTES, _SMALL_ALL_BYTES)
        answer = ask(monitor_requests.fetch(self._offsets, *sizes))
        answers: dict[Position, _Answer] = {}
        below: list[TopicPartition] = []
        for name, p in ((topic.topic, p) for topic in answer.responses for p in topic.partitions):
            place = TopicPartition(name, p.partition_index)
            if p.error_code == _OUT_OF_RANGE:
                below.append(place)
            elif not p.error_code:
                answers[self._found[place]] = _Answer(bytes(p.records or b""))
        if below:
            answers |= self._starts(ask, below)
        return answers

    def _starts(self, ask: Ask, places: list[TopicPartition]) -> dict[Position, _Answer]:
        answer = ask(requests.log_starts(places))
        every = ((topic.name, p) for topic in answer.topics for p in topic.partitions)
        return {
            self._found[TopicPartition(name, p.partition_index)]: _Answer(b"", p.offset)
            for name, p in every
            if not p.error_code
        }
