"""Recovery from each fault: election, first acknowledgement by the new leader, first delivery to any group of
a message that it took, ISR, and backlog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, fault, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.lag import Backlog, backlog, clusters_within
from kaput.analysis.facts.leader_history import served_ns
from kaput.analysis.facts.reach import Reach
from kaput.analysis.facts.waits import SHORTEST_NS
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.run import Ints, picked
from kaput.analysis.views.messages import Messages
from kaput.core import FOREVER_NS, MS, TopicPartition, cluster_and_topic
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.findings_claims import Claim, ClaimKind, EndedBy
from kaput.scenario.fault_kinds import PERMANENT
from kaput.scenario.targets import CLUSTER, CLUSTERS, MIRROR
from kaput.scenario.vocabulary import NOOP

_FIRST = Sum(("fault", "place"), (), ("at_ns",))
_COLUMNS = {"fault": pl.String, "place": pl.Int64, "at_ns": pl.Int64}


@dataclass(frozen=True)
class Reached:
    """A partition that a fault hit, with `epoch` and `election_ns` of the first election after it. `start`:
    the offset at which that epoch began; `cleaned`: whether the log may have removed messages by now.
    `lowest`: the lowest offset at which it may have begun, if that is not `start` since the log is cleaned;
    with acks=all, what is acknowledged there after the election is by the new leader.
    """

    fault: str
    place: int
    effective_ns: int
    epoch: int | None
    election_ns: int | None
    start: int = 0
    cleaned: bool = False
    lowest: int | None = None


@dataclass(frozen=True)
class Recovery(Question):
    """`reached`: the partitions in which to find the first acknowledgement after each fault."""

    reached: Sequence[Reached] = ()

    sums = {"first_acks": _FIRST, "first_deliveries": _FIRST}

    def before_messages(self, run: Run) -> Recovery:
        """Sets the partitions. If a fault led to elections, only partitions with a new leader."""
        return replace(self, reached=list(_reached_partitions(run)))

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        stretches = messages.stretches
        dones = messages.times["dones"]
        yield SumPart("first_acks", first_acks(stretches, dones, self.reached))
        # Where a cleaned log does not tell what the new leader took, its first acknowledgement does.
        reached = [replace(one, start=_taken_from(stretches, dones, one)) for one in self.reached]
        found = first_deliveries(stretches, messages.deliveries, messages.polls, reached)
        yield SumPart("first_deliveries", found)

    def report(self, run: Run) -> Iterator[Reported]:
        deliveries = _earliest(run.sums["first_deliveries"])
        backlogs = _backlogs(run)
        elections = [_ms(reach.fault.effective_ns, reach.elected_ns) for reach in run.reaches]
        yield facts(election_ms=max((ms for ms in elections if ms is not None), default=None))
        yield findings(claims=[*_elections(run), *_first_acks(run), *_backlog_claims(backlogs)])
        acks = _earliest(run.sums["first_acks"])
        for reach in run.reaches:
            id_, since = reach.fault.id, reach.fault.effective_ns
            first = (acks.get(id_), deliveries.get(id_)) if reach.elected else (None, None)
            yield fault(
                id_,
                election_ms=_ms(since, reach.elected_ns),
                first_ack_after_ms=_ms(since, first[0]),
                first_delivery_after_ms=_ms(since, first[1]),
                backlog_drained_ms=_ms(since, _drained_ns(list(backlogs.get(id_, {}).values()))),
                backlog_shared_with=_sharing(run, reach.fault, backlogs.get(id_, {})),
                lag_ended_by=_lag_ended_by(
                    replace(reach.fault, healed_ns=served_ns(reach.fault, run.given.cluster_events)),
                    backlogs.get(id_, {}),
                    _resumed_ns(run, reach),
                ),
                isr_restored_ms=_ms(reach.fault.healed_ns, reach.restored_ns),
                isr_ended_by=_isr_ended_by(reach),
            )


def _ms(from_ns: int | None, to_ns: int | None) -> float | None:
    """The time between in ms, at least 0: cluster events have a resolution of 1 ms."""
    return None if from_ns is None or to_ns is None else max(0.0, (to_ns - from_ns) / MS)


def _earliest(firsts: pl.DataFrame) -> dict[str, int]:
    """By fault, the first of these times in any of its partitions."""
    known = firsts.drop_nulls().group_by("fault").agg(pl.col("at_ns").min())
    return dict(known.iter_rows())


def _elections(run: Run) -> Iterator[Claim]:
    """The first election on each partition that a fault's brokers led."""
    for reach in run.reaches:
        for place, election in reach.places.items():
            since = reach.fault.effective_ns
            if election is None or since is None:
                continue
            figures: dict[str, int | float] = {
                "election_ms": max(0.0, (election.at_ns - since) / MS),
                "leader": election.leader,
            }
            if election.epoch is not None:
                figures["epoch"] = election.epoch
            yield _claim("election", reach, place, election.at_ns, figures)


