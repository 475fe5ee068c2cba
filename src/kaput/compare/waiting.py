"""Waits until the mirror has the last record of every partition, as the source was when it was described.

Counting does not work, since copies get other offsets: the target's new records are read until that record is
among them. runner/mirror_drain.py does the same for a run's clusters, where one may be gone or a topic not
created yet, with a librdkafka client that reads the end each time. Here clusters must answer and may be
large, so each offset is read once, by this package's own reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.existing import StandingCluster
from kaput.cluster.record_batches import LogRecord
from kaput.compare.reading import ReadRequest, read_records
from kaput.core import TopicPartition

_POLL_S = 0.5
_LOOK_BACK = 1000  # offsets before the initial end


@dataclass
class _Awaited:
    """A partition of the target: the record to wait for, and the offset read up to."""

    last: LogRecord
    at: int


def await_mirror(
    target: StandingCluster,
    last: Mapping[TopicPartition, LogRecord],
    initial_bounds: Mapping[TopicPartition, tuple[int, int]],
    bounds: Callable[[], Mapping[TopicPartition, tuple[int, int]]],
    limit: float,
    on_progress: Callable[[int, int], None],
) -> list[TopicPartition]:
    """Waits until `limit` (monotonic clock); returns the partitions that are still behind then.

    `last`: the record to wait for, by target partition. `initial_bounds`: starts and ends when the source
    was described; `bounds`: returns the current ones.
    """
    waiting = {
        place: _Awaited(record, max(initial_bounds[place][0], initial_bounds[place][1] - _LOOK_BACK))
        for place, record in last.items()
        if place in initial_bounds
    }
    now = bounds()
    while True:
        for place, one in list(waiting.items()):
            end = now[place][1]
            if one.at < end:
                found = read_records(ReadRequest(target, place, one.at, end, Path()))
                if any(_is_same_record(record, one.last) for record in found):
                    del waiting[place]
                one.at = end
        on_progress(len(last) - len(waiting), len(last))
        if not waiting or time.monotonic() > limit:
            return sorted(waiting)
        time.sleep(_POLL_S)
        now = bounds()


def last_record(server: StandingCluster, place: TopicPartition, start: int, end: int) -> LogRecord | None:
    """The last committed record of a partition; None if its end has none."""
    step = 1
    at = end
    while at > start and step <= 1 << 20:
        at = max(start, end - step)
        found = list(read_records(ReadRequest(server, place, at, end, Path())))
        if found:
            return found[-1]
        step *= 64
    return None


def _is_same_record(one: LogRecord, other: LogRecord) -> bool:
    """Compares without timestamps, which a target may set itself."""
    return (one.key, one.value) == (other.key, other.value)
