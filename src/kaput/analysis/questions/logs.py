"""The logs: records of each partition and leader epoch, those that no producer of the run sent, and the
leader and ISR of each partition before, during and after the faults, from the cluster's own events.

Not here: what changes of leaders cost (leader_changes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import Change, LeaderHistory, polled_ns, recreated_ns, state_after
from kaput.analysis.facts.serving import Serving, deaths
from kaput.analysis.run import Run
from kaput.analysis.views.rows import Rows
from kaput.core import MS, TopicPartition, cluster_and_topic
from kaput.evidence.findings import UnreadPartition
from kaput.evidence.findings_parts import PartitionSnapshot, PartitionTable, When
from kaput.scenario.vocabulary import NOOP


class Logs(Question):
    """Counts records, with lowest and highest offset; and reports the cluster's faults for the verdict."""

    sums = {"log": Sum(("place", "epoch"), ("records", "foreign"), ("low",), ("high",))}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        if rows.table == "log":
            without_identity = pl.col("intact") & (pl.col("producer").is_null() | pl.col("seq").is_null())
            yield SumPart(
                "log",
                rows.coded.runs.select(
                    "place",
                    "epoch",
                    records="n",
                    foreign=pl.col("n") * without_identity.cast(pl.Int64),
                    low="offset",
                    high=pl.col("offset") + pl.col("n") - 1,
                ),
            )

    def report(self, run: Run) -> Iterator[Reported]:
        """Partitions that were not read to their end; faults, deaths and leader changes."""
        given, known = run.given, run.partitions
        ends = {place: given.ends.get(place, (None, None)) for place in known.unread}
        unread = [
            UnreadPartition(topic=topic, partition=partition, end_offset=end, drained_to=to)
            for (topic, partition), (end, to) in ends.items()
        ]
        tables = partition_tables(given, run.leader_history, run.serving)
        yield findings(unread_partitions=unread, partition_tables=tables)
        yield facts(
            state=given.manifest.state,
            unread_partitions=unread,
            faults=given.faults,
            deaths=deaths(given.cluster_events, given.faults, given.ended_ns),
            troubles=given.manifest.troubles,
            unreadable_lines=given.manifest.unreadable_lines,
            leader_changes=run.leader_history.leader_changes(),
            polled_ns=polled_ns(given.cluster_events),
            end_offsets_known=all(one.end_offset is not None for one in unread),
        )


def partition_tables(given: Inputs, history: LeaderHistory, serving: Serving) -> list[PartitionTable]:
    """A table for each of `_moments`, from the cluster's own events; none without events of any partition."""
    if not history.changes:
        return []
    own = polled_ns(given.cluster_events) is None
    replicas = {place: _replicas(given, place, changes) for place, changes in history.changes.items()}
    return [
        PartitionTable(
            when=when,
            at_ns=at_ns,
            partitions=[
                _state(
                    place, replicas[place], changes, at_ns, serving, own, recreated_ns(given.faults, place)
                )
                for place, changes in history.changes.items()
            ],
        )
        for when, at_ns in _moments(given, history)
    ]


def _moments(given: Inputs, history: LeaderHistory) -> Iterator[tuple[When, int]]:
    """Just before the first fault, just before the last heal, and the end of the run."""
    last_ns = max(change.at_ns for changes in history.changes.values() for change in changes)
    end_ns = last_ns + 1 if given.manifest.ended_ns is None else given.manifest.ended_ns
    faults = [one for one in given.faults if one.fault != NOOP and one.effective_ns is not None]
    if faults:
        yield "before", min(min(one.injected_ns, one.effective_ns or 0) for one in faults)
        on_brokers = [one for one in faults if one.brokers] or faults
        # By the time that a heal is confirmed, its brokers may be back.
        yield "during", max(end_ns if one.healed_ns is None else one.may_end_ns for one in on_brokers)
    yield "after", end_ns


def _is_deleted(deleted_ns: Sequence[int], changes: Sequence[Change], at_ns: int) -> bool:
    """Whether a step had deleted the topic by then, and nothing had created it again."""
    gone_ns = max((one for one in deleted_ns if one < at_ns), default=None)
    later = (
        change.at_ns for change in changes if gone_ns is not None and change.at_ns // MS >= gone_ns // MS
    )
    return gone_ns is not None and min(later, default=at_ns) >= at_ns


def _state(
    place: TopicPartition,
    replicas: Sequence[int],
    changes: Sequence[Change],
    at_ns: int,
    serving: Serving,
    recorded_by_cluster: bool,
    deleted_ns: Sequence[int],
) -> PartitionSnapshot:
    """The state of the partition just before `at_ns`. `recorded_by_cluster`: not by polling; `deleted_ns`:
    when steps deleted its topic.
    """
    if _is_deleted(deleted_ns, changes, at_ns):
        return PartitionSnapshot(
            topic=place.topic, partition=place.partition, leader=None, leader_epoch=None,
            replicas=list(replicas), isr=None, deleted=True,
        )  # fmt: skip
    now = state_after(change for change in changes if change.at_ns // MS < at_ns // MS)
    down = now.leader is not None and serving.down(now.leader, at_ns - 1, cluster_and_topic(place.topic)[0])
    begun = not recorded_by_cluster or changes[0].at_ns // MS < at_ns // MS
    return PartitionSnapshot(
        topic=place.topic,
        partition=place.partition,
        leader=now.leader,
        leader_epoch=now.epoch,
        replicas=list(replicas),
        isr=None if now.isr is None else list(now.isr),
        leader_down=down,
        created=begun,
    )


def _replicas(given: Inputs, place: TopicPartition, changes: Sequence[Change]) -> list[int]:
    """The replicas assigned by the scenario, else every broker that was ever in the ISR."""
    topic = given.scenario.topic(place[0]) if given.scenario else None
    if topic is not None and topic.assignment and place[1] < len(topic.assignment):
        return list(topic.assignment[place[1]])
    return list(dict.fromkeys(broker for change in changes for broker in change.isr or ()))
