"""Watches one mirror, once a second while the run is recorded: its lag, and the checkpoints of groups.

The lag compares the source's log end with what has arrived: MirrorMaker's offset syncs map an offset in the
source to one in the target, and everything after that in the target has arrived since. Partitions that do not
answer have no sample. Not here: whether everything was mirrored in the end (mirror_drain.py).
"""

from __future__ import annotations

import time
from typing import NamedTuple

from kaput.cluster.admin import Admin
from kaput.cluster.mirrors.records import (
    OffsetSync,
    parse_checkpoint,
    parse_offset_sync,
)
from kaput.core import MS, TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.mirror_tails import TopicTail
from kaput.runner.sampling import SAMPLE_S, Sampler
from kaput.scenario.mirrors import Mirror


class WatchedCluster(NamedTuple):
    """One of the two clusters: an admin client with a short timeout, and the internal topic
    about the mirror.
    """

    admin: Admin
    tail: TopicTail


class MirrorWatch(Sampler):
    """Writes to `recorder` inside its `with` block."""

    def __init__(
        self,
        mirror: Mirror,
        source: WatchedCluster,
        target: WatchedCluster,
        recorder: Recorder,
        every_s: float = SAMPLE_S,
    ) -> None:
        self._mirror, self._source, self._target = mirror, source, target
        self._recorder = recorder
        self._syncs: dict[TopicPartition, OffsetSync] = {}
        self._unreadable: LabError | None = None
        super().__init__(f"watch {mirror.name}", every_s)

    def look(self) -> None:
        """Records new checkpoints, and the lag of every partition whose leaders answer."""
        self._checkpoints()
        self._lag()
        self._recorder.flush()

    def stop(self) -> None:
        """Reads checkpoints once more, so that late ones are not missed. Raises LabError if one had a format
        that is not known.
        """
        super().stop()
        self._checkpoints()
        self._recorder.flush()
        for end in (self._source, self._target):
            end.tail.close()
        if self._unreadable is not None:
            raise self._unreadable

    def _checkpoints(self) -> None:
        for message in self._target.tail.new():
            try:
                found = parse_checkpoint(message.key(), message.value())
            except LabError as error:
                self._unreadable = self._unreadable or error
                continue
            if found is None:
                continue
            group, place, source_offset, target_offset = found
            at_ns = message.timestamp()[1] * MS
            self._recorder.row(
                self._mirror.name, "checkpoint", group, *place, source_offset, target_offset, None, at_ns
            )

    def _lag(self) -> None:
        for message in self._source.tail.new():
            sync = parse_offset_sync(message.key(), message.value())
            if sync is not None:
                self._syncs[sync.place] = sync
        mirror = self._mirror
        try:
            ends = self._source.admin.reachable_log_ends(mirror.topics)
            arrived = self._target.admin.reachable_log_ends(
                [mirror.copy_of(topic) for topic in mirror.topics]
            )
        except LabError:
            return
        at_ns = time.time_ns()
        for place, end in sorted(ends.items()):
            copy = TopicPartition(mirror.copy_of(place.topic), place.partition)
            if copy not in arrived:
                continue
            lag = mirror_lag(end, arrived[copy], self._syncs.get(place))
            self._recorder.row(mirror.name, "lag", None, *copy, end, arrived[copy], float(lag), at_ns)


def mirror_lag(source_end: int, target_end: int, sync: OffsetSync | None) -> int:
    """How many of the source's offsets are not in the target yet, by the last sync; all if there is none."""
    if sync is None:
        return source_end
    return max(0, source_end - sync.source_offset - max(0, target_end - sync.target_offset))
