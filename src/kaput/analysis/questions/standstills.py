"""Standstills: at least a second without any acknowledgement (or first delivery to a group) while messages
were waiting; of each partition and of all together, each with what ended it and what happened meanwhile.
Defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Question, Reported, facts, findings
from kaput.analysis.engine.spells import pauses
from kaput.analysis.facts import outage_ends
from kaput.analysis.facts.concurrent_events import RunEvents
from kaput.analysis.facts.outage_ends import SHORTEST_NS, Moments
from kaput.analysis.questions.availability import (
    DONE,
    GIVEN_UP,
    NOWHERE,
    PRODUCERS,
    WAITING,
    timeouts_ns,
)
from kaput.core import MS, SECOND, TopicPartition
from kaput.evidence.findings_service import Availability, Standstill

if TYPE_CHECKING:
    from kaput.analysis.run import Run

_ALL_PLACES = -2  # instead of a place: all partitions together
_MAX_SHOWN = 100  # standstills of all partitions together, and of single partitions; also for each group
_SCOPE = ("group", "place")


class Standstills(Question):
    """Finds standstills on the driver, from the spells of availability.py."""

    def report(self, run: Run) -> Iterator[Reported]:
        """The longest standstills, and the availability of each partition."""
        spells = _with_all_places(run.sums["service_spells"])
        found = pauses(spells.filter(kind=DONE), spells.filter(kind=WAITING), _SCOPE, SHORTEST_NS)
        shown = pl.concat(_longest(found.filter(everywhere)) for everywhere in _scopes())
        events, resumed = RunEvents(run), _resumed(found)
        rows = shown.sort(pl.col("group"), pl.col("place"), "from_ns").iter_rows()
        service = found.filter(group=PRODUCERS, place=_ALL_PLACES)
        longest = service.select((pl.col("to_ns") - pl.col("from_ns")).max()).item() or 0
        yield findings(
            standstills=[_standstill(run, events, resumed, *row) for row in rows],
            standstills_left_out=found.height - shown.height,
            availability=list(_availability(run, spells, found)),
        )
        yield facts(standstill_ms=longest / MS)


def _with_all_places(spells: pl.DataFrame) -> pl.DataFrame:
    """The spells of each partition, and of all together, including messages without a known partition."""
    every = spells.with_columns(place=pl.lit(_ALL_PLACES, pl.Int64))
    return pl.concat([spells.filter(pl.col("place") != NOWHERE), every])


def _scopes() -> tuple[pl.Expr, pl.Expr]:
    return pl.col("place") == _ALL_PLACES, pl.col("place") != _ALL_PLACES


def _longest(found: pl.DataFrame) -> pl.DataFrame:
    """The longest standstills of each group."""
    length = pl.col("to_ns") - pl.col("from_ns")
    return found.sort(-length, "place", "from_ns").group_by("group", maintain_order=True).head(_MAX_SHOWN)


def _resumed(found: pl.DataFrame) -> dict[tuple[int, int], int]:
    """By group and end time, the partition that resumed first."""
    single = found.filter(pl.col("place") != _ALL_PLACES).sort("place", descending=True)
    return {(group, to_ns): place for group, place, to_ns in single.select(*_SCOPE, "to_ns").iter_rows()}


def _standstill(
    run: Run,
    events: RunEvents,
    resumed: Mapping[tuple[int, int], int],
    group: int,
    place: int,
    from_ns: int,
    to_ns: int,
    ended: bool,
) -> Standstill:
    where = None if place == _ALL_PLACES else run.names.located(place)
    first = resumed.get((group, to_ns)) if where is None else None
    ends_of = where if first is None else run.names.located(first)
    name = None if group == PRODUCERS else run.given.groups[group]
    happened, more = events.happened(from_ns, to_ns, where, name)
    return Standstill(
        group=name,
        topic=where and where.topic,
        partition=where and where.partition,
        from_ns=from_ns,
        to_ns=to_ns,
        length_ms=(to_ns - from_ns) / MS,
        ended_by=outage_ends.ended_by(from_ns, to_ns, moments(run, ends_of, name)) if ended else None,
        cause=events.cause(from_ns, to_ns, where, name),
        happened=happened,
        happened_left_out=more,
    )


def moments(run: Run, place: TopicPartition | None = None, group: str | None = None) -> Moments:
    """The moments that may have ended a standstill of a partition, or of all."""
    spells = run.sums["service_spells"].filter(group=PRODUCERS, kind=GIVEN_UP)
    of_place = spells if place is None else spells.filter(place=run.names.code(place))
    ends = [r.ended_ns for r in run.rebalances.found if r.group == group and r.ended_ns is not None]
    return outage_ends.moments(
        run.given.faults,
        run.leader_history,
        run.leader_history.changes if place is None else [place],
        group,
        ends,
        of_place.select("first_ns", "last_ns").iter_rows(),
    )


def _availability(run: Run, spells: pl.DataFrame, found: pl.DataFrame) -> Iterator[Availability]:
    """A row for acknowledgements and one for each group, for all partitions together and for each."""
    counts = run.sums["service_counts"]
    every = counts.with_columns(place=pl.lit(_ALL_PLACES, pl.Int64)).group_by(_SCOPE).sum()
    sums = pl.concat([every, counts.filter(pl.col("place") != NOWHERE).select(every.columns)])
    length = pl.col("to_ns") - pl.col("from_ns")
    standstill_sums = found.group_by(_SCOPE).agg(
        still_ns=length.sum(), often=pl.len(), longest_ns=length.max()
    )
    load = (
        spells.filter(kind=WAITING)
        .group_by(_SCOPE)
        .agg(load_ns=pl.col("last_ns").max() - pl.col("first_ns").min())
    )
    rows = sums.join(standstill_sums, on=_SCOPE, how="left").join(load, on=_SCOPE, how="left").sort(_SCOPE)
    known = set(range(len(run.given.clients))) <= set(timeouts_ns(run.given)) and bool(run.given.clients)
    for row in rows.with_columns(pl.col("still_ns", "often", "longest_ns", "load_ns").fill_null(0)).iter_rows(
        named=True
    ):
        where = None if row["place"] == _ALL_PLACES else run.names.located(row["place"])
        n, acks = row["messages"], row["group"] == PRODUCERS
        in_time = row["within_timeout"] if acks and known else None
        yield Availability(
            group=None if acks else run.given.groups[row["group"]],
            topic=where and where.topic,
            partition=where and where.partition,
            load_s=row["load_ns"] / SECOND,
            standstill_s=row["still_ns"] / SECOND,
            standstills=row["often"],
            longest_standstill_ms=row["longest_ns"] / MS,
            messages=n,
            within_1s=row["within_1s"],
            within_1s_share=row["within_1s"] / n if n else None,
            within_timeout=in_time,
            within_timeout_share=in_time / n if n and in_time is not None else None,
        )
