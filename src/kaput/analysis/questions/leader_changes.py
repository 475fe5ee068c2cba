"""Split brain: what deposed leaders acknowledged, for each change of leader.

Joins the counts of acknowledgements (questions/losses.py) with the elections, and the lost messages with the
replica_log: which brokers held them until they truncated them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from kaput.analysis.engine.question import Question, Reported, findings
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import Change, LeaderHistory, build
from kaput.analysis.run import Run
from kaput.analysis.runs.names import Names
from kaput.core import MS, TopicPartition, cluster_and_topic
from kaput.evidence.findings import LeaderChange
from kaput.evidence.findings_parts import Learned
from kaput.evidence.parquet import table_of, with_clusters
from kaput.evidence.schemas import CLUSTER, TABLES

# By (partition, epoch) and producer: the first acknowledgement of a message stored in that epoch.
_MAX_LAST_PRODUCERS = 5  # producers listed as the last to learn of a leader
FirstAcks = Mapping[tuple[TopicPartition, int], Mapping[int, int]]
Clients = Mapping[int, str]  # by producer, the title of its client


class Deposed(NamedTuple):
    """Acknowledgements of one partition that `later_epoch` overwrote, and the fault that caused it.
    after_election: given after the later epoch had begun; after_heal: lost ones given after the fault was
    healed; offsets_twice: offsets of these that now hold another message. Times in ns.
    """

    place: TopicPartition
    later_epoch: int
    fault: str | None
    acks: int
    lost: int
    after_election: int
    after_heal: int
    offsets_twice: int
    first_ns: int | None
    last_ns: int | None


class LeaderChanges(Question):
    """Reports every time a partition got another leader, or lost what its leader had acknowledged."""

    def report(self, run: Run) -> Iterator[Reported]:
        rows = run.sums["deposed"].iter_rows(named=True)
        deposed = [Deposed(**{**row, "place": run.names.located(row["place"])}) for row in rows]
        first_acks = _first_acks(run.sums["first_acks_by_epoch"], run.names)
        changes = leader_changes(run.leader_history, deposed, first_acks, seen(run.given), run.given.clients)
        known = [_of_cleaned_log(run, one) for one in changes]
        yield findings(
            leader_changes=[_with_leaders_state(run, one) for one in known], led_elsewhere=_led_elsewhere(run)
        )


def _led_elsewhere(run: Run) -> dict[str, int]:
    """By topic that is not the run's, how many partitions got another leader."""
    own = run.partitions.complete
    others = [e for e in run.given.cluster_events if (e["topic"], e["partition"]) not in own]
    changes = build(others, [], {}, {}, run.serving.down).changes
    return dict(
        Counter(
            place.topic
            for place, mine in changes.items()
            if any(one.has_new_leader and one.leader != one.led_before for one in mine)
        )
    )


def _of_cleaned_log(run: Run, change: LeaderChange) -> LeaderChange:
    """With the first acknowledgement that questions/recovery.py found, if the log has lost its message. Then
    it is not known when it first acknowledged anything to each producer.
    """
    place = TopicPartition(change.topic, change.partition)
    election = next(
        (reach.places.get(place) for reach in run.reaches if reach.fault.id == change.fault), None
    )
    at_ns = run.first_acks.get((change.fault or "", run.names.code(place)))
    if not run.cleaned(place) or at_ns is None or election is None or election.epoch != change.epoch:
        return change
    if change.first_ack_ns is not None and change.first_ack_ns <= at_ns:
        return change
    return change.model_copy(update={"first_ack_ns": at_ns, "learned": []})


def _with_leaders_state(run: Run, change: LeaderChange) -> LeaderChange:
    """What kept the new leader from leading: a controller elects a broker that has died until it is fenced,
    and one that comes back within its session.
    """
    cluster, at_ns = cluster_and_topic(change.topic)[0], change.elected_ns
    # In the ms of the election, its process or the broker may have come back just before.
    moments = at_ns, at_ns // MS * MS + MS - 1
    then, later = ({one.how for one in run.serving.of(change.leader, at, cluster)} for at in moments)
    if "ended" in then & later:
        return change.model_copy(update={"leader_was": "down"})
    return change.model_copy(update={"leader_was": "starting"}) if "starting" in later else change