def _first_acks(run: Run) -> Iterator[Claim]:
    """The first acknowledgement under each of these elections."""
    for reach in run.reaches:
        for place, election in reach.places.items():
            at_ns = run.first_acks.get((reach.fault.id, run.names.code(place)))
            if election is not None and at_ns is not None:
                after_ms = max(0.0, (at_ns - (reach.fault.effective_ns or 0)) / MS)
                yield _claim("first-ack", reach, place, at_ns, {"first_ack_after_ms": after_ms})


def _claim(
    kind: ClaimKind, reach: Reach, place: TopicPartition, to_ns: int, figures: dict[str, int | float]
) -> Claim:
    return Claim(
        kind=kind,
        cluster=cluster_and_topic(place.topic)[0],
        topic=place.topic,
        partition=place.partition,
        fault=reach.fault.id,
        from_ns=reach.fault.effective_ns,
        to_ns=to_ns,
        figures=figures,
    )


def _reached_partitions(run: Run) -> Iterator[Reached]:
    for reach in run.reaches:
        for place, election in reach.places.items():
            if reach.fault.effective_ns is None or (reach.elected and election is None):
                continue
            code, since = run.names.code(place), reach.fault.effective_ns
            if election is None or election.epoch is None or place not in run.partitions.logged:
                yield Reached(reach.fault.id, code, since, None, election.at_ns if election else None)
                continue
            epochs = run.leader_history.epochs.get(place, ())
            start = next((e.start for e in epochs if e.number >= election.epoch), 0)
            one = Reached(reach.fault.id, code, since, election.epoch, election.at_ns, start)
            yield replace(one, cleaned=True, lowest=_lowest(run, place, one)) if run.cleaned(place) else one


def _lowest(run: Run, place: TopicPartition, one: Reached) -> int | None:
    """The offset after the last record of an earlier epoch, if the first ones of this epoch may be gone."""
    logged = run.partitions.logged[place].items()
    lowest = 1 + max((high for epoch, (_, high) in logged if epoch < (one.epoch or 0)), default=-1)
    return lowest if lowest < one.start and run.terms(place).acks_all else None


def _backlogs(run: Run) -> dict[str, dict[str, Backlog]]:
    """By fault and group that it can reach: the backlog of each that has one; its lag rose before the next
    such fault, and before the end of recovery.
    """
    backlogs: dict[str, dict[str, Backlog]] = {}
    took_effect = [(one, one.effective_ns) for one in run.given.faults if one.effective_ns is not None]
    for reach in run.reaches:
        one, since = reach.fault, reach.fault.effective_ns
        if since is None:
            continue
        recovered_ns = reach.recovered_ns(run.given.ended_ns)
        if one.healed_ns == since:  # a change that never ends: what comes much later is not its doing
            recovered_ns = max(since, reach.restored_ns or 0)
        for group, samples in run.given.lags.items():
            nexts = (at for next_, at in took_effect if at > since and can_reach(run.given, next_, group, at))
            rose = backlog(samples, since, min(nexts, default=FOREVER_NS), recovered_ns)
            if rose is not None and can_reach(run.given, one, group, rose.from_ns):
                backlogs.setdefault(one.id, {})[group] = rose
    return backlogs


