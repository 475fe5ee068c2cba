"""The driver's view of a run: the plan of its tasks, its small tables, the totals so far, and what is derived
from these.

Each property of Run needs the totals of the stage named in its docstring, and is computed on first use.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile

import polars as pl

from kaput.analysis.causes.attribution import Removing
from kaput.analysis.engine import steps
from kaput.analysis.engine.asking import RunTotals
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.engine.spells import GIVEN_UP, REPEATED, joined, silences_by_place
from kaput.analysis.facts import (
    coordinators,
    group_starts,
    leader_history,
    open_transactions,
    partitions,
    reach,
    rebalances,
)
from kaput.analysis.facts.assignments import after_aborts, events_frame, owners
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.lag import clusters_within
from kaput.analysis.facts.leader_history import LeaderHistory
from kaput.analysis.facts.mirrors import MirrorFacts, Translated, homes, mirrors, moments, translated
from kaput.analysis.facts.open_transactions import Held, Hold, Samples, Transaction
from kaput.analysis.facts.partitions import Partitions
from kaput.analysis.facts.reach import Attempted, Reach
from kaput.analysis.facts.rebalances import Rebalances
from kaput.analysis.facts.serving import Serving, min_isr_of, options_of, serving
from kaput.analysis.facts.waits import SHORTEST_NS, Record, Story, Terms, Waiter, fencings, users_of
from kaput.analysis.runs.columns import NO_KEY, OWN_NUMBER, OWN_SEQ, none
from kaput.analysis.runs.names import Names
from kaput.analysis.runs.tables import Unit, units
from kaput.analysis.views.known import Known
from kaput.core import SECOND, TopicPartition, cluster_and_topic, duration
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.reading import STORE_TABLES, Evidence
from kaput.scenario.fault_kinds import DELETE_RECORDS, DELETE_TOPICS, ChangePasswordOptions, DenyOptions
from kaput.scenario.model import compacts, pipe_producers, retains_little, spec_of
from kaput.scenario.vocabulary import Isolation, LedgerRows
from kaput.verdict.contracts import unclean_allowed

BIG = ("sends", "log", "deliveries", "share_events", "transactions", "outputs", *STORE_TABLES)
SMALL_ROWS = 500_000  # up to this, one task of each kind
TASK_ROWS = 4_000_000
_PART_MESSAGES = 3_000_000


@dataclass(frozen=True)
class Plan:
    """`tasks`: the row groups of each; `parts`: their numbers; `step_ns`: the finest step of time."""

    tasks: Sequence[Sequence[Unit]]
    parts: Parts
    step_ns: int = steps.FINEST_NS


def plan(evidence: Evidence, cores: int | None = None) -> Plan:
    """Plans tasks of about equal size, at least one per core unless the run is small."""
    cores = cores or os.cpu_count() or 1
    rows = sum(evidence.tables[table].rows for table in BIG)
    every = [unit for table in BIG for unit in units(evidence, table)]
    begin_ns, end_ns = evidence.manifest.started_ns, evidence.manifest.ended_ns
    run_ns = end_ns - begin_ns if begin_ns and end_ns else None
    if rows <= SMALL_ROWS:
        return Plan([every], Parts(1, 1), steps.width_ns(run_ns, few=True))
    parts = max(cores, math.ceil(evidence.tables["sends"].rows / _PART_MESSAGES))
    tasks = list(_split(every, max(cores, math.ceil(rows / TASK_ROWS))))
    return Plan(tasks, Parts(parts, parts), steps.width_ns(run_ns, few=False))


def _split(every: Sequence[Unit], count: int) -> Iterator[list[Unit]]:
    """Splits units into about `count` tasks of consecutive units, so a file's row groups stay in order."""
    share = sum(unit.rows for unit in every) / count
    task: list[Unit] = []
    for unit in every:
        task.append(unit)
        if sum(one.rows for one in task) >= share:
            yield task
            task = []
    if task:
        yield task


