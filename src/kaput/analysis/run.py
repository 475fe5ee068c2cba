"""The driver's view of a run: its small tables, the totals so far, and what is derived from both.

Each property needs the totals of the stage named in its docstring, and is computed on first use.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property

import polars as pl

from kaput.analysis.engine.asking import RunTotals
from kaput.analysis.facts import group_starts, leader_history, partitions, reach, rebalances
from kaput.analysis.facts.assignments import events_frame
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import LeaderHistory
from kaput.analysis.facts.mirrors import MirrorFacts, Translated, homes, mirrors, translated
from kaput.analysis.facts.moves import moments
from kaput.analysis.facts.partitions import Partitions
from kaput.analysis.facts.reach import Attempted, Reach
from kaput.analysis.facts.rebalances import Rebalances
from kaput.analysis.facts.seeks import after_aborts
from kaput.analysis.plan import Plan
from kaput.analysis.runs.columns import none
from kaput.analysis.runs.names import Names
from kaput.analysis.views.known import Known
from kaput.core import TopicPartition
from kaput.evidence.folder import LedgerRows
from kaput.scenario.options import DELETE_RECORDS, RECREATE
from kaput.scenario.values import target_topic


class Run:
    """One run folder: its inputs (`given`), the plan of tasks (`work`), and the `totals`. `ledger`: what the
    ledger has rows for.
    """

    def __init__(self, given: Inputs, work: Plan, ledger: LedgerRows = "stretches") -> None:
        self.given, self.work, self.ledger = given, work, ledger
        self.totals = RunTotals()

    @property
    def names(self) -> Names:
        """The names and their numbers."""
        return self.given.names

    @property
    def sums(self) -> dict[str, pl.DataFrame]:
        """The sums of all tasks, by name."""
        return self.totals.sums

    @property
    def groups(self) -> range:
        """The indices of all groups."""
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
        return leader_history.build(own, self.given.faults, known.logged, known.ends)

    @cached_property
    def reaches(self) -> list[Reach]:
        """After rows: the effects of each fault on partitions."""
        return reach.plan(self.given.faults, self.leader_history, self.given.replicas)

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
        return group_starts.beginnings(self.given, list(self.partitions.complete), handed)

    @cached_property
    def begins(self) -> dict[tuple[int, TopicPartition], int]:
        """After messages: by late group and place, the offset from which messages were for it."""
        owed = self.sums["owed_from"].iter_rows()
        from_ = {(group, self.names.located(place)): offset for group, place, offset in owed}
        return group_starts.begins(self.beginnings, from_, self.partitions.ends, self.names)

    @cached_property
    def mirrors(self) -> list[MirrorFacts]:
        """All mirrors."""
        return mirrors(self.given)

    @cached_property
    def translated(self) -> list[Translated]:
        """Where groups began after they were moved to another cluster."""
        return translated(self.given)

    @cached_property
    def first_acks(self) -> dict[str, int]:
        """After messages: by fault, the first acknowledgement after it (questions/recovery.py)."""
        return dict(self.sums["first_acks"].drop_nulls().iter_rows())

    @property
    def attempted(self) -> list[Attempted]:
        """After messages: the windows in which losses with acks=0 are attributed to a fault."""
        return [
            Attempted(one.fault.id, one.fault.effective_ns, self.first_acks.get(one.fault.id))
            for one in self.reaches
            if one.fault.effective_ns is not None and one.places
        ]

    def to_encode(self) -> Known:
        """What the tasks of the stage `rows` know."""
        given, work = self.given, self.work
        return Known(
            self.names,
            work.parts,
            work.width_ns,
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
            homes=homes(given),
            moments=moments(given),
            recreated=self._recreated(),
        )

    def known(self, stage: str) -> Known:
        """What the tasks of a later stage know."""
        names, known = self.names, self.partitions
        matched = stage not in ("stored", "messages")
        begins = (
            [(g, names.code(place), offset) for (g, place), offset in self.begins.items()] if matched else []
        )
        return replace(
            self.to_encode(),
            complete={names.code(place) for place, done in known.complete.items() if done},
            complete_topics={names.topics.index(topic) for topic, done in known.topics().items() if done},
            leader_history=self.leader_history,
            extents=known.extents(),
            deleted={names.topics.index(topic) for topic in self.given.hit_by(DELETE_RECORDS)},
            old_ends=dict(self.sums["old_ends"].iter_rows()),
            first_acks_by_epoch=self.sums["first_acks_by_epoch"]
            if matched
            else none("producer", "place", "epoch", "first_ns"),
            attempted=self.attempted if matched else (),
            begins=pl.DataFrame(begins, schema=none("group", "place", "offset").schema, orient="row"),
        )

    def _recreated(self) -> dict[int, int]:
        """By number of the topics that a step recreated: when the old one was last gone (ns)."""
        given, topics = self.given, self.names.topics
        steps = [f for f in given.faults if f.fault == RECREATE and f.proven]
        hit = sorted((f.effective_ns or 0, given.full_name(target_topic(f.target) or "")) for f in steps)
        return {topics.index(topic): at_ns for at_ns, topic in hit if topic in topics}

    def _with_isolation(self, isolation: str) -> Collection[int]:
        return {index for index, known in enumerate(self.given.isolations) if known == isolation}
