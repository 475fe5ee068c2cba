"""A comparison on one page: describe, pair, read, match, and make rows of everything.

The source's ends are taken first and the target's last, so that a mirror that keeps up has time to; positions
of groups the other way round, so that a group that goes on meanwhile is not ahead in the target. Not here:
what is printed (presentation.py), and Spark's session, which the caller has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.failures import readable
from kaput.cluster.existing import StandingCluster
from kaput.compare import access_rows, group_rows, log_rows, record_rows, schema_rows, topic_rows
from kaput.compare.answer import Answer, Row
from kaput.compare.description import ClusterDescription, ClusterReader, cluster_reader
from kaput.compare.examples import with_keys
from kaput.compare.group_positions import GroupPositions, PartitionPair
from kaput.compare.mirror_topics import (
    checkpoints,
    is_checkpoints,
    offset_sync_topics,
    offset_syncs,
    whole_records,
)
from kaput.compare.pairing import Naming, Policy, naming, wanted_topics
from kaput.compare.positions import CLAIMS
from kaput.compare.reading import PartitionFacts, Wanted
from kaput.compare.records import Found, PairTotals, compare_records, read_all
from kaput.compare.rounds import Progress
from kaput.compare.topic_totals import TopicTotals
from kaput.compare.waiting import await_mirror, last_record
from kaput.core import TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext

Bounds = Mapping[TopicPartition, tuple[int, int]]
_POLL_S = 0.5


@dataclass(frozen=True)
class Request:
    """What is compared. `topics`: names and patterns, none for all; `groups`: the same; `wait_s`: how long
    the mirror may take to catch up.
    """

    source: StandingCluster
    target: StandingCluster
    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    policy: Policy | None = None
    wait_s: float | None = None


@dataclass(frozen=True)
class _Scope:
    """What is compared with what. `names`: topics of the source; `paired`: those that the target has, with
    their names there.
    """

    names: Sequence[str]
    paired: Mapping[str, str]
    naming: Naming


@dataclass(frozen=True)
class _Descriptions:
    """Both clusters, and where their partitions begin and end."""

    source: ClusterDescription
    target: ClusterDescription
    source_bounds: Bounds
    target_bounds: Bounds


class Comparison:
    """One comparison. `folder`: where what was read and found is kept, with all rows behind the counts."""

    def __init__(
        self, request: Request, folder: Path, session: Callable[[], SparkContext], progress: Progress
    ) -> None:
        self._request, self._folder = request, folder
        self._session, self._progress = session, progress
        self._limit = time.monotonic() + (request.wait_s or 0)

    def run(self) -> Answer:
        """Compares everything. Raises UsageError, LabError."""
        with ExitStack() as stack, readable():
            source = stack.enter_context(cluster_reader(self._request.source))
            target = stack.enter_context(cluster_reader(self._request.target))
            return self._compared(source, target)

    def _compared(self, source: ClusterReader, target: ClusterReader) -> Answer:
        scope = self._scope(source, target)
        described = source.describe(scope.names)
        bounds = source.bounds(scope.names)
        began = target.bounds(scope.paired.values())
        pairs = _pairs(scope, bounds, began)
        session = self._session()
        facts = self._read(session, pairs, 0, bounds)
        self._wait(pairs, bounds, target, began)
        ends = target.bounds(scope.paired.values())
        mirror = target.describe(scope.paired.values())
        facts |= self._read(session, pairs, 1, ends)
        now = source.ends([pair.source for pair in pairs])
        quiet = frozenset(pair.number for pair in pairs if now[pair.source] == bounds[pair.source][1])
        kept = [topic for topic in target.topics() if is_checkpoints(topic)]
        told = checkpoints(whole_records(target.server, target.bounds(kept), kept))
        groups = GroupPositions.of(
            source.groups(), mirror.groups, pairs, scope.paired, self._request.groups, told
        )
        both = _Descriptions(described, mirror, bounds, ends)
        found = compare_records(
            session,
            facts,
            self._files(pairs),
            self._folder,
            _compacted(pairs, both),
            groups.points(),
            self._offset_syncs(pairs, source, target),
            self._progress,
        )
        totals = self._totals(scope, both, pairs, found, quiet)
        rows = [
            *self._topics(scope, both, totals),
            *group_rows.rows(groups.places(found, _ends(ends))),
            *group_rows.checkpoints(groups.checked(found)),
            *_of_clusters(scope, both),
        ]
        return Answer(
            source.server.name,
            target.server.name,
            _policy(scope.naming),
            [each for one in totals.values() for each in record_rows.compared(one)],
            with_keys(rows, source.server, target.server, scope.paired),
            self._notes(both, groups),
        )

    def _scope(self, source: ClusterReader, target: ClusterReader) -> _Scope:
        """Given time to, a mirror may still create topics."""
        here = source.topics()
        names = wanted_topics(here, self._request.topics)
        while True:
            there = target.topics()
            found = naming(names, here, there, self._request.policy, self._request.source.name)
            paired = {name: found.in_target(name) for name in names if found.in_target(name) in there}
            if len(paired) == len(names) or time.monotonic() >= self._limit:
                return _Scope(names, paired, found)
            self._progress("topics that the target has", len(paired), len(names))
            time.sleep(_POLL_S)

    def _read(
        self, session: SparkContext, pairs: Sequence[PartitionPair], side: int, bounds: Bounds
    ) -> dict[tuple[int, int], PartitionFacts]:
        server = self._request.target if side else self._request.source
        files = self._files(pairs)
        wanted = []
        for pair in pairs:
            place = pair.target if side else pair.source
            start, end = bounds[place]
            wanted.append((pair.number, side, Wanted(server, place, start, end, files[pair.number, side])))
        return read_all(session, wanted, self._progress, f"reading {server.name}")

    def _files(self, pairs: Sequence[PartitionPair]) -> dict[tuple[int, int], Path]:
        return {
            (pair.number, side): self._folder / f"{'target' if side else 'source'}-{pair.number}.parquet"
            for pair in pairs
            for side in (0, 1)
        }

    def _wait(
        self, pairs: Sequence[PartitionPair], bounds: Bounds, target: ClusterReader, began: Bounds
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
            began,
            lambda: target.bounds({place.topic for place in began}),
            self._limit,
            lambda done, total: self._progress("partitions that have caught up", done, total),
        )

    def _offset_syncs(
        self, pairs: Sequence[PartitionPair], source: ClusterReader, target: ClusterReader
    ) -> pl.DataFrame:
        """What the mirror's offset syncs say of the compared partitions."""
        kept = offset_sync_topics(source.server.name, source.topics(), target.server.name, target.topics())
        reader = target if kept.in_target else source
        by_source = {pair.source: pair.number for pair in pairs}
        rows = {
            (by_source[sync.place], sync.source_offset, sync.target_offset)
            for sync in offset_syncs(whole_records(reader.server, reader.bounds(kept.names), kept.names))
            if sync.place in by_source
        }
        return pl.DataFrame(sorted(rows), schema=CLAIMS, orient="row")

    def _topics(self, scope: _Scope, both: _Descriptions, totals: Mapping[str, TopicTotals]) -> Iterator[Row]:
        for name in scope.names:
            described = both.source.topics[name]
            if name not in scope.paired:
                bounds = [ends for place, ends in both.source_bounds.items() if place.topic == name]
                offsets = sum(end - start for start, end in bounds)
                yield topic_rows.missing(described, scope.naming.in_target(name), offsets)
                continue
            yield from topic_rows.rows(described, both.target.topics[scope.paired[name]])
            yield from record_rows.rows(totals[name])
            yield from log_rows.rows(totals[name])
            if schema_rows.is_schema_topic(name):
                yield self._schemas(name, scope, both)

    def _totals(
        self,
        scope: _Scope,
        both: _Descriptions,
        pairs: Sequence[PartitionPair],
        found: Found,
        quiet: frozenset[int],
    ) -> dict[str, TopicTotals]:
        mine: dict[str, dict[int, PairTotals]] = {name: {} for name in scope.paired}
        for pair in pairs:
            mine[pair.source.topic][pair.source.partition] = found.pairs[pair.number]
        waited = self._request.wait_s is not None
        return {
            name: TopicTotals(
                both.source.topics[name], both.target.topics[mirrored], mine[name], waited, quiet
            )
            for name, mirrored in scope.paired.items()
        }

    def _schemas(self, name: str, scope: _Scope, both: _Descriptions) -> Row:
        here = whole_records(self._request.source, both.source_bounds, [name])
        there = whole_records(self._request.target, both.target_bounds, [scope.paired[name]])
        return schema_rows.row(name, schema_rows.subjects(here), schema_rows.subjects(there))

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