class Run:
    """A run folder: its inputs (`given`), the plan (`work`), `totals`, and what has rows in the `ledger`."""

    def __init__(
        self, given: Inputs, work: Plan, totals: RunTotals, ledger: LedgerRows = "stretches"
    ) -> None:
        self.given, self.work, self.totals, self.ledger = given, work, totals, ledger
        self._terms: dict[tuple[TopicPartition, int | None], Terms] = {}

    @property
    def names(self) -> Names:
        return self.given.names

    @property
    def sums(self) -> dict[str, pl.DataFrame]:
        """The sums of all tasks, by name."""
        return self.totals.sums

    @property
    def groups(self) -> range:
        return range(len(self.given.groups))

    @cached_property
    def events(self) -> pl.DataFrame:
        """The table group_events with numbers instead of names, and inferred seeks."""
        given = self.given
        return events_frame(
            self.names, [*given.group_events, *after_aborts(given.evidence, given.group_events)]
        )

    @cached_property
    def partitions(self) -> Partitions:
        """After rows: all partitions, and whether they were read to their end."""
        return partitions.find(self.given, self.sums)

    @cached_property
    def leader_history(self) -> LeaderHistory:
        """After rows: the leaders of the run's own partitions. Changes of others do not affect messages."""
        known = self.partitions
        own = [e for e in self.given.cluster_events if (e["topic"], e["partition"]) in known.complete]
        faults = self.given.faults_of_nodes
        return leader_history.build(own, faults, known.logged, known.ends, self.serving.down)

    @cached_property
    def serving(self) -> Serving:
        """Which brokers serve, and when."""
        given = self.given
        return serving(given.faults, given.cluster_events, given.scenario, given.group_events)

    @cached_property
    def reaches(self) -> list[Reach]:
        """After rows: the effects of each fault on partitions."""
        given, history = self.given, self.leader_history
        return reach.plan(
            given.faults, history, given.replicas, lambda p: self.terms(p).acks_all, given.asked_by_clients
        )

    @cached_property
    def record(self) -> Record:
        """After messages: what the record tells about leaders, brokers and owners."""
        given = self.given
        acked: dict[TopicPartition, dict[int | None, int]] = {}
        first = self.sums["first_acks_by_epoch"].group_by("place", "epoch").agg(pl.col("first_ns").min())
        for place, epoch, at_ns in first.iter_rows():
            acked.setdefault(self.names.located(place), {})[epoch] = at_ns
        return Record(
            self.leader_history,
            self.serving,
            owners(given.group_events, [given.groups[group] for group in given.share_groups]),
            fencings(given.cluster_events),
            acked,
        )

    def terms(self, place: TopicPartition, producer: int | None = None) -> Terms:
        """What acknowledgements of a partition (or those to one producer) require, by the scenario."""
        if (place, producer) not in self._terms:
            self._terms[place, producer] = self._terms_of(place, producer)
        return self._terms[place, producer]

    def _terms_of(self, place: TopicPartition, producer: int | None) -> Terms:
        scenario, (cluster, topic) = self.given.scenario, cluster_and_topic(place.topic)
        if scenario is None:
            return Terms(acks_all=False)
        own = spec_of(scenario, producer)
        every = [*scenario.producer_specs(), *pipe_producers(scenario)]
        named = [spec for spec in every if spec.topic == topic]
        first = next(iter(scenario.clusters), cluster)
        here = [spec for spec in named if scenario.plan or cluster in (None, spec.cluster or first)]
        acks = {own.acks} if own is not None else {spec.acks for spec in here or named}
        lowest = min_isr_of(place.topic, self.given.faults, scenario)
        return Terms(acks == {"all"}, lowest, unclean_allowed(scenario, place.topic))

    def story(
        self, place: TopicPartition, from_ns: int, to_ns: int, group: str | None, producer: int | None
    ) -> Story:
        """After messages, of groups after places: what a partition (or a group, or one producer) waited for
        between two times.
        """
        terms, waiter = self.terms(place, producer), self._waiter(place, group, producer)
        holds = self.holds(place, group, (from_ns, to_ns))
        waiter = replace(
            waiter,
            mirrors=self._mirrors_of(place, group, to_ns),
            holds=holds,
            rereads=self._rereads(place, group, (from_ns, to_ns)),
        )
        story = self.record.story(place, from_ns, to_ns, terms, waiter)
        moves = self.given.clusters.get(group or "", ())
        read = next((cluster for at_ns, cluster in reversed(moves) if at_ns <= to_ns), None)
        if story.decidable:
            return story
        if read not in (None, cluster_and_topic(place.topic)[0]):
            return replace(story, why=f"the group read copies in {read}, and {place} is their source")
        why = self._held_by_transactions(place, from_ns, to_ns, group, producer)
        return replace(story, why=why or story.why)

    def _held_by_transactions(
        self, place: TopicPartition, from_ns: int, to_ns: int, group: str | None, producer: int | None
    ) -> str:
        """The transaction that was open, the coordinator that was down, or (of acknowledgements) another
        partition that had no leader, for half of a silence or more; empty if none was.
        """
        senders, _ = self._senders.get(self.names.code(place), ([], []))
        mine = [one for one in senders if one in self.transactions and producer in (None, one)]
        found = []
        if group is not None:
            if self._isolation.get(group) != "read_committed":
                return ""
            open_ = [one for sender in mine for one in self._open(sender, from_ns, to_ns)]
            open_ns, longest = max(open_, default=(0, None))
            if longest is None or 2 * open_ns < to_ns - from_ns:
                return ""
            length, mine = duration(open_ns / SECOND), [longest.producer]
            found.append(f"{longest} was open for {length} of it, and the group reads only what is committed")
        down = [(self._coordinators.certain_ns(one, (from_ns, to_ns)), one) for one in mine]
        down_ns, sender = max(down, default=(0, 0))
        if 2 * down_ns >= to_ns - from_ns:
            length = duration(down_ns / SECOND)
            found.append(f"the transaction coordinator of producer {sender} was down for {length} of it")
        if group is None and not found:
            found += self._leaderless_elsewhere(place, mine, (from_ns, to_ns))
        return "; ".join(found)

    def _leaderless_elsewhere(
        self, place: TopicPartition, senders: Sequence[int], within: tuple[int, int]
    ) -> list[str]:
        """Another partition of these producers' transactions without a leader for half of a silence or more:
        the marker of the last one has to be written there before the next one goes on.
        """
        moments = {*within, *self.serving.moments(*within)}
        others = [
            (self._leaderless_ns(where, within, moments), where, max(mine))
            for code, (every, _) in self._senders.items()
            if (mine := {*senders}.intersection(every)) and (where := self.names.located(code)) != place
        ]
        most_ns, where, sender = max(others, default=(0, place, 0))
        if 2 * most_ns < within[1] - within[0]:
            return []
        whose = f"{where}, to which producer {sender} sends in its transactions,"
        return [f"{whose} had no leader that runs for {duration(most_ns / SECOND)} of it"]

    def _leaderless_ns(self, place: TopicPartition, within: tuple[int, int], moments: Collection[int]) -> int:
        """For how long of that time a partition had no leader, or one whose process was gone. `moments`: when
        the latter may change, and the ends of that time.
        """
        led = [one for one in self.leader_history.changes.get(place, ()) if one.leader is not None]
        every = sorted({*moments, *(one.at_ns for one in led)})
        cluster, total = cluster_and_topic(place.topic)[0], 0
        for at_ns, until_ns in pairwise(at for at in every if within[0] <= at <= within[1]):
            before = bisect_right(led, at_ns, key=lambda one: one.at_ns)
            leader = led[before - 1].leader if before else None
            if leader is not None and (leader < 0 or self.serving.down(leader, at_ns, cluster)):
                total += until_ns - at_ns
        return total

    def _open(self, producer: int, from_ns: int, to_ns: int) -> Iterator[tuple[int, Transaction]]:
        """A producer's transactions that were open meanwhile, each with for how long (ns)."""
        every = self.transactions[producer]
        first = bisect_right(every, from_ns, key=lambda one: one.begin_ns)  # they follow one another
        for one in takewhile(lambda one: one.begin_ns < to_ns, every[max(0, first - 1) :]):
            if one.end_ns is not None and one.end_ns > from_ns:
                yield min(to_ns, one.end_ns) - max(from_ns, one.begin_ns), one

    @cached_property
    def transactions(self) -> Mapping[int, Sequence[Transaction]]:
        """By producer, by time."""
        return open_transactions.transactions(self.given.evidence)

    def holds(self, place: TopicPartition, group: str | None, within: tuple[int, int]) -> list[Hold]:
        """The transactions that held a group back in a partition."""
        held = [] if group is None else self._held.get((group, place), [])
        if not held:
            return []
        given = self.given
        return open_transactions.holds(held, within, self._offsets, self._coordinators, given.scenario)

    @cached_property
    def _held(self) -> dict[tuple[str, TopicPartition], list[Held]]:
        """After places: by group and partition, the transactions that held it back."""
        records, passed = (self.sums[name] for name in ("transaction_records", "transaction_passed"))
        return open_transactions.held(self.transactions, records, passed, self.names, self.given.groups)

    def _rereads(
        self, place: TopicPartition, group: str | None, within: tuple[int, int]
    ) -> list[tuple[int, int]]:
        """When a group was delivered in a silence what it had been delivered before, a second or more."""
        every = [] if group is None else self._repeated.get((group, place), [])
        cut = ((max(first, within[0]), min(last, within[1])) for first, last in every)
        return [(first, last) for first, last in cut if last - first >= SHORTEST_NS]

    @cached_property
    def silences(self) -> dict[int, list[tuple[int, int, bool]]]:
        """After messages: by partition, silences of acknowledgements (from_ns, to_ns, ended) by time."""
        return silences_by_place(self.sums["service_spells"], SHORTEST_NS)

    @cached_property
    def _repeated(self) -> dict[tuple[str, TopicPartition], list[tuple[int, int]]]:
        """After messages: when groups that promise an order were delivered what they got more than once."""
        found: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = {}
        keys = ("group", "place")
        spells = self.sums["service_spells"].filter(pl.col("place") >= 0, kind=REPEATED)
        every = joined(spells.select(*keys, "first_ns", "last_ns"), keys, SHORTEST_NS)
        for group, place, *span in every.sort(*keys, "first_ns").iter_rows():
            if group not in self.given.share_groups:
                key = self.given.groups[group], self.names.located(place)
                found.setdefault(key, []).append((span[0], span[1]))
        return found

    @cached_property
    def _offsets(self) -> Samples:
        return Samples(self.given.samples)

    @cached_property
    def _coordinators(self) -> coordinators.Outages:
        recorded = self.transactions
        return coordinators.outages(self.given, recorded) if recorded else coordinators.Outages()

    @cached_property
    def _isolation(self) -> dict[str | None, Isolation | None]:
        """Of each group."""
        return dict(zip(self.given.groups, self.given.isolations, strict=True))

    def copies(
        self, place: TopicPartition, group: str, from_ns: int, to_ns: int
    ) -> dict[TopicPartition, frozenset[str]]:
        """The copies of a partition that a group read meanwhile, and the mirrors through which they came."""
        names, clusters = self.names, clusters_within(self.given.clusters.get(group, ()), from_ns, to_ns - 1)
        ways: dict[int, frozenset[str]] = {names.topics.index(place.topic): frozenset()}
        todo = [*ways]
        for topic in todo:
            for mirror in self.mirrors:
                copy = mirror.topics.get(topic)
                if copy is not None and copy not in ways:
                    ways[copy] = ways[topic] | {mirror.name}
                    todo.append(copy)
        found = {TopicPartition(names.topics[one], place.partition): by for one, by in ways.items() if by}
        reads = self.given.reads[group]
        return {
            one: mirrors
            for one, mirrors in found.items()
            if cluster_and_topic(one.topic)[0] in clusters and (reads is None or one.topic in reads)
        }

    def _mirrors_of(self, place: TopicPartition, group: str | None, at_ns: int) -> tuple[frozenset[str], ...]:
        """Of each copy that the group read just before, the mirrors; none if it read the partition itself."""
        if group is None or not self.mirrors:
            return ()
        clusters = clusters_within(self.given.clusters.get(group, ()), at_ns - 1, at_ns - 1)
        at_home = cluster_and_topic(place.topic)[0] in clusters
        return () if at_home else tuple(self.copies(place, group, at_ns - 1, at_ns).values())

    def _waiter(self, place: TopicPartition, group: str | None, producer: int | None) -> Waiter:
        senders, given_up = self._senders.get(self.names.code(place), ([], []))
        mine = [producer] if producer is not None else senders
        spans = [(first, last) for number, first, last in given_up if number in mine and group is None]
        stalls: list[tuple[int, int]] = []
        if self._isolation.get(group) == "read_committed":
            stalls = [(one.from_ns, one.to_ns) for one in self.stalls if one.place == place]
        targets, scenario = frozenset(f"producer {number}" for number in mine), self.given.scenario
        users = {} if scenario is None else scenario.users(group, mine)
        return Waiter(targets, group, spans, stalls, users=users)

    def may_concern_users(
        self, fault: FaultRow, place: TopicPartition | None, group: str | None, members: Collection[str]
    ) -> bool:
        """Whether what a fault does to a user may concern a client that reads or writes there: one of these
        members of a group, if it has any there.
        """
        scenario, options = self.given.scenario, options_of(fault, self.given.scenario)
        if scenario is None or not isinstance(options, ChangePasswordOptions | DenyOptions):
            return True
        codes = self._senders if place is None else [self.names.code(place)]
        senders = (one for code in codes for one in self._senders.get(code, ([], []))[0])
        users = users_of(scenario.users(group, senders), members)
        if isinstance(options, ChangePasswordOptions):
            return options.user in users
        other = "Read" if group is None else "Write"
        return options.principal.removeprefix("User:") in users and options.operation != other

    @cached_property
    def stalls(self) -> list[coordinators.StalledOffset]:
        """Of last stable offsets."""
        return coordinators.find(self.given.samples)

    @cached_property
    def _senders(self) -> dict[int, tuple[list[int], list[tuple[int, int, int]]]]:
        """After messages: by place, its producers, and when messages failed (producer, first_ns, last_ns)."""
        found: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}
        for place, producer in self.sums["sent"].select("place", "producer").drop_nulls().iter_rows():
            found.setdefault(place, ([], []))[0].append(producer)
        spells = self.sums["service_spells"].filter(kind=GIVEN_UP)
        for place, *one in spells.select("place", "producer", "first_ns", "last_ns").iter_rows():
            found.setdefault(place, ([], []))[1].append((one[0], one[1], one[2]))
        return found

    def cleaned(self, place: TopicPartition) -> bool:
        """Whether the log may have removed messages of the partition: compaction, retention, a deletion."""
        scenario = self.given.scenario
        compacted = scenario is not None and compacts(scenario, place.topic)
        return compacted or self.given.starts.get(place, 0) > 0

    @cached_property
    def rebalances(self) -> Rebalances:
        """After rows: the rebalances of all groups."""
        last = self.sums["delivered"].group_by("group").agg(pl.col("last_ns").max())
        names = self.given.groups
        return rebalances.find(
            self.given.group_events,
            self.given.manifest.ended_ns,
            {names[group]: at_ns for group, at_ns in last.iter_rows()},
            self.given.faults,
            {names[group] for group in self.given.share_groups},
        )

    @cached_property
    def beginnings(self) -> pl.DataFrame:
        """After rows: where late groups began (BEGINNINGS)."""
        acquired = self.sums["acquired"]
        handed = pl.concat([self.sums["delivered"].select(acquired.columns), acquired])
        kept = {(group, place): low for group, place, low in self.sums["kept_low"].iter_rows()}
        return group_starts.beginnings(self.given, list(self.partitions.complete), handed, kept)

    @cached_property
    def begins(self) -> dict[tuple[int, TopicPartition], int]:
        """After messages: by late group and place, the offset from which messages were for it."""
        owed = self.sums["owed_from"].iter_rows()
        from_ = {(group, self.names.located(place)): offset for group, place, offset in owed}
        return group_starts.begins(self.beginnings, from_, self.partitions.ends, self.names)

    @cached_property
    def mirrors(self) -> list[MirrorFacts]:
        return mirrors(self.given)

    @cached_property
    def translated(self) -> list[Translated]:
        """Where groups began after they were moved to another cluster."""
        return translated(self.given)

    @cached_property
    def first_acks(self) -> dict[tuple[str, int], int]:
        """After messages: by fault and place, the first acknowledgement after it (questions/recovery.py)."""
        rows = self.sums["first_acks"].drop_nulls().iter_rows()
        return {(fault, place): at_ns for fault, place, at_ns in rows}

    @property
    def attempted(self) -> list[Attempted]:
        """After messages: the windows in which losses with acks=0 are attributed to a fault."""
        first: dict[str, int] = {}
        for (fault, _), at_ns in self.first_acks.items():
            first[fault] = min(at_ns, first.get(fault, at_ns))
        return [
            Attempted(one.fault.id, one.fault.effective_ns, first.get(one.fault.id))
            for one in self.reaches
            if one.fault.effective_ns is not None and one.places
        ]

    def to_encode(self) -> Known:
        """What the tasks of the stage `rows` know."""
        return self._known_at_first

    @cached_property
    def _known_at_first(self) -> Known:
        given, work = self.given, self.work
        deleted = self._recreated()
        recreated = {topic: gone_ns for topic, (_, gone_ns) in deleted.items()}
        return Known(
            self.names,
            work.parts,
            work.step_ns,
            self.events,
            committed=self._with_isolation("read_committed"),
            uncommitted=self._with_isolation("read_uncommitted"),
            drained={index for index, drained in enumerate(given.drained) if drained},
            share_groups=given.share_groups,
            acks_0=given.with_acks("0"),
            acks_1=given.with_acks("1"),
            stores_read={i for i, store in enumerate(given.stores) if store in given.stores_read},
            ordered=given.ordered,
            fault_span=given.fault_span,
            keyed={producer: keys for producer, (_, keys) in given.keyed.items()},
            homes=homes(given),
            mirrors=self.mirrors,
            moves=self.translated,
            moments=moments(given),
            skips=group_starts.skips(given, recreated),
            recreated=recreated,
            deleting={topic: began_ns for topic, (began_ns, _) in deleted.items()},
            removing=self._removing(),
            log_starts=self._log_starts(),
        )

    def known(self, stage: str) -> Known:
        """What the tasks of a later stage know."""
        names, known = self.names, self.partitions
        matched = stage not in ("stored", "messages")
        begins = (
            [(g, names.code(place), offset) for (g, place), offset in self.begins.items()] if matched else []
        )
        return replace(
            self._known_at_first,
            complete={names.code(place) for place, done in known.complete.items() if done},
            complete_topics={names.topics.index(topic) for topic, done in known.topics().items() if done},
            leader_history=self.leader_history,
            extents=known.extents(),
            deleted={names.topics.index(topic) for topic in self.given.hit_by(DELETE_RECORDS)},
            old_ends=dict(self.sums["old_ends"].iter_rows()),
            beginnings=self.beginnings,
            returned=self._returned(),
            first_acks_by_epoch=self.sums["first_acks_by_epoch"]
            if matched
            else none("producer", "place", "epoch", "first_ns"),
            attempted=self.attempted if matched else (),
            begins=pl.DataFrame(begins, schema=none("group", "place", "offset").schema, orient="row"),
        )

    def _returned(self) -> list[int]:
        """By move, the last attempt that any producer made in the cluster that the group left, and not after
        the move itself (ns).
        """
        left = {f"{mirror.source}->{mirror.target}": mirror.source for mirror in self.mirrors}
        last: dict[str | None, int] = {}
        for topic, at_ns in self.sums["sent"].select("topic", "last_attempt_ns").drop_nulls().iter_rows():
            cluster = self.names.clusters[topic]
            last[cluster] = max(at_ns, last.get(cluster, at_ns))
        moves = self.translated
        return [min(last.get(left.get(move.mirror), move.at_ns), move.at_ns) for move in moves]

    def _recreated(self) -> dict[int, tuple[int, int]]:
        """By number of the topics that a step deleted: when that last began, and when they were gone (ns)."""
        given, topics = self.given, self.names.topics
        steps = [f for f in given.faults if f.fault in DELETE_TOPICS and f.proven]
        hit = sorted(
            (f.effective_ns or 0, f.injected_ns, given.full_name(f.hit.whole_topic or "")) for f in steps
        )
        return {topics.index(topic): (began_ns, at_ns) for at_ns, began_ns, topic in hit if topic in topics}

    def _log_starts(self) -> dict[int, int]:
        starts = self.given.starts.items() if group_starts.resetting(self.given) else ()
        return {self.names.code(place): start for place, start in starts if start > 0}

    def _removing(self) -> Removing:
        """Which topics remove records by themselves, and the keys of producers, by the scenario."""
        scenario = self.given.scenario
        if scenario is None:
            return Removing()
        words = {"none": NO_KEY, "producer": OWN_NUMBER, "seq": OWN_SEQ}
        topics = list(enumerate(self.names.topics))
        return Removing(
            compacted={n for n, topic in topics if compacts(scenario, topic)},
            retained={n for n, topic in topics if retains_little(scenario, topic)},
            keys={
                n: spec.key if isinstance(spec.key, int) else words[spec.key]
                for n, spec in enumerate(scenario.producer_specs())
            },
        )

    def _with_isolation(self, isolation: str) -> Collection[int]:
        return {index for index, known in enumerate(self.given.isolations) if known == isolation}