def can_reach(given: Inputs, fault: FaultRow, group: str, to_ns: int) -> bool:
    """Whether a fault can make a group lag by then: of members only their own; of a topic those that read it;
    of brokers, a cluster or the target of a mirror those in that cluster meanwhile; else any.
    """
    since, hit, cluster = fault.effective_ns, fault.hit, fault.cluster
    if since is None or fault.fault == NOOP:
        return False
    if hit.members_of is not None:
        return hit.members_of == group
    if hit.whole_topic is not None:
        topics = given.reads.get(group)
        return topics is None or given.full_name(hit.whole_topic) in topics
    if hit.hits == MIRROR:
        cluster = (hit.name or "").partition("->")[2]
    elif not fault.brokers and hit.hits not in (CLUSTER, CLUSTERS):
        return True
    specs = {spec.cluster for spec in given.group_specs if spec.id == group}
    here = clusters_within(given.clusters.get(group, ()), since, to_ns) or specs
    return cluster is None or not here - {None} or cluster in here


def _sharing(run: Run, fault: FaultRow, backlogs: Mapping[str, Backlog]) -> list[str]:
    """Other faults that can reach the group that drained last, took effect before that, and were not over
    when it was last sampled before this one: a broker is back with the ISRs.
    """
    since, to_ns = fault.effective_ns, _drained_ns(list(backlogs.values()))
    if since is None or to_ns is None:
        return []
    last = max(backlogs, key=lambda group: backlogs[group].to_ns or FOREVER_NS)
    sampled_ns = max(
        (one.at_ns for one in run.given.lags[last] if one.whole and one.at_ns < since), default=0
    )
    return [
        other.fault.id
        for other in run.reaches
        if other.fault.id != fault.id
        and can_reach(run.given, other.fault, last, to_ns)
        and (at_ns := other.fault.effective_ns or 0) < to_ns
        and max(other.fault.healed_ns or FOREVER_NS, other.restored_ns or 0, at_ns) > sampled_ns
    ]


def _backlog_claims(backlogs: Mapping[str, Mapping[str, Backlog]]) -> Iterator[Claim]:
    for fault_id, of_group in backlogs.items():
        for group, one in of_group.items():
            figures = {name: getattr(one, name) for name in ("before", "greatest", "greatest_at_ns")}
            times = {"from_ns": one.from_ns, "to_ns": one.to_ns}
            yield Claim(kind="backlog", fault=fault_id, group=group, **times, figures=figures)


def _drained_ns(backlogs: Sequence[Backlog]) -> int | None:
    """When the last group was back; None if one never was, or none had a backlog."""
    ends = [one.to_ns for one in backlogs if one.to_ns is not None]
    return max(ends) if ends and len(ends) == len(backlogs) else None


def _resumed_ns(run: Run, reach: Reach) -> int | None:
    """When each partition with a new leader had been delivered from; None if one was not, or none has one."""
    elected = sum(election is not None for election in reach.places.values())
    firsts = run.sums["first_deliveries"].filter(fault=reach.fault.id).drop_nulls()
    return int(firsts["at_ns"].max()) if elected and firsts.height == elected else None  # type: ignore[arg-type]


def _lag_ended_by(
    fault: FaultRow, backlogs: Mapping[str, Backlog], resumed_ns: int | None = None
) -> EndedBy | None:
    """What the lag of the group whose lag grew the longest waited for before it shrank: the heal (of a
    process: when it served again), if it came between the last sample with the greatest lag and the next one,
    and new leaders did not all serve before it. None if it grew for less than a second.
    """
    group = max(backlogs, key=lambda name: backlogs[name].grew_until_ns, default="")
    last = backlogs.get(group)
    if last is None or fault.effective_ns is None or last.grew_until_ns - fault.effective_ns < SHORTEST_NS:
        return None
    # A change that never ends (resize, grow) has no heal of its own, nor has a move of replicas.
    own = fault.healed_ns != fault.effective_ns and fault.fault not in PERMANENT
    healed_ns = fault.healed_ns if own else None
    # The heal of a producer or a mirror lets no group go on.
    hit = bool(fault.brokers) or fault.target.endswith(f" of {group}")
    if not hit or healed_ns is None or (resumed_ns is not None and resumed_ns < healed_ns):
        return "unknown"
    return "heal" if last.grew_until_ns <= healed_ns <= last.shrank_ns else "unknown"