def _pairs(scope: _Scope, here: Bounds, there: Bounds) -> list[PartitionPair]:
    mirrored = {
        place: TopicPartition(scope.paired[place.topic], place.partition)
        for place in sorted(here)
        if place.topic in scope.paired
    }
    both = [(place, target) for place, target in mirrored.items() if target in there]
    return [PartitionPair(number, place, target) for number, (place, target) in enumerate(both)]


def _compacted(pairs: Sequence[PartitionPair], both: _Descriptions) -> set[int]:
    here, there = both.source.topics, both.target.topics
    found = (p for p in pairs if here[p.source.topic].compacted or there[p.target.topic].compacted)
    return {pair.number for pair in found}


def _of_clusters(scope: _Scope, both: _Descriptions) -> list[Row]:
    unknown = both.source.unknown.keys() | both.target.unknown.keys()
    rows: list[Row] = []
    if "ACLs" not in unknown:
        rows += access_rows.rules(both.source, both.target, scope.naming.in_target, scope.names)
    if "quotas" not in unknown:
        rows.append(access_rows.quotas(both.source.quotas, both.target.quotas))
    return rows


def _ends(bounds: Bounds) -> dict[TopicPartition, int]:
    return {place: end for place, (_, end) in bounds.items()}


def _policy(found: Naming) -> str:
    return f"{found.policy} ({found.prefix}TOPIC)" if found.prefix else found.policy
