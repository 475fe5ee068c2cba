"""The inputs of an analysis, from one run folder: evidence, scenario, groups, and the small tables.

Not here: the big tables (runs/tables.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from kaput.analysis.facts import lag
from kaput.analysis.facts.assignments import place_of, position_of
from kaput.analysis.facts.serving import asked_by_clients
from kaput.analysis.runs.names import Names
from kaput.core import FOREVER_NS, MS, TopicPartition, cluster_and_topic, qualified
from kaput.errors import EvidenceError
from kaput.evidence.fault_rows import FaultRow, read_faults
from kaput.evidence.folder import Manifest
from kaput.evidence.parquet import footer_of, open_file, read_row_group
from kaput.evidence.reading import GROUP_TABLES, STORE_TABLES, Evidence
from kaput.evidence.schemas import CLUSTER, countable
from kaput.scenario.fault_kinds import AT_ONCE, RECREATE, RESIZE
from kaput.scenario.groups import Group, client_title
from kaput.scenario.loader import read_resolved
from kaput.scenario.model import Producers, Scenario, pipes
from kaput.scenario.vocabulary import NOOP, Isolation


@dataclass(frozen=True)
class Inputs:
    """One run folder, read. `scenario` is None where scenario.yaml is missing."""

    evidence: Evidence
    scenario: Scenario | None

    @property
    def manifest(self) -> Manifest:
        return self.evidence.manifest

    @property
    def producers(self) -> Sequence[Producers]:
        """The scenario's producers, by number; none without a scenario."""
        return self.scenario.producer_specs() if self.scenario else []

    @property
    def group_specs(self) -> Sequence[Group]:
        """The scenario's groups; none without a scenario."""
        return self.scenario.workload.groups if self.scenario else []

    @cached_property
    def names(self) -> Names:
        """All names of topics, groups, members and stores in the folder."""
        topics = {topic for topic, _ in self.expected_places}
        topics |= {topic for topic, _ in self.ends}
        tables = ("sends", "log", *GROUP_TABLES)
        topics = topics.union(*(self.evidence.words[table, "topic"] for table in (*tables, "replayed")))
        members = frozenset[str]().union(*(self.evidence.words[table, "member"] for table in GROUP_TABLES))
        return Names(sorted(topics), self.groups, sorted(members), self.stores)

    @cached_property
    def stores(self) -> list[str]:
        """Every store in manifest or evidence, in alphabetical order."""
        known = {store.store for store in self.manifest.stores}
        return sorted(known.union(*(self.evidence.words[table, "store"] for table in STORE_TABLES)))

    @cached_property
    def groups(self) -> list[str]:
        """Every consumer group in manifest, scenario or evidence, in alphabetical order."""
        known = {group.group for group in self.manifest.groups}
        known |= {group.id for group in self.group_specs}
        return sorted(known.union(*(self.evidence.words[table, "group"] for table in GROUP_TABLES)))

    @property
    def stores_read(self) -> set[str]:
        """The stores that could be listed at the end of the run."""
        return {store.store for store in self.manifest.stores if store.read}

    @property
    def ordered(self) -> dict[int, int]:
        """By producer with keys and a store with `ordered`: its number of keys; 0: a single one."""
        specs = enumerate(self.producers)
        keeping = {number for number, spec in specs if spec.on_failure and spec.on_failure.ordered}
        return {producer: n for producer, (_, n) in self.keyed.items() if producer in keeping}

    @property
    def clients(self) -> dict[int, str]:
        """By producer, the title of its client, from the scenario."""
        return {number: client_title(spec) for number, spec in enumerate(self.producers)}

    @property
    def types(self) -> list[str]:
        """The type of each group: share if it has share_events, else as in the scenario, else classic."""
        known = {group.id: group.type for group in self.group_specs}
        shared = dict.fromkeys(self.evidence.words["share_events", "group"], "share")
        return [shared.get(group, known.get(group, "classic")) for group in self.groups]

    @property
    def share_groups(self) -> dict[int, int | None]:
        """By index of the share groups: the maximum delivery count of a record, None if unknown."""
        scenario = self.scenario
        limits = {g.id: scenario.delivery_limit(g) for g in self.group_specs} if scenario else {}
        every = enumerate(zip(self.groups, self.types, strict=True))
        return {index: limits.get(group) for index, (group, kind) in every if kind == "share"}

    @property
    def isolations(self) -> list[Isolation | None]:
        """The isolation of each group, from the manifest, else the scenario; None if it is in neither."""
        known: dict[str, Isolation | None] = {group.group: group.isolation for group in self.manifest.groups}
        specs = {group.id: group.isolation for group in self.group_specs}
        return [known.get(group) or specs.get(group) for group in self.groups]

    @property
    def pipes(self) -> dict[int, Collection[str] | None]:
        """By index of the groups that are pipes: the topics that they read, None for all."""
        topics = self.reads
        pipe_groups = {group.id for group in pipes(self.scenario)} if self.scenario else set()
        pipe_groups |= self.evidence.words["outputs", "group"]
        return {index: topics.get(group) for index, group in enumerate(self.groups) if group in pipe_groups}

    @property
    def drained(self) -> list[bool]:
        """For each group, whether its drain finished."""
        done = {group.group: group.drained for group in self.manifest.groups}
        return [done.get(group, False) for group in self.groups]

    @cached_property
    def reads(self) -> dict[str, frozenset[str] | None]:
        """By group: the topics that it reads; None for all. Raises EvidenceError."""
        specs = {group.id: group for group in self.group_specs}
        specified = {group: matching(spec, self.names.topics) for group, spec in specs.items()}
        # With several clusters a group may have moved: only its evidence tells what it read in the others.
        several = bool(self.scenario and self.scenario.clusters)
        others = {group for group in self.groups if several or group not in specs}
        found = named(self.evidence, self.group_events, others)
        moved = {group: found[group] or frozenset() for group in specified if group in found}
        return found | {group: topics | moved.get(group, frozenset()) for group, topics in specified.items()}

    @property
    def subscribed(self) -> dict[int, frozenset[str] | None]:
        """By index of the drained groups: the topics that it reads, None for all."""
        return {
            index: self.reads[group]
            for index, (group, drained) in enumerate(zip(self.groups, self.drained, strict=True))
            if drained
        }

    @property
    def expected_places(self) -> list[TopicPartition]:
        """The partitions of the scenario's topics."""
        topics = self.scenario.all_topics() if self.scenario else []
        return [TopicPartition(t.full_name, p) for t in topics for p in range(t.partitions)]

    @property
    def replicas(self) -> Mapping[str, Mapping[int, int]]:
        """The intended number of replicas, by topic and partition."""
        topics = self.scenario.all_topics() if self.scenario else []
        more = self.scenario.most_replicas() if self.scenario else 0
        return {t.full_name: {p: max(more, t.replica_count(p)) for p in range(t.partitions)} for t in topics}

    def with_acks(self, acks: str) -> list[int]:
        """The producers with this setting of acks."""
        return [producer for producer, spec in enumerate(self.producers) if spec.acks == acks]

    @property
    def sessions_ns(self) -> dict[str, int]:
        """The session timeout of each group of the scenario, with Kafka's default."""
        if self.scenario is None:
            return {}
        known = [(group, self.scenario.cluster_of(group).config) for group in self.scenario.workload.groups]
        return {group.id: group.session_ms(config) * MS for group, config in known}

    @property
    def late(self) -> dict[int, int]:
        """By index of late groups: how far before their beginning they read back (ns)."""
        reads_back_ns = {self.groups.index(group.id): group.reads_back_ns for group in self.group_specs}
        return {group: back_ns for group, back_ns in reads_back_ns.items() if back_ns is not None}

    @property
    def resized(self) -> list[str]:
        """The topics that a fault gave more partitions, in alphabetical order."""
        return self.hit_by(RESIZE)

    def hit_by(self, fault: str) -> list[str]:
        """The topics that this kind of fault took effect on, in alphabetical order."""
        known = {topic for topic, _ in (*self.expected_places, *self.ends)}
        hit = {f.hit.whole_topic for f in self.faults if f.fault == fault and f.proven}
        return sorted(known & {self.full_name(topic) for topic in hit if topic is not None})

    def full_name(self, topic: str) -> str:
        """A topic of the scenario, qualified by its cluster's name if that has one."""
        found = self.scenario.topic(topic) if self.scenario else None
        return found.full_name if found else topic

    @property
    def keyed(self) -> dict[int, tuple[str, int]]:
        """By producer that repeats keys: its topic, and its number of keys; 0: a single one."""
        specs = enumerate(self.producers)
        every = {producer: (qualified(spec.cluster, spec.topic), spec.key) for producer, spec in specs}
        counts = {p: (topic, 0 if key == "producer" else key) for p, (topic, key) in every.items()}
        return {p: (topic, n) for p, (topic, n) in counts.items() if isinstance(n, int)}

    @cached_property
    def cluster_events(self) -> list[dict[str, Any]]:
        return self.evidence.rows("cluster_events")

    @cached_property
    def group_events(self) -> list[dict[str, Any]]:
        return self.evidence.rows("group_events")

    @cached_property
    def plan(self) -> list[dict[str, Any]]:
        """The plan table."""
        return self.evidence.rows("plan")

    @cached_property
    def commits(self) -> dict[tuple[str, TopicPartition], list[tuple[int, int]]]:
        """By group and partition: the time and offset of each confirmed commit that has an offset."""
        found: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = {}
        for event in self.group_events:
            place, offset = place_of(event), position_of(event)
            if event["kind"] == "committed" and place is not None and offset is not None:
                found.setdefault((event["group"], place), []).append((event["at_ns"], offset))
        return found

    @cached_property
    def samples(self) -> list[dict[str, Any]]:
        """The samples table, without invalid values."""
        return [row for row in self.evidence.rows("samples") if countable(row["name"], row["value"])]

    @cached_property
    def lags(self) -> Mapping[str, Sequence[lag.LagSample]]:
        """The lag of each group with samples, over time."""
        return lag.series(self.samples, self.clusters)

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[tuple[int, str | None]]]:
        """By group: since when (ns) it was in which cluster."""
        return lag.clusters(self.group_events)

    def places_of(self, group: str) -> set[TopicPartition]:
        """The known partitions of the topics that a group is known to read."""
        topics = self.reads[group] or ()
        return {place for place in {*self.expected_places, *self.ends} if place[0] in topics}

    @cached_property
    def ends(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """The end_offsets table: (end_offset, drained_to). Raises EvidenceError if two rows disagree."""
        ends: dict[TopicPartition, tuple[int, int]] = {}
        for where, row in self.evidence.located("end_offsets"):
            place = TopicPartition(row["topic"], row["partition"])
            row_ends = row["end_offset"], row["drained_to"]
            if ends.setdefault(place, row_ends) != row_ends:
                raise EvidenceError(
                    f"{where}: end_offset {row_ends[0]}, drained_to {row_ends[1]} for {place[0]}/{place[1]}, "
                    f"but another row says {ends[place][0]}, {ends[place][1]}"
                )
        return ends

    @cached_property
    def starts(self) -> Mapping[TopicPartition, int]:
        """The log start offset of each partition when it was read, where end_offsets has it."""
        rows = self.evidence.rows("end_offsets")
        known = [row for row in rows if row["start_offset"] is not None]
        return {TopicPartition(row["topic"], row["partition"]): row["start_offset"] for row in known}

    @cached_property
    def faults(self) -> list[FaultRow]:
        """The faults table, in the order of injection. Raises EvidenceError if two rows have the same id."""
        seen: dict[str, str] = {}
        rows: list[dict[str, Any]] = []
        for where, row in self.evidence.located("faults"):
            if row["id"] in seen:
                raise EvidenceError(
                    f"{where}: fault {row['id']!r} has a row already ({seen[row['id']]}): each fault has one"
                )
            seen[row["id"]] = where
            rows.append(row)
        return [self._over_at_once(one) for one in read_faults(rows)]

    def _over_at_once(self, fault: FaultRow) -> FaultRow:
        """A change that never ends was over when it took effect, also if the run ended before it was looked
        at again.
        """
        step = self.scenario.step_of(fault.id, fault.fault) if self.scenario is not None else None
        again = fault.fault == RECREATE and step is not None and step.for_ is None
        if fault.proven and fault.healed_ns is None and (again or fault.fault in AT_ONCE):
            return replace(fault, healed_ns=fault.effective_ns)
        return fault

    def asked_by_clients(self, fault: FaultRow) -> str | None:
        """Of a fault in the protocol: what it acts on, if only clients ask for it; else None."""
        return asked_by_clients(fault, self.scenario)

    @cached_property
    def faults_of_nodes(self) -> list[FaultRow]:
        """Those that may lead to elections: all but those on requests of clients."""
        return [fault for fault in self.faults if self.asked_by_clients(fault) is None]

    @cached_property
    def fault_span(self) -> tuple[int, int] | None:
        """From the injection of the first fault that took effect to the last heal (ns)."""
        found = [one for one in self.faults if one.fault != NOOP and one.effective_ns is not None]
        if not found:
            return None
        return min(one.injected_ns for one in found), max(one.healed_ns or self.ended_ns for one in found)

    @property
    def ended_ns(self) -> int:
        """The end of the run, or the end of time."""
        return self.manifest.ended_ns or FOREVER_NS


def read(evidence: Evidence) -> Inputs:
    """Reads a checked run folder. Raises UsageError (its scenario), EvidenceError (its small tables)."""
    path = evidence.folder.scenario_path
    given = Inputs(evidence, read_resolved(path) if path.exists() else None)
    # Evaluated now, so that contradictory rows are always refused.
    _ = given.faults, given.ends
    return given


_PATTERN = "^"  # every client treats a name beginning with it as a pattern


def matching(group: Group, topics: Collection[str]) -> frozenset[str]:
    """The topics of its cluster that a group subscribes to. Raises EvidenceError for an invalid pattern."""
    parts = {topic: cluster_and_topic(topic) for topic in topics}
    own = {topic: name for topic, (cluster, name) in parts.items() if cluster == group.cluster}
    return frozenset(
        topic
        for topic, name in own.items()
        if any(_matches(group, name_or_pattern, name) for name_or_pattern in group.topics)
    )


def _matches(group: Group, name_or_pattern: str, topic: str) -> bool:
    if not name_or_pattern.startswith(_PATTERN):
        return name_or_pattern == topic
    try:
        pattern = re.compile(name_or_pattern)
    except re.error as error:
        raise EvidenceError(
            f"scenario.yaml: group {group.id}: {name_or_pattern!r} is not a pattern of topics ({error})"
        ) from None
    # Brokers and Kafka's own client match the whole name, librdkafka its beginning.
    whole = group.type != "classic" or group.client == "java"
    return bool(pattern.fullmatch(topic) if whole else pattern.match(topic))


def named(
    evidence: Evidence, events: Iterable[Mapping[str, Any]], groups: Collection[str]
) -> dict[str, frozenset[str] | None]:
    """By group: the topics that its members were assigned or that were inputs of its outputs; if there are
    none, those that were delivered to it. None for a group without any.
    """
    if not groups:
        return {}
    first: dict[str, set[str]] = {group: set() for group in groups}
    for event in events:
        if event["group"] in first and event["topic"] is not None:
            first[event["group"]].add(event["topic"])
    for tables in (("outputs", "share_events"), ("deliveries",)):
        wanted = groups if "outputs" in tables else {group for group, topics in first.items() if not topics}
        for group, topic in _groups_and_topics(evidence, tables, wanted):
            first[group].add(topic)
    return {group: frozenset(topics) or None for group, topics in first.items()}


def _groups_and_topics(
    evidence: Evidence, tables: Iterable[str], groups: Collection[str]
) -> Iterable[tuple[str, str]]:
    """The distinct (group, topic) of big tables, for these groups, per row group."""
    for table in tables if groups else ():
        found = evidence.tables[table]
        columns = ["group", "topic", *([] if CLUSTER in found.lacking else [CLUSTER])]
        for path in found.files:
            for index in range(footer_of(path).num_row_groups):
                rows = read_row_group(open_file(path, columns), path, index, columns)
                plain = pa.table({name: rows[name].cast(pa.string()) for name in columns})
                for row in plain.group_by(columns).aggregate([]).to_pylist():
                    if row["group"] in groups:
                        yield row["group"], qualified(row.get(CLUSTER), row["topic"])
