"""Waits until a mirror has caught up, and compares its clusters at the end of the run.

MirrorMaker copies each partition in order, so once the last record of each source partition is in the target,
everything before it has been copied as well, if it ever will be. Runs before the drain, while mirrors still
run. compare/mirrors.py does the same for any two clusters, which must answer; here one may be gone and a
topic may not exist yet, so it polls the end of each partition with a librdkafka client.

The comparison, for `expect: {mirror: identical}`, runs when clients and mirrors have ended. Not here: how two
clusters are compared; the runner is passed a function.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Message

from kaput.cluster.admin import Admin
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.core import TopicPartition, qualified
from kaput.errors import KaputError, LabError
from kaput.evidence.comparisons import COMPARE_SCHEMA
from kaput.evidence.folder import RunFolder, replace_text
from kaput.evidence.recorder import Recorder
from kaput.runner.mirrors.watching import last_records
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Topic

_LAST_OF_SOURCE = 16  # offsets: the last ones may be transaction markers
_LAST_OF_TARGET = 4096  # offsets: others may write there too
_ASK_S = 5.0


class MirroredTo(NamedTuple):
    """Everything below `source_offset` is in the target, whose log ended at `target_offset`."""

    place: TopicPartition  # in the target
    source_offset: int
    target_offset: int


def await_mirrored(
    mirror: Mirror, source: RunCluster, target: RunCluster, timeout_s: float, deleted: Collection[Topic] = ()
) -> list[MirroredTo | str]:
    """Waits until the mirror has copied all there is now; a sentence for each incomplete partition.
    `deleted`: the topics that steps delete for good; those that the source has no more have nothing to copy.
    """
    limit = time.monotonic() + timeout_s
    with target.kafka.admin(_ASK_S) as admin:
        try:
            gone = {topic.name for topic in deleted} - {*(source.admin.topics() if deleted else ())}
            there = [name for name in mirror.topics if name not in gone]
            places = sorted(source.admin.partitions(there)) if there else []
            ends = source.admin.high_watermarks(places)
        except LabError as error:
            return [f"what mirror {mirror.name} should have is not known: {error}"]
        waits = [_PartitionWait(mirror, place, ends[place], source, target, admin) for place in places]
        return _await_all(waits, limit, timeout_s)


def _await_all(waits: list[_PartitionWait], limit: float, timeout_s: float) -> list[MirroredTo | str]:
    mirrored_to: dict[TopicPartition, MirroredTo] = {}
    while True:
        for each in waits:
            if each.place not in mirrored_to and (mirrored := each.look()) is not None:
                mirrored_to[each.place] = mirrored
        left = [each for each in waits if each.place not in mirrored_to]
        if not left or time.monotonic() >= limit:
            return [*mirrored_to.values(), *(each.sentence(timeout_s) for each in left)]
        time.sleep(0.2)


def record_mirrored(recorder: Recorder, mirror: Mirror, progress: list[MirroredTo | str]) -> bool:
    """Writes a row for each completely mirrored partition; returns whether all of them are."""
    at_ns = time.time_ns()
    for each in progress:
        if isinstance(each, MirroredTo):
            recorder.row(
                mirror=mirror.name, kind="drained", topic=each.place.topic, partition=each.place.partition,
                source_offset=each.source_offset, target_offset=each.target_offset, at_ns=at_ns,
            )  # fmt: skip
    recorder.flush()
    return all(isinstance(each, MirroredTo) for each in progress)


class _PartitionWait:
    """Waits for one partition of the source. `place` is in the target."""

    def __init__(
        self,
        mirror: Mirror,
        place: TopicPartition,
        end: int,
        source: RunCluster,
        target: RunCluster,
        admin: Admin,
    ) -> None:
        self._mirror, self._end, self._target, self._admin = mirror, end, target, admin
        self._source_place = place
        self.place = TopicPartition(mirror.copy_of(place.topic), place.partition)
        cluster = source.kafka
        servers, access = cluster.bootstrap_servers, cluster.access()
        records = last_records(servers, access, place, end, _LAST_OF_SOURCE, _ASK_S) if end else []
        self._last = _content(records[-1]) if records else None  # None: there is nothing to wait for

    def look(self) -> MirroredTo | None:
        """The mirrored partition; None if its last record is not in the target yet."""
        try:
            (end,) = self._admin.high_watermarks([self.place]).values()
        except LabError:
            # If there is nothing to copy, the topic need not exist.
            return MirroredTo(self.place, self._end, 0) if self._last is None else None
        if self._last is None:
            return MirroredTo(self.place, self._end, end)
        cluster = self._target.kafka
        servers, access = cluster.bootstrap_servers, cluster.access()
        records = last_records(servers, access, self.place, end, _LAST_OF_TARGET, _ASK_S) if end else []
        there = any(_content(record) == self._last for record in records)
        return MirroredTo(self.place, self._end, end) if there else None

    def sentence(self, timeout_s: float) -> str:
        """The message if it timed out."""
        last = f"{qualified(self._mirror.from_, str(self._source_place))} up to offset {self._end:,}"
        return f"mirror {self._mirror.name} had not copied all of {last} after {timeout_s:.0f} s"


def _content(message: Message) -> tuple[object, ...]:
    """What must be equal in both clusters: key and value."""
    return message.key(), message.value()


# Called with the mirror, its source and its target; returns what `kaput compare --json` prints.
CompareMirror = Callable[[Mirror, ClusterAddress, ClusterAddress], Mapping[str, Any]]


def compare_mirrors(
    mirrors: Sequence[Mirror],
    clusters: Mapping[str, ClusterAddress],
    folder: RunFolder,
    compare: CompareMirror,
    note: Callable[[str], None],
) -> None:
    """Writes a comparison of each mirror; if it fails, one with the reason. `clusters`: by name."""
    for mirror in mirrors:
        try:
            answer = compare(mirror, clusters[mirror.from_], clusters[mirror.to])
        except Exception as error:  # noqa: BLE001
            # Never fail the run for it: the expectation stays unknown.
            why = str(error) if isinstance(error, KaputError) else f"{type(error).__name__}: {error}"
            note(f"mirror {mirror.name} could not be compared: {why}")
            answer = _failed_answer(mirror, why)
        path = folder.comparison(mirror.from_, mirror.to)
        path.parent.mkdir(exist_ok=True)
        replace_text(path, json.dumps(answer, indent=2) + "\n")


def _failed_answer(mirror: Mirror, why: str) -> dict[str, Any]:
    ends = {"source": mirror.from_, "target": mirror.to}
    return {"schema": COMPARE_SCHEMA, **ends, "status": None, "rows": [], "notes": [why]}