def _first_acks(first_acks: pl.DataFrame, names: Names) -> FirstAcks:
    first = first_acks.group_by("place", "epoch", "producer").agg(pl.col("first_ns").min())
    by_epoch: dict[tuple[TopicPartition, int], dict[int, int]] = defaultdict(dict)
    for code, epoch, producer, at_ns in first.iter_rows():
        by_epoch[names.located(code), epoch][producer] = at_ns
    return dict(by_epoch)


def leader_changes(
    history: LeaderHistory,
    deposed: Sequence[Deposed],
    first_acks: FirstAcks,
    seen_by_epoch: Mapping[tuple[TopicPartition, int], Seen],
    clients: Clients,
) -> list[LeaderChange]:
    elections = {
        place: [(one, one.epoch) for one in changes if one.has_new_leader and one.epoch is not None]
        for place, changes in history.changes.items()
    }
    by_epoch: dict[tuple[TopicPartition, int], list[Deposed]] = defaultdict(list)
    for row in deposed:
        by_epoch[row.place, _first_led_epoch(elections, row.place, row.later_epoch)].append(row)
    seen_by_led_epoch = {
        (place, _first_led_epoch(elections, place, epoch)): one
        for (place, epoch), one in seen_by_epoch.items()
    }
    return [
        _finding(
            place,
            change,
            by_epoch.get((place, epoch), []),
            _first(first_acks, place, epoch, _next_leaders_epoch(led, change)),
            seen_by_led_epoch,
            clients,
        )
        for place, led in sorted(elections.items())
        for change, epoch in led
        if change.leader != change.led_before
        or change.leaderless_ns is not None
        or (place, epoch) in by_epoch
    ]


def _first_led_epoch(
    elections: Mapping[TopicPartition, Sequence[tuple[Change, int]]], place: TopicPartition, epoch: int
) -> int:
    """The first epoch from `epoch` on with a leader: an epoch without one counts toward its successor."""
    return min((led for _, led in elections.get(place, ()) if led >= epoch), default=epoch)


def _next_leaders_epoch(elections: Sequence[tuple[Change, int]], change: Change) -> float:
    """The epoch in which another broker led next, or the same one after there was none; infinity if none."""
    later = (
        led
        for one, led in elections
        if led > (change.epoch or 0) and (one.leader != change.leader or one.leaderless_ns is not None)
    )
    return min(later, default=inf)


def _first(first_acks: FirstAcks, place: TopicPartition, epoch: int, until: float) -> dict[int, int]:
    """By producer, the first acknowledgement from that epoch on, before the epoch `until`."""
    first: dict[int, int] = {}
    for (where, of), acks in first_acks.items():
        for producer, at_ns in acks.items() if where == place and epoch <= of < until else ():
            first[producer] = min(at_ns, first.get(producer, at_ns))
    return first


def _learned(first: Mapping[int, int], elected_ns: int, clients: Clients) -> list[Learned]:
    by_client: dict[str, dict[int, float]] = defaultdict(dict)
    for producer, at_ns in first.items():
        if producer in clients:
            by_client[clients[producer]][producer] = max(0.0, (at_ns - elected_ns) / MS)
    return [
        Learned(
            client=client,
            producers=len(after_ms),
            first_ms=min(after_ms.values()),
            last_ms=max(after_ms.values()),
            median_ms=median(after_ms.values()),
            last_producers=last[:_MAX_LAST_PRODUCERS] if len(last) > _MAX_LAST_PRODUCERS else [],
        )
        for client, after_ms in sorted(by_client.items())
        for last in [[producer for _, producer in sorted((-ms, of) for of, ms in after_ms.items())]]
    ]


def _ms_after(from_ns: int | None, to_ns: int | None) -> float | None:
    """The time between in ms; None if one is unknown, or there is none."""
    return None if from_ns is None or to_ns is None or to_ns <= from_ns else (to_ns - from_ns) / MS


