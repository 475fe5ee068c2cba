"""What a run folder gives the analysis: checked evidence, the scenario, the groups, and the small tables.

Not here: the big tables (load.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kaput.analysis.names import Names, Place
from kaput.analysis.timeline import FOREVER_NS, Fault, read_faults
from kaput.evidence.folder import Manifest
from kaput.evidence.reading import Evidence
from kaput.scenario.loader import read_resolved
from kaput.scenario.model import Scenario

_MS = 1_000_000


@dataclass(frozen=True)
class Inputs:
    """One run folder, read. `scenario` is None where scenario.yaml is missing."""

    evidence: Evidence
    scenario: Scenario | None

    @property
    def manifest(self) -> Manifest:
        """manifest.json"""
        return self.evidence.manifest

    @cached_property
    def names(self) -> Names:
        """The names that anything in the folder uses."""
        topics = {topic for topic, _ in self.expected_places}
        topics |= {row["topic"] for row in self.end_offsets}
        tables = ("sends", "log", "deliveries", "group_events")
        topics = topics.union(*(self.evidence.words[table, "topic"] for table in tables))
        members = self.evidence.words["deliveries", "member"] | self.evidence.words["group_events", "member"]
        return Names(sorted(topics), self.groups, sorted(members))

    @cached_property
    def groups(self) -> list[str]:
        """Every consumer group that anything tells of, in alphabetical order."""
        known = {group.group for group in self.manifest.groups}
        known |= {group.id for group in self.scenario.workload.groups} if self.scenario else set()
        return sorted(known.union(*(self.evidence.words[t, "group"] for t in ("deliveries", "group_events"))))

    @property
    def drained(self) -> list[bool]:
        """For each group, whether it had been handed everything by the end."""
        done = {group.group: group.drained for group in self.manifest.groups}
        return [done.get(group, False) for group in self.groups]

    @property
    def subscribed(self) -> dict[int, list[str] | None]:
        """By index of the drained groups: the topics that it reads, None for all."""
        topics = {g.id: g.topics for g in self.scenario.workload.groups} if self.scenario else {}
        return {
            index: topics.get(group)
            for index, (group, drained) in enumerate(zip(self.groups, self.drained, strict=True))
            if drained
        }

    @property
    def expected_places(self) -> list[Place]:
        """The partitions of the scenario's topics."""
        topics = self.scenario.topics if self.scenario else []
        return [
            (t.name, p) for t in topics for p in range(len(t.assignment) if t.assignment else t.partitions)
        ]

    @property
    def replicas(self) -> Mapping[str, Mapping[int, int]]:
        """How many replicas each partition should have."""
        topics = self.scenario.topics if self.scenario else []
        return {
            t.name: {
                p: len(t.assignment[p]) if t.assignment else t.replication_factor
                for p in range(len(t.assignment) if t.assignment else t.partitions)
            }
            for t in topics
        }

    @property
    def unacknowledging(self) -> list[int]:
        """The producers with acks=0."""
        specs = self.scenario.producer_specs() if self.scenario else []
        return [producer for producer, spec in enumerate(specs) if spec.acks == "0"]

    @cached_property
    def cluster_events(self) -> list[dict[str, Any]]:
        """The cluster_events table."""
        return self.evidence.rows("cluster_events")

    @cached_property
    def end_offsets(self) -> list[dict[str, Any]]:
        """The end_offsets table."""
        return self.evidence.rows("end_offsets")

    @cached_property
    def faults(self) -> list[Fault]:
        """The faults table, in the order of injection."""
        return read_faults(self.evidence.rows("faults"))

    @property
    def healed(self) -> Mapping[str, int | None]:
        """When each fault ended; None for one that never did."""
        return {fault.id: fault.healed_ns for fault in self.faults}

    @property
    def ended_ns(self) -> int:
        """The end of the run, or the end of time."""
        return self.manifest.ended_ns or FOREVER_NS

    def deaths(self) -> list[tuple[int, int]]:
        """Brokers that stopped outside every fault on them: (broker, at_ns)."""
        return [
            (row["broker"], row["at_ns"])
            for row in self.cluster_events
            if row["kind"] == "stopped"
            and row["broker"] is not None
            and row["at_ns"] <= self.ended_ns
            and not _in_a_fault(row["broker"], row["at_ns"], self.faults)
        ]


def _in_a_fault(broker: int, at_ns: int, faults: Sequence[Fault]) -> bool:
    return any(
        broker in fault.brokers
        and fault.injected_ns // _MS <= at_ns // _MS
        and (fault.healed_ns is None or at_ns // _MS <= fault.healed_ns // _MS)
        for fault in faults
    )


def read(evidence: Evidence) -> Inputs:
    """What a checked run folder gives. Raises UsageError where its scenario is none."""
    path = evidence.folder.scenario_path
    return Inputs(evidence, read_resolved(path) if path.exists() else None)
