"""The steps of a comparison: describe, pair, read, match, and create rows.

End offsets are read from the source first and from the target last, so that a mirror that keeps up is not
behind; positions of groups the other way round, so that a group that progresses meanwhile is not ahead in the
target. Not here: printing (answer.py), and the Spark session, which the caller owns.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from kaput.analysis.engine.spark_jobs import readable
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.compare.answer import IDENTICAL, AspectRow, ComparisonAnswer
from kaput.compare.description import ClusterDescription, ClusterSurvey, cluster_survey
from kaput.compare.groups import GroupPositions, PartitionPair, checkpoint_rows, group_rows
from kaput.compare.matching import Progress
from kaput.compare.mirrors import (
    Bounds,
    await_mirror,
    checkpoints,
    is_checkpoints,
    last_record,
    offset_sync_topics,
    offset_syncs,
    whole_records,
)
from kaput.compare.positions import CLAIMS
from kaput.compare.reading import PartitionFacts, ReadRequest, read_records
from kaput.compare.record_rows import TopicTotals, compared_partitions, log_rows, record_rows
from kaput.compare.records import PairTotals, RecordTotals, compare_records, read_all
from kaput.compare.settings_rows import (
    acl_rows,
    is_schema_topic,
    missing_topic,
    quota_row,
    schema_row,
    subjects,
    topic_rows,
)
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError
from kaput.scenario.nearest import hint

if TYPE_CHECKING:
    from pyspark import SparkContext


Policy = Literal["identity", "default"]
Files = dict[tuple[int, int], Path]  # of rows, by pair and side


@dataclass(frozen=True)
class Naming:
    """A policy; `prefix`: of topic names in the target, such as `dc1.`."""

    policy: Policy
    prefix: str = ""

    def in_target(self, topic: str) -> str:
        """A topic's name in the target. Heartbeats of other clusters keep their name."""
        return self.prefix + topic

    def __str__(self) -> str:
        return f"{self.policy} ({self.prefix}TOPIC)" if self.prefix else self.policy


def wanted_topics(known: Collection[str], patterns: Sequence[str]) -> list[str]:
    """The topics that match `patterns`, or all not internal. Raises UsageError: pattern without topic."""
    if not patterns:
        return sorted(topic for topic in known if not is_internal(topic))
    wanted: set[str] = set()
    for pattern in patterns:
        exact = {pattern} & set(known)
        matching = exact or {t for t in known if fnmatchcase(t, pattern) and not is_internal(t)}
        if not matching:
            raise UsageError(
                f"--topic {pattern}: the source has no such topic; {hint(pattern, sorted(known))}"
            )
        wanted |= matching
    return sorted(wanted)


def is_internal(topic: str) -> bool:
    """Whether it belongs to Kafka, Connect or a mirror, by its name, as MirrorMaker judges."""
    return (
        topic.startswith(("__", "mm2-", "mirrormaker2-"))
        or topic.endswith((".internal", "-internal", ".replica", ".heartbeats"))
        or topic == "heartbeats"
    )


def naming(
    topics: Sequence[str], source: Collection[str], target: Collection[str], policy: Policy | None, name: str
) -> Naming:
    """The given policy, else the one that finds more topics. `name`: the source cluster's name, as given.
    Raises UsageError if the policy is `default` and the prefix cannot be inferred.
    """
    if policy == "identity":
        return Naming("identity")
    by_prefix, named = _prefixes(topics, set(source), set(target)), f"{name}."
    best = named if named in by_prefix else max(sorted(by_prefix), key=by_prefix.__getitem__, default=None)
    if policy == "default":
        return Naming("default", best or named)
    if best is not None and by_prefix[best] >= len(set(topics) & set(target)):
        return Naming("default", best)
    return Naming("identity")


def _prefixes(topics: Sequence[str], source: set[str], target: set[str]) -> Counter[str]:
    """The number of target topics that each prefix finds, without prefixes of the source's own topics."""
    counts: Counter[str] = Counter()
    for topic in topics:
        for candidate in target - source:
            if candidate.endswith(f".{topic}"):
                counts[candidate[: -len(topic)]] += 1
    return counts


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare. `topics`, `groups`: names and patterns; `wait_s`: for the mirror to catch up."""

    source: ClusterAddress
    target: ClusterAddress
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    policy: Policy | None = None
    wait_s: float | None = None


@dataclass(frozen=True)
class _TopicScope:
    """The topics to compare. `names`: in the source; `paired`: source name to target name."""

    names: Sequence[str]
    paired: Mapping[str, str]
    naming: Naming


@dataclass(frozen=True)
class _Descriptions:
    """The descriptions of both clusters, and their partitions' start and end offsets."""

    source: ClusterDescription
    target: ClusterDescription
    source_bounds: Bounds
    target_bounds: Bounds