def _isr_ended_by(reach: Reach) -> EndedBy | None:
    if reach.restored_ns is None or reach.fault.healed_ns is None:
        return None
    return "heal" if reach.restored_ns > reach.fault.healed_ns else "unknown"


def first_acks(stretches: pl.DataFrame, dones: Ints, reached: Iterable[Reached]) -> pl.DataFrame:
    """(fault, place, at_ns): the first acknowledgement after each fault's effect, by the new leader if there
    is one: it comes after the election, and what a deposed leader acknowledged does not count.
    """
    rows: list[tuple[str, int, int]] = []
    for one in reached:
        # An acknowledgement under the epoch comes after the election, also of one that was noticed late.
        by_time = one.epoch is None or one.cleaned
        since = max(one.effective_ns, one.election_ns or 0) if by_time else one.effective_ns
        mine = _from_new_leader(stretches.filter(ACKED), one).filter(pl.col("done_ns_last") >= since)
        rows += _first_since(one, mine, dones, since)
    return pl.DataFrame(rows, _COLUMNS, orient="row")


def first_deliveries(
    stretches: pl.DataFrame, deliveries: pl.DataFrame, polls: Ints, reached: Iterable[Reached]
) -> pl.DataFrame:
    """(fault, place, at_ns): the first delivery, to any group, of a message that the new leader took."""
    rows: list[tuple[str, int, int]] = []
    for one in reached:
        if one.epoch is not None:
            mine = _from_new_leader(stretches, one).select("part")
            read = deliveries.join(mine, on="part", how="semi").filter(place=one.place)
            if one.lowest is not None:  # compaction has left no edge between the two leaders' messages
                before = (one.start - pl.col("offset")).clip(0)
                read = read.with_columns(
                    row=pl.col("row") + before, n=pl.col("n") - before, offset=pl.col("offset") + before
                ).filter(pl.col("n") > 0)
            read = read.filter(pl.col("offset") >= one.start)  # not of a copy that the old leader had taken
            rows += _first_since(one, read, polls, one.effective_ns)
    return pl.DataFrame(rows, _COLUMNS, orient="row")


def _from_new_leader(stretches: pl.DataFrame, one: Reached) -> pl.DataFrame:
    """The messages stored in the epoch of the first election after the fault, or later; all if unknown. Where
    the log has been cleaned, also those at its offsets that are no longer stored.
    """
    mine = stretches.filter(place=one.place)
    if one.epoch is None:
        return mine
    of_epoch = (pl.col("epoch") >= one.epoch).fill_null(False)
    # Of a message that is stored twice, the epoch is that of its first copy, the offset the acknowledged one.
    elsewhere = pl.col("stored") > 1
    start, last = one.start, pl.col("offset")
    if one.cleaned:
        elsewhere |= pl.col("stored") == 0
    if one.lowest is not None:
        start, last = min(start, one.lowest), last + pl.col("n") - 1
    of_epoch |= (ACKED & elsewhere & (last >= start)).fill_null(False)
    return mine.filter(of_epoch)


def _taken_from(stretches: pl.DataFrame, dones: Ints, one: Reached) -> int:
    """The offset from which messages are the new leader's: where the epoch begins in the log or, if that has
    been cleaned, the lowest one that is acknowledged after the election.
    """
    if one.lowest is None:
        return one.start
    since, start = max(one.effective_ns, one.election_ns or 0), one.start
    mine = _from_new_leader(stretches.filter(ACKED), one).filter(pl.col("done_ns_last") >= since)
    for offset, row, n in mine.select("offset", "row", "n").drop_nulls().iter_rows():
        late = np.flatnonzero(dones[row : row + n] >= since)
        if late.size and offset + int(late[0]) >= one.lowest:
            start = min(start, offset + int(late[0]))
    return start


def _first_since(one: Reached, runs: pl.DataFrame, rows: Ints, since: int) -> Iterator[tuple[str, int, int]]:
    """(fault, place, time): the first time of the runs' rows from `since` on, if any."""
    times = picked(rows, runs["row"].to_numpy(), runs["n"].to_numpy())
    if (late := times[times >= since]).size:
        yield one.fault, one.place, int(late.min())
