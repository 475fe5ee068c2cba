"""What the steps of a plan act on: the clusters, mirrors, clients and faults of a run.

Not here: what steps do (steps.py), and when they begin (plan.py).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Producer

from kaput.cluster.access import Access
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.mirrors.drain import await_mirrored, record_mirrored
from kaput.runner.run_cluster import RunCluster, RunClusters
from kaput.scenario.checks.plan import movable
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario, Topic, source_and_target
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.supervision.supervisor import Supervisor

_CONNECTOR = "MirrorSourceConnector"
_OFFSETS_PARTITIONS = 25  # Connect's default


class MirrorControls:
    """Controls the mirrors of a run for its plan, by name (`dc1->dc2`)."""

    def __init__(self, scenario: Scenario, clusters: RunClusters, rows: Recorder) -> None:
        self._scenario, self._clusters, self._rows = scenario, clusters, rows
        mirrors = clusters.mirrors
        self.start, self.stop, self.await_ready = mirrors.start, mirrors.stop, mirrors.await_ready

    def mirror(self, name: str) -> Mirror:
        """Raises LabError."""
        return self._clusters.mirrors.node(name).mirror

    def copied(self, name: str, wait_s: float) -> list[str]:
        """Waits until the target has everything the source has now; sentences about what is missing."""
        mirror = self.mirror(name)
        source, target = self._clusters.of(mirror.from_), self._clusters.of(mirror.to)
        deleted = self._scenario.deleted_topics(mirror.from_)
        progress = await_mirrored(mirror, source, target, wait_s, deleted)
        self._clusters.mirrors.note_drained(name, record_mirrored(self._rows, mirror, progress))
        return [each for each in progress if isinstance(each, str)]

    def set_start_offsets(self, name: str, ends: Mapping[TopicPartition, int]) -> None:
        """Sets where a mirror starts, in Connect's topic of offsets, before its first start."""
        mirror = self.mirror(name)
        target = self._clusters.of(mirror.to)
        topic = f"mm2-offsets.{mirror.from_}.internal"
        if topic in target.admin.topics():
            return  # it ran before, and resumes there
        replicas = min(3, len(target.kafka.broker_ids()))
        compacted = {"cleanup.policy": "compact"}
        target.admin.create_topics(
            [
                Topic(
                    name=topic,
                    partitions=_OFFSETS_PARTITIONS,
                    replication_factor=replicas,
                    config=dict(compacted),
                )
            ]
        )
        access = target.kafka.access()
        write_offsets(target.kafka.bootstrap_servers, access, topic, mirror, ends)


def write_offsets(
    servers: str, access: Access, topic: str, mirror: Mirror, ends: Mapping[TopicPartition, int]
) -> None:
    """Writes source offsets exactly as Connect does, which compares keys byte by byte. Raises LabError."""
    client = Producer(
        {"bootstrap.servers": servers, "acks": "all", **access.librdkafka()}, logger=quiet_logger()
    )
    for place, end in ends.items():
        if place.topic in mirror.topics and end > 0:
            of = {"cluster": mirror.from_, "partition": place.partition, "topic": place.topic}
            key = json.dumps([_CONNECTOR, of], separators=(",", ":"))
            # The last copied offset: it resumes with the next one.
            client.produce(topic, json.dumps({"offset": end - 1}, separators=(",", ":")), key)
    if client.flush(20.0):
        raise LabError(f"where {mirror.name} begins could not be written to {topic}")


@dataclass
class PlanWorld:
    """Everything steps act on. `heal` returns the faults ended; `aborted`: the run ends early."""

    scenario: Scenario
    clusters: Mapping[str, RunCluster]
    mirrors: MirrorControls
    clients: Supervisor
    heal: Callable[[], Sequence[str]]
    rows: Recorder  # of the table `mirror`
    aborted: threading.Event = field(default_factory=threading.Event)
    held: set[int] = field(default_factory=set)  # producers that are stopped
    # By cluster, its end offsets when clients first moved there.
    switched_at: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def cluster(self, name: str | None) -> RunCluster:
        """The cluster of that name; if None, the one that the plan moves clients from. Raises LabError."""
        source, _ = source_and_target(self.scenario) or (next(iter(self.clusters)), None)
        named = self.clusters.get(name or source)
        if named is None:
            raise LabError(f"there is no cluster {name}")
        return named

    def producers_at(
        self, cluster: str | None = None, *, but: str | None = None, among: Collection[int] | None = None
    ) -> list[int]:
        """The movable producers that send to that cluster, or to any but one."""
        numbers = []
        for number, block in enumerate(self.scenario.producer_specs()):
            now = self.clients.cluster_of_producer(number) or block.cluster
            asked = among is None or number in among
            if asked and movable(block) is None and now != but and cluster in (None, now):
                numbers.append(number)
        return numbers

    def producer_place(self, number: int) -> str:
        """The cluster a producer sends to, or sent to last."""
        block = self.scenario.producer_specs()[number]
        return self.clients.cluster_of_producer(number) or block.cluster or next(iter(self.clusters))

    def group_place(self, group: str) -> str:
        """The cluster a group reads from."""
        block = self.scenario.group(group)
        here = block.cluster if block is not None else None
        return self.clients.cluster_of_group(group) or here or next(iter(self.clusters))

    def ends(self, cluster: str) -> dict[TopicPartition, int]:
        """The end offsets of the cluster's partitions. Raises LabError if it does not answer."""
        admin = self.cluster(cluster).admin
        return admin.log_end_offsets(list(admin.partitions(self.scenario.topic_names(cluster))))

    def note_switch(self, cluster: str) -> None:
        """Records that cluster's end offsets, the first time clients move to it."""
        if cluster not in self.switched_at:
            self.switched_at[cluster] = self.ends(cluster)

    def wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Waits for the condition; returns whether it came true before the timeout or the run's end."""
        limit = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() >= limit or self.aborted.wait(0.1):
                return False
        return True