class ClusterComparison:
    """One comparison. `folder`: keeps everything read and found, including all rows behind the counts;
    `session`: what compares so many records, of both clusters together.
    """

    def __init__(
        self,
        request: ComparisonRequest,
        folder: Path,
        session: Callable[[int], SparkContext],
        progress: Progress,
    ) -> None:
        self._request, self._folder = request, folder
        self._session, self._progress = session, progress
        self._limit = time.monotonic() + (request.wait_s or 0)

    def run(self) -> ComparisonAnswer:
        """Compares everything. Raises UsageError, LabError."""
        with ExitStack() as stack, readable():
            source = stack.enter_context(cluster_survey(self._request.source))
            target = stack.enter_context(cluster_survey(self._request.target))
            return self._compare(source, target)

    def _compare(self, source: ClusterSurvey, target: ClusterSurvey) -> ComparisonAnswer:
        scope = self._find_scope(source, target)
        described = source.describe(scope.names)
        bounds = source.bounds(scope.names)
        initial_bounds = target.bounds(scope.paired.values())
        pairs = _partition_pairs(scope, bounds, initial_bounds)
        both_bounds = (*bounds.values(), *initial_bounds.values())
        session = self._session(sum(end - start for start, end in both_bounds))
        files = self._files(pairs)
        facts = self._read_side(session, pairs, 0, bounds, files)
        self._await_mirror(pairs, bounds, target, initial_bounds)
        ends = target.bounds(scope.paired.values())
        mirror = target.describe(scope.paired.values())
        facts |= self._read_side(session, pairs, 1, ends, files)
        now = source.ends([pair.source for pair in pairs])
        quiet = frozenset(pair.number for pair in pairs if now[pair.source] == bounds[pair.source][1])
        kept = [topic for topic in target.topics() if is_checkpoints(topic)]
        mirror_checkpoints = checkpoints(whole_records(target.server, target.bounds(kept), kept))
        groups = GroupPositions.select(
            mirror.comparable(source.groups()), mirror.groups, pairs, scope.paired, self._request.groups,
            mirror_checkpoints,
        )  # fmt: skip
        both = _Descriptions(described, mirror, bounds, ends)
        totals_by_pair = compare_records(
            session,
            facts,
            files,
            self._folder,
            _compacted_pairs(pairs, both),
            groups.points(),
            self._offset_syncs(pairs, source, target),
            self._progress,
        )
        totals = self._totals(scope, both, pairs, totals_by_pair, quiet)
        rows = [
            *self._topic_rows(scope, both, totals),
            *group_rows(groups.places(totals_by_pair, ends)),
            *checkpoint_rows(groups.checkpoint_places(totals_by_pair)),
            *_cluster_rows(scope, both),
        ]
        return ComparisonAnswer(
            source.server.name,
            target.server.name,
            str(scope.naming),
            [each for one in totals.values() for each in compared_partitions(one)],
            [_with_keys(row, source.server, target.server, scope.paired) for row in rows],
            self._notes(both, groups),
        )

    def _find_scope(self, source: ClusterSurvey, target: ClusterSurvey) -> _TopicScope:
        """Waits within `wait_s` for topics that the mirror has not created yet."""
        here = source.topics()
        names = wanted_topics(here, self._request.topics)
        while True:
            there = target.topics()
            in_use = naming(names, here, there, self._request.policy, self._request.source.name)
            paired = {name: in_use.in_target(name) for name in names if in_use.in_target(name) in there}
            if len(paired) == len(names) or time.monotonic() >= self._limit:
                target.check_absent(in_use.in_target(name) for name in names if name not in paired)
                return _TopicScope(names, paired, in_use)
            self._progress("topics that the target has", len(paired), len(names))
            time.sleep(0.5)

    def _read_side(
        self, session: SparkContext, pairs: Sequence[PartitionPair], side: int, bounds: Bounds, files: Files
    ) -> dict[tuple[int, int], PartitionFacts]:
        server = self._request.target if side else self._request.source
        wanted = {}
        for pair in pairs:
            place = pair.target if side else pair.source
            wanted[pair.number, side] = ReadRequest(server, place, *bounds[place], files[pair.number, side])
        return read_all(session, wanted, self._progress, f"reading {server.name}")

    def _files(self, pairs: Sequence[PartitionPair]) -> Files:
        return {
            (pair.number, side): self._folder / f"{'target' if side else 'source'}-{pair.number}.parquet"
            for pair in pairs
            for side in (0, 1)
        }

    def _await_mirror(
        self, pairs: Sequence[PartitionPair], bounds: Bounds, target: ClusterSurvey, initial_bounds: Bounds
    ) -> None:
        if self._request.wait_s is None:
            return
        last = {
            pair.target: record
            for pair in pairs
            if (record := last_record(self._request.source, pair.source, *bounds[pair.source])) is not None
        }
        await_mirror(
            self._request.target,
            last,
            initial_bounds,
            lambda: target.bounds({place.topic for place in initial_bounds}),
            self._limit,
            lambda done, total: self._progress("partitions that have caught up", done, total),
        )

    def _offset_syncs(
        self, pairs: Sequence[PartitionPair], source: ClusterSurvey, target: ClusterSurvey
    ) -> pl.DataFrame:
        """The mirror's offset syncs for the compared partitions, in the schema CLAIMS."""
        kept = offset_sync_topics(source.server.name, source.topics(), target.server.name, target.topics())
        reader = target if kept.in_target else source
        by_source = {pair.source: pair.number for pair in pairs}
        rows = {
            (by_source[sync.place], sync.source_offset, sync.target_offset)
            for sync in offset_syncs(whole_records(reader.server, reader.bounds(kept.names), kept.names))
            if sync.place in by_source
        }
        return pl.DataFrame(sorted(rows), schema=CLAIMS, orient="row")

    def _topic_rows(
        self, scope: _TopicScope, both: _Descriptions, totals: Mapping[str, TopicTotals]
    ) -> Iterator[AspectRow]:
        for name in scope.names:
            described = both.source.topics[name]
            if name not in scope.paired:
                bounds = [ends for place, ends in both.source_bounds.items() if place.topic == name]
                offsets = sum(end - start for start, end in bounds)
                yield missing_topic(described, scope.naming.in_target(name), offsets)
                continue
            yield from topic_rows(described, both.target.topics[scope.paired[name]])
            yield from record_rows(totals[name])
            yield from log_rows(totals[name])
            if is_schema_topic(name):
                yield self._schema_row(name, scope, both)

    def _totals(
        self,
        scope: _TopicScope,
        both: _Descriptions,
        pairs: Sequence[PartitionPair],
        record_totals: RecordTotals,
        quiet: frozenset[int],
    ) -> dict[str, TopicTotals]:
        mine: dict[str, dict[int, PairTotals]] = {name: {} for name in scope.paired}
        for pair in pairs:
            mine[pair.source.topic][pair.source.partition] = record_totals.pairs[pair.number]
        waited = self._request.wait_s is not None
        return {
            name: TopicTotals(
                both.source.topics[name], both.target.topics[mirrored], mine[name], waited, quiet
            )
            for name, mirrored in scope.paired.items()
        }

    def _schema_row(self, name: str, scope: _TopicScope, both: _Descriptions) -> AspectRow:
        here = whole_records(self._request.source, both.source_bounds, [name])
        there = whole_records(self._request.target, both.target_bounds, [scope.paired[name]])
        return schema_row(name, subjects(here), subjects(there))

    def _notes(self, both: _Descriptions, groups: GroupPositions) -> list[str]:
        sides = ((self._request.source.name, both.source), (self._request.target.name, both.target))
        notes = [
            f"{what} of {name} could not be read: {why}"
            for name, described in sides
            for what, why in described.unknown.items()
        ]
        if not groups.source:
            notes.append("groups: no group of the source has a position in a compared topic")
        return notes


