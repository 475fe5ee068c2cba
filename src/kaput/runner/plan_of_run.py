"""Connects the plan of a run to its clusters, mirrors, clients and faults.

Not here: steps (plan_steps.py), and when they begin (plan.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from kaput.cluster.access import Access
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.mirror_drain import await_mirrored, record_mirrored
from kaput.runner.nemesis_of_run import RunNemesis
from kaput.runner.plan import NoPlan, OnStep, Plan
from kaput.runner.plan_world import PlanCluster, PlanWorld
from kaput.runner.sites import Sites
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario, Topic
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.supervision.supervisor import Supervisor

_FLUSH_S = 20.0
_CONNECTOR = "MirrorSourceConnector"
_OFFSETS_PARTITIONS = 25  # Connect's default


def plan_of_run(
    stack: ExitStack,
    scenario: Scenario,
    sites: Sites,
    supervisor: Supervisor,
    nemesis: RunNemesis,
    folder: Path,
    on_step: OnStep,
) -> Plan | NoPlan:
    """The plan, not yet started; `stack` closes its recorders."""
    if not scenario.plan:
        return NoPlan()
    rows = stack.enter_context(Recorder(folder, "mirror", "plan"))
    clusters = {
        site.name: PlanCluster(
            site.name, site.cluster.bootstrap_servers, site.admin, site.cluster.access(), site.cluster.nodes
        )
        for site in sites
    }
    mirrors = MirrorControls(sites, rows)
    world = PlanWorld(scenario, clusters, mirrors, supervisor, nemesis.heal_now, rows)
    recorder = stack.enter_context(Recorder(folder, "plan", "kaput"))
    return Plan(scenario.plan, world, recorder, on_step)


class MirrorControls:
    """Controls the mirrors of a run for its plan; implements PlanMirrors."""

    def __init__(self, sites: Sites, rows: Recorder) -> None:
        self._sites, self._rows = sites, rows

    def mirror(self, name: str) -> Mirror:
        """Raises LabError."""
        return self._sites.mirrors.node(name).mirror

    def start(self, name: str) -> None:
        """Raises LabError."""
        self._sites.mirrors.start(name)

    def await_ready(self) -> None:
        """Raises LabError."""
        self._sites.mirrors.await_ready()

    def stop(self, name: str, patience_s: float) -> None:
        """Raises LabError."""
        self._sites.mirrors.stop(name, patience_s)

    def copied(self, name: str, wait_s: float) -> list[str]:
        """Waits until the target has everything the source has now; sentences about what is missing."""
        mirror = self.mirror(name)
        found = await_mirrored(mirror, self._sites.of(mirror.from_), self._sites.of(mirror.to), wait_s)
        self._sites.mirrors.note_drained(name, record_mirrored(self._rows, mirror, found))
        return [each for each in found if isinstance(each, str)]

    def set_start_offsets(self, name: str, ends: Mapping[TopicPartition, int]) -> None:
        """Sets where a mirror starts, before its first start: writes to the topic in which Connect keeps its
        offsets.
        """
        mirror = self.mirror(name)
        target = self._sites.of(mirror.to)
        topic = f"mm2-offsets.{mirror.from_}.internal"
        if topic in target.admin.topics():
            return  # it ran before, and resumes there
        replicas = min(3, len(target.cluster.broker_ids()))
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
        access = target.cluster.access()
        write_offsets(target.cluster.bootstrap_servers, access, topic, mirror, ends)


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
    if client.flush(_FLUSH_S):
        raise LabError(f"where {mirror.name} begins could not be written to {topic}")
