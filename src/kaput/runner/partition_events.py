"""Elections and ISR changes as events, noticed during the run: for steps that wait for them.

Read from the metadata logs on this machine, within some 10 ms; without those (ZooKeeper mode, an existing
cluster) the brokers are polled. Not here: what the analysis uses (cluster/event_log.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kaput.cluster import metadata_records
from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.events import ClusterEvent
from kaput.cluster.followed_log import FollowedLog
from kaput.cluster.metadata_log import Image
from kaput.core import TopicPartition
from kaput.faults.event_triggers import Occurrence
from kaput.runner.cluster_poller import partition_changes
from kaput.scenario.events import PARTITION_EVENTS

_MS = 1_000_000


class Occurrences:
    """Converts partition events to the occurrences that steps wait for. `topics`: the names of each."""

    def __init__(self, topics: Mapping[str, Sequence[str]]) -> None:
        self._topics = topics
        self._isr: dict[TopicPartition, set[int]] = {}

    def of(self, event: ClusterEvent, at_ns: int | None) -> Iterator[Occurrence]:
        """The event's occurrences; none for the creation of a partition, which changes nothing."""
        if event.topic is None or event.topic not in self._topics or event.partition is None:
            return
        place, isr = TopicPartition(event.topic, event.partition), set(event.isr or ())
        before, self._isr[place] = self._isr.get(place), isr
        if before is None:
            return
        names = self._topics[event.topic]
        of = (*(f"{name}/{event.partition}" for name in names), *names)
        noticed = time.time_ns()
        if event.kind == "leader" and event.leader != -1:
            details = f"leader {event.leader}, leader epoch {event.leader_epoch}"
            yield Occurrence("election", of, details, at_ns, noticed, place, event.leader_epoch)
        for name, moved in (("isr-shrink", before - isr), ("isr-expand", isr - before)):
            if moved:
                brokers = ", ".join(map(str, sorted(moved)))
                yield Occurrence(name, of, f"broker {brokers}", at_ns, noticed)


class MetadataEvents:
    """Reads the metadata logs of all voters of one cluster."""

    events = PARTITION_EVENTS

    def __init__(self, logs: Sequence[Path], topics: Mapping[str, Sequence[str]]) -> None:
        self._log = FollowedLog(logs, enough=len(logs) // 2 + 1)
        self._image, self._occurrences = Image(), Occurrences(topics)

    def take(self) -> list[Occurrence]:
        """New occurrences. Raises OSError, ValueError."""
        return [
            occurrence
            for batch in self._log.take()
            for kind, data, at_ms in metadata_records.decode(batch)
            for event in self._image.apply(kind, data, at_ms * _MS)
            for occurrence in self._occurrences.of(event, event.at_ns)
        ]

    def close(self) -> None:
        """Closes the files."""
        self._log.close()


class PolledEvents:
    """Polls the brokers. The caller closes `admin`."""

    events = PARTITION_EVENTS

    def __init__(self, admin: Admin, topics: Mapping[str, Sequence[str]]) -> None:
        self._admin, self._topics = admin, topics
        self._occurrences = Occurrences(topics)
        self._known: dict[TopicPartition, PartitionState] = {}

    def take(self) -> list[Occurrence]:
        """New occurrences. Raises LabError."""
        states = self._admin.partitions(self._topics)
        found = partition_changes(self._known, states, time.time_ns(), 0)
        self._known |= states
        return [occurrence for event in found for occurrence in self._occurrences.of(event, None)]

    def close(self) -> None:
        """Does nothing."""