def _partition_pairs(scope: _TopicScope, here: Bounds, there: Bounds) -> list[PartitionPair]:
    mirrored = {
        place: TopicPartition(scope.paired[place.topic], place.partition)
        for place in sorted(here)
        if place.topic in scope.paired
    }
    both = [(place, target) for place, target in mirrored.items() if target in there]
    return [PartitionPair(number, place, target) for number, (place, target) in enumerate(both)]


def _compacted_pairs(pairs: Sequence[PartitionPair], both: _Descriptions) -> set[int]:
    here, there = both.source.topics, both.target.topics
    compacted = (p for p in pairs if here[p.source.topic].compacted or there[p.target.topic].compacted)
    return {pair.number for pair in compacted}


def _cluster_rows(scope: _TopicScope, both: _Descriptions) -> list[AspectRow]:
    unknown = both.source.unknown.keys() | both.target.unknown.keys()
    rows: list[AspectRow] = []
    if "ACLs" not in unknown:
        rows += acl_rows(both.source, both.target, scope.naming.in_target, scope.names)
    if "quotas" not in unknown:
        rows.append(quota_row(both.source.quotas, both.target.quotas))
    return rows


_KEY_BYTES = 80
_TOPIC = "topic "


def _with_keys(
    row: AspectRow, source: ClusterAddress, target: ClusterAddress, names: Mapping[str, str]
) -> AspectRow:
    """The row, with the record's `key` in examples of a topic. `names`: source topic to target topic."""
    topic = row.what.removeprefix(_TOPIC)
    if row.status == IDENTICAL or not row.what.startswith(_TOPIC) or topic not in names:
        return row
    examples = []
    for example in row.examples:
        server, name = (target, names[topic]) if example.get("in") == "target" else (source, topic)
        offset = example.get("source_offset", example.get("offset"))
        examples.append(_with_key(example, server, name, offset))
    return replace(row, examples=examples)


def _with_key(
    example: Mapping[str, Any], server: ClusterAddress, topic: str, offset: int | None
) -> dict[str, Any]:
    if offset is None or "partition" not in example:
        return dict(example)
    place = TopicPartition(topic, example["partition"])
    try:
        key = next(read_records(ReadRequest(server, place, offset, offset + 1, Path()))).key
    except (LabError, StopIteration):
        return dict(example)
    shown = None if key is None else key[:_KEY_BYTES].decode("utf-8", errors="backslashreplace")
    return {**example, "key": shown}
