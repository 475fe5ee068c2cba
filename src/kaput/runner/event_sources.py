"""The sources of events that steps wait for: only those this scenario needs.

Requests of clients are reported by the proxies in front of the brokers, phases of rebalances are in what
group members record. Elections and ISR changes are read from the metadata logs on this machine, within some
10 ms; without those (ZooKeeper mode, an existing cluster) the brokers are polled. Transactions whose outcome
is decided but whose markers are not written yet: the coordinator logs each state in __transaction_state; one
that passes through PrepareCommit between two polls is not reported, as its markers were not pending for long.

For another kind of event, add a class with the interface of EventSource (faults/event_triggers.py), and a
line in `event_sources`. Not here: what the analysis uses (cluster/own_cluster.py: events).
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.frames.frame_proxy import FrameProxy, FrameRule, SeenFrame
from kaput.cluster.kafka_cluster import ClusterEvent, KafkaCluster
from kaput.cluster.metadata_log import Image, MetadataDecoder, log_events
from kaput.cluster.node import Node
from kaput.cluster.record_batches import read_records
from kaput.cluster.segments import FollowedLog
from kaput.core import MS, TopicPartition, qualified
from kaput.errors import LabError, UnknownFormat
from kaput.evidence.folder import RunFolder
from kaput.evidence.tails import StreamTail
from kaput.faults.event_triggers import EventSource, Occurrence
from kaput.runner.cluster_events import partition_changes
from kaput.runner.run_cluster import RunCluster, RunClusters
from kaput.runner.samplers import SAMPLE_S
from kaput.scenario.apis import API_KEYS
from kaput.scenario.events import GROUP_EVENTS, MARKERS_PENDING, PARTITION_EVENTS, REQUEST
from kaput.scenario.model import Scenario
from kaput.scenario.producers import TRANSACTIONS, partition_of, transactional_id


class FrameEvents:
    """From the first `take` on, every proxy reports requests of these APIs."""

    events = frozenset({REQUEST})

    def __init__(self, nodes: Mapping[int, Node], apis: Collection[str]) -> None:
        self._nodes, self._apis = nodes, apis
        self._watched: set[FrameProxy] = set()
        self._found: list[Occurrence] = []
        self._lock = threading.Lock()

    def take(self) -> list[Occurrence]:
        """New events by time. Raises LabError."""
        for node in list(self._nodes.values()):
            if node.proxy is not None and node.proxy not in self._watched:
                for api in self._apis:
                    rule = FrameRule(f"event-{api}", API_KEYS[api])
                    node.proxy.put(rule, partial(self._on_frame, api, node.title))
                self._watched.add(node.proxy)
        with self._lock:
            found, self._found = self._found, []
        return sorted(found, key=lambda each: each.at_ns or 0)

    def close(self) -> None:
        """Removes the rules: on a warm cluster the proxies stay."""
        for proxy in self._watched:
            with suppress(LabError):  # it went down with its broker's cluster
                for api in self._apis:
                    proxy.end(f"event-{api}")

    def _on_frame(self, api: str, broker: str, frame: SeenFrame) -> None:
        details = f"{broker}, client {frame.client_id}, correlation id {frame.correlation_id}"
        with self._lock:
            self._found.append(Occurrence(REQUEST, (api,), details, frame.at_ns, time.time_ns()))


_COLUMNS = ("group", "member", "kind", "at_ns")


class MemberEvents:
    """Reads the streams of the table group_events in `folder`."""

    events = GROUP_EVENTS

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[Path, StreamTail] = {}

    def take(self) -> list[Occurrence]:
        """One event per member and callback, regardless of the number of partitions. Raises OSError."""
        for path in self._folder.glob("*.arrows"):
            if path not in self._tails:
                self._tails[path] = StreamTail(os.open(path, os.O_RDONLY), _COLUMNS)
        noticed, occurrences = time.time_ns(), dict[tuple[str, ...], Occurrence]()
        for tail in self._tails.values():
            for batch in tail.take():
                for row in batch.to_pylist():
                    name, member = f"partitions-{row['kind']}", row["member"]
                    if name in GROUP_EVENTS:
                        occurrences.setdefault(
                            (name, row["group"], member),
                            Occurrence(name, (row["group"],), member, row["at_ns"], noticed),
                        )
        return list(occurrences.values())

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()


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
    """Reads the metadata logs of all voters of one cluster. `jars`: those of its newest Kafka at this time,
    since an upgrade brings newer versions of records.
    """

    events = PARTITION_EVENTS

    def __init__(
        self,
        logs: Sequence[Path],
        topics: Mapping[str, Sequence[str]],
        jars: Callable[[], Sequence[Path]],
    ) -> None:
        self._log, self._jars = FollowedLog(logs, enough=len(logs) // 2 + 1), jars
        self._decoded_by = jars()
        self._decoder = MetadataDecoder(self._decoded_by)
        self._image, self._occurrences = Image(), Occurrences(topics)
        self._problem: ValueError | None = None

    def take(self) -> list[Occurrence]:
        """New occurrences, up to a record that cannot be read: an event may be missing from then on, which is
        an error whenever there is nothing new. Raises OSError, ValueError, LabError.
        """
        batches = self._log.take()
        if batches and (jars := self._jars()) != self._decoded_by:  # asked after the log was read
            self._decoder, self._decoded_by = MetadataDecoder(jars), jars
        found: list[Occurrence] = []
        try:
            for event in log_events(self._decoder.decode(batches), self._image):
                found.extend(self._occurrences.of(event, event.at_ns))
        except ValueError as error:
            self._problem = self._problem or error
        if self._problem is not None and not found:
            raise self._problem.with_traceback(None)  # the same one, each time
        return found

    def close(self) -> None:
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
        changes = partition_changes(self._known, states, time.time_ns(), 0)
        self._known |= states
        return [occurrence for event in changes for occurrence in self._occurrences.of(event, None)]

    def close(self) -> None:
        """Does nothing."""


# TransactionLogValue, of any version: version i16 | producer id i64 | epoch i16 | timeout i32 | state i8
_VALUE = struct.Struct(">hqhib")
_PENDING = {2: "PrepareCommit", 3: "PrepareAbort"}
_KEY_HEAD_BYTES = 4  # version i16 | length of the transactional id i16


def _state(value: bytes) -> int:
    """The number of the transaction's state. Raises UnknownFormat."""
    try:
        state: int = _VALUE.unpack_from(value)[-1]
    except struct.error:
        raise UnknownFormat(f"{TRANSACTIONS} has a value of {len(value)} bytes") from None
    return state