def _finding(
    place: TopicPartition,
    change: Change,
    rows: Sequence[Deposed],
    first: Mapping[int, int],
    seen: Mapping[tuple[TopicPartition, int], Seen],
    clients: Clients,
) -> LeaderChange:
    assert change.leader is not None and change.epoch is not None
    first_ns = min(first.values(), default=None)
    last_ns = max((row.last_ns for row in rows if row.last_ns is not None), default=None)
    # If the same leader came back there were never two, and it had held all that is lost.
    back = change.leader == change.led_before
    known, until_ns = (None, None) if back else (seen.get((place, change.epoch)), last_ns)
    return LeaderChange(
        topic=place[0],
        partition=place[1],
        elected_ns=change.at_ns,
        epoch=change.epoch,
        leader=change.leader,
        old_leader=change.led_before,
        old_leader_in_sync=change.planned,
        unclean=change.unclean,
        fault=change.fault,
        without_leader_ms=None if change.leaderless_ns is None else change.leaderless_ns / MS,
        first_ack_ns=first_ns,
        last_deposed_ack_ns=last_ns,
        two_leaders_ms=_ms_after(change.at_ns, until_ns),
        overlap_ms=_ms_after(first_ns, until_ns),
        deposed_acks=sum(row.acks for row in rows),
        deposed_acks_after_election=sum(row.after_election for row in rows),
        lost=sum(row.lost for row in rows),
        lost_after_heal=sum(row.after_heal for row in rows),
        offsets_used_twice=sum(row.offsets_twice for row in rows),
        lost_seen=dict(known.by_broker) if known else {},
        lost_unseen=known.unseen if known else None,
        lost_unseen_last_ms=known.unseen_last_ms if known else None,
        learned=_learned(first, change.at_ns, clients),
    )


_RECORD_COLUMNS = ["topic", "partition", "offset", "producer", "seq"]
_HELD_SCHEMA = pa.schema(
    [TABLES["replica_log"].schema.field(name) for name in ("broker", "leader_epoch", *_RECORD_COLUMNS)]
)
_CLUSTER = TABLES["replica_log"].schema.field(CLUSTER)


@dataclass(frozen=True)
class Seen:
    """Of the messages that one epoch overwrote: how many each broker held, and how many were seen on none.
    unseen_last_ms: from the first acknowledgement of an unseen one to the last lost acknowledgement.
    """

    by_broker: Mapping[int, int] = field(default_factory=dict)
    unseen: int = 0
    unseen_last_ms: float | None = None


def seen(given: Inputs) -> dict[tuple[TopicPartition, int], Seen]:
    """By (partition, overwriting epoch). Empty if no replica's log was read."""
    table = given.evidence.tables["replica_log"]
    files, schema = table.files, _HELD_SCHEMA if CLUSTER in table.lacking else _HELD_SCHEMA.append(_CLUSTER)
    if not files or not table.rows:
        return {}
    # Converted to the contract's types first, whatever encodings the files have.
    held = pl.concat([_frame(table_of(path, schema)) for path in files]).drop_nulls("seq")
    looked_at = held.select("topic", "partition").unique()
    lost = (
        pl.scan_parquet(given.evidence.folder.analysis / "lost" / "*.parquet")
        .filter(pl.col("cause").is_in(["deposed-leader", "unclean-election"]))
        .select(*_RECORD_COLUMNS, "done_ns", "later_epoch")
        .collect()
        .join(looked_at, ["topic", "partition"], how="semi")
    )
    held = held.group_by("broker", *_RECORD_COLUMNS).agg(pl.col("leader_epoch").min())
    # Under the overwriting or a later epoch it would be another copy.
    both = lost.join(held, _RECORD_COLUMNS, how="left", nulls_equal=False).with_columns(
        broker=pl.when(pl.col("leader_epoch") < pl.col("later_epoch")).then("broker")
    )
    return {
        (TopicPartition(str(topic), int(partition)), int(epoch)): _seen_of(holders)
        for (topic, partition, epoch), holders in both.group_by("topic", "partition", "later_epoch")
    }


def _frame(table: pa.Table) -> pl.DataFrame:
    if CLUSTER in table.column_names:
        topics = with_clusters(table[CLUSTER], table["topic"])
        table = table.set_column(table.column_names.index("topic"), "topic", topics).drop_columns(CLUSTER)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _seen_of(holders: pl.DataFrame) -> Seen:
    """Aggregates one partition and epoch. `holders`: a row per lost message and broker that held it."""
    by_broker = holders.drop_nulls("broker").group_by("broker").len().sort("broker")
    unseen = holders.filter(pl.col("broker").is_null())
    last, first = holders["done_ns"].max(), unseen["done_ns"].min()
    late_ms = (last - first) / MS if isinstance(last, int) and isinstance(first, int) else None
    return Seen(dict(by_broker.iter_rows()), unseen.height, late_ms)
