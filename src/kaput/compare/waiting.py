"""Waits until the mirror has the last record of every partition, as the source was when it was described.

Not by counting: what is mirrored gets other offsets. The target's new records are read until the one is among
them. runner/mirror_drain.py asks the same of a run's clusters, by another reader: there one may be gone and a
topic not made yet, so a patient client of librdkafka's looks at the end each time; here the clusters must
answer, and may be large, so each offset is read once, by this package's own reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.existing import StandingCluster
from kaput.cluster.records import LogRecord
from kaput.compare.reading import Wanted, record_answers
from kaput.core import TopicPartition

_POLL_S = 0.5
_LOOK_BACK = 1000  # offsets: what was mirrored a moment ago


@dataclass
class _Awaited:
    """A partition of the target: the record that it has to have, and the offset that was looked at last."""

    last: LogRecord
    at: int


def await_mirror(
    target: StandingCluster,
    last: Mapping[TopicPartition, LogRecord],
    began: Mapping[TopicPartition, tuple[int, int]],
    bounds: Callable[[], Mapping[TopicPartition, tuple[int, int]]],
    limit: float,
    tell: Callable[[int, int], None],
) -> list[TopicPartition]:
    """`last`: by partition of the target. `began`: where its partitions began and ended when
    the source was described; `bounds`: where they begin and end now; `limit`: of the
    monotonic clock. Returns those that did not get there in time.
    """
    waiting = {
        place: _Awaited(record, max(began[place][0], began[place][1] - _LOOK_BACK))
        for place, record in last.items()
        if place in began
    }
    now = bounds()
    while True:
        for place, one in list(waiting.items()):
            end = now[place][1]
            if one.at < end:
                found = record_answers(Wanted(target, place, one.at, end, Path()))
                if any(_same(record, one.last) for record in found):
                    del waiting[place]
                one.at = end
        tell(len(last) - len(waiting), len(last))
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
        found = list(record_answers(Wanted(server, place, at, end, Path())))
        if found:
            return found[-1]
        step *= 64
    return None


def _same(one: LogRecord, other: LogRecord) -> bool:
    """A target may set timestamps itself."""
    return (one.key, one.value) == (other.key, other.value)