class TransactionEvents:
    """Reads the coordinators' logs in `folders`; `ids`: names by transactional id."""

    events = frozenset({MARKERS_PENDING})

    def __init__(self, folders: Callable[[], list[Path]], ids: Mapping[str, str]) -> None:
        self._folders, self._ids = folders, ids
        self._logs: list[FollowedLog] = []

    def take(self) -> list[Occurrence]:
        """New occurrences. Raises OSError, ValueError, UnknownFormat."""
        if not self._logs:
            self._open()
        noticed, last = time.time_ns(), dict[str, Occurrence | None]()
        for log in self._logs:
            for batch in log.take():
                for record in read_records(batch.data):
                    name = self._ids.get((record.key or b"")[_KEY_HEAD_BYTES:].decode(errors="replace"))
                    if name is None or record.value is None:
                        continue
                    last[name] = None
                    if state := _PENDING.get(_state(record.value)):
                        at_ns = record.timestamp_ms * MS
                        last[name] = Occurrence(MARKERS_PENDING, (name,), state, at_ns, noticed)
        return [occurrence for occurrence in last.values() if occurrence]

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def _open(self) -> None:
        """Opens the partitions that hold the producers' transactions, once they exist."""
        replicas: dict[int, list[Path]] = {}
        for folder in self._folders():
            for path in folder.glob(f"{TRANSACTIONS}-*"):
                number = path.name.rpartition("-")[2]
                if number.isdigit():
                    replicas.setdefault(int(number), []).append(path)
        wanted = {partition_of(each, len(replicas)) for each in self._ids} if replicas else set()
        self._logs = [FollowedLog(replicas[number], enough=1) for number in sorted(wanted)]


def event_sources(
    stack: ExitStack, clusters: RunClusters, scenario: Scenario, folder: RunFolder
) -> Iterator[EventSource]:
    """Creates the sources. The nemesis closes them; `stack` closes clients that they use."""
    wanted = {step.at.event for step in scenario.faults if not isinstance(step.at, str)}
    if wanted & GROUP_EVENTS:
        yield MemberEvents(folder.table("group_events"))
    for cluster in clusters:
        if wanted & PARTITION_EVENTS:
            yield _partition_events(stack, cluster, first=cluster is clusters.first)
        if MARKERS_PENDING in wanted:
            yield _transaction_events(cluster, scenario)
    if apis := {step.at.api for step in scenario.faults if not isinstance(step.at, str) and step.at.api}:
        yield FrameEvents(clusters.nodes, apis)


def _partition_events(stack: ExitStack, cluster: RunCluster, first: bool) -> EventSource:
    """Topics of the first of several clusters may be named without the cluster's name."""
    topics = {name: [qualified(cluster.column, name)] for name in cluster.topics}
    if first and cluster.column is not None:
        topics = {name: [*names, name] for name, names in topics.items()}
    kafka = cluster.kafka
    if kafka.metadata_logs and kafka.distribution is not None:
        return MetadataEvents(kafka.metadata_logs, topics, lambda: _jars(kafka))
    return PolledEvents(stack.enter_context(kafka.admin(SAMPLE_S)), topics)


def _jars(kafka: KafkaCluster) -> Sequence[Path]:
    """Those that its nodes start with from now on, which read what older ones wrote, too."""
    return () if kafka.distribution is None else kafka.distribution.jars


def _transaction_events(cluster: RunCluster, scenario: Scenario) -> EventSource:
    ids = producers_by_id(scenario, cluster.column)
    return TransactionEvents(lambda: [node.data for node in cluster.kafka.nodes.values()], ids)


def producers_by_id(scenario: Scenario, cluster: str | None) -> dict[str, str]:
    """Maps transactional ids to `producer N`, for producers that send transactions to that cluster."""
    return {
        transactional_id(number, spec.transactions.id_prefix): f"producer {number}"
        for number, spec in enumerate(scenario.producer_specs())
        if spec.transactions is not None and spec.cluster == cluster
    }
