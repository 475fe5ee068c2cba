"""Stages stored and places: the records of some partitions and their deliveries to groups, in offset order.

Also holds the tables that questions pass on from the stage `messages`. Not here: the questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import polars as pl

from kaput.analysis.causes.attribution import deleted_with_topics, with_causes, with_holders, with_removal
from kaput.analysis.engine.pieces import Piece, gathered
from kaput.analysis.runs.clocks import READER
from kaput.analysis.runs.columns import MESSAGE, SPOT, View, empty_tables, looked_up
from kaput.analysis.runs.cutting import PLACES, READ, meeting, overlapping, overlay
from kaput.analysis.runs.names import SHIFT
from kaput.analysis.runs.run import NULL, Ints, in_order, unpacked
from kaput.analysis.views.known import Known

_BY_TOPIC = pl.col("compacted") | pl.col("expired")
_EXPLAINED = pl.col("later_epoch").is_not_null() | pl.col("either_leader")


class Stored:
    """Partitions before messages are matched: `log`, in offset order; `deliveries` and `share_events`."""

    def __init__(
        self, pieces: Iterable[Piece], known: Known, passed_tables: Mapping[str, pl.DataFrame], part: int
    ) -> None:
        self.known, self.part = known, part
        self.cases: dict[str, pl.DataFrame] = {}
        self.tables = gathered(pieces, {**empty_tables(View.PLACES), **passed_tables})
        self.log = in_order(self.tables["log"], PLACES.columns)
        self.deliveries, self.share_events = self.tables["deliveries"], self.tables["share_events"]


class Places(Stored):
    """Partitions after messages are matched. `tables`: also those that questions pass on, by name."""

    @cached_property
    def ordered(self) -> pl.DataFrame:
        """Deliveries by time, of groups that promise an order; of a recreated topic, from the new one."""
        share = list(self.known.share_groups)
        mine = self.deliveries.filter(~pl.col("group").is_in(share))
        return in_time(in_new_topic(mine, self.log, self.known.recreated))

    @cached_property
    def delivered_again(self) -> pl.DataFrame:
        """Those of `ordered` that have an offset in common with another one."""
        return meeting(self.ordered, overlapping(self.ordered, READ), READ)

    @property
    def deliveries_overlap(self) -> bool:
        """Whether deliveries of some reader overlap in time, see the function."""
        return deliveries_overlap(self.ordered)

    @cached_property
    def committed(self) -> pl.DataFrame:
        """(group, place, offset, at_ns, member): the commits of groups in these partitions, except share
        groups, and except those that refer to a topic that a step deleted, to create it again.
        """
        here = pl.concat([self.log["place"], self.deliveries["place"]]).unique().implode()
        not_shared = ~pl.col("group").is_in(list(self.known.share_groups))
        mine = pl.col("place").is_in(here), pl.col("offset").is_not_null(), not_shared
        rows = self.known.events.filter(*mine, kind="committed")
        if self.known.recreated:
            rows = of_new_topic(rows, self.ordered, self.known.recreated)
        return rows.select("group", "place", "offset", "at_ns", "member")

    def shown_to(self, rows: pl.DataFrame) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
        """Pairs of rows and log: read_uncommitted groups with all records, others with visible ones."""
        if self.log["visible"].all():
            return [(rows, self.log)]
        every = pl.col("group").is_in(list(self.known.uncommitted))
        return [(rows.filter(every), self.log), (rows.filter(~every), self.log.filter("visible"))]

    @cached_property
    def contradicted(self) -> tuple[pl.DataFrame, Mapping[str, Ints]]:
        """Acknowledgements that contradict the log, as runs, and the arrays that their `row` indexes."""
        return unpacked(self.tables["contradicted_acks"], ("attempts", "dones"))

    @cached_property
    def explained_acks(self) -> pl.DataFrame:
        """The same, one per row, explained (causes/attribution.py)."""
        return self._with_causes(*self.contradicted)

    @cached_property
    def lost(self) -> pl.DataFrame:
        """The lost ones of these, sorted by message: what no setting of the topic removed."""
        return self._gone.filter(~_BY_TOPIC)

    @cached_property
    def removed(self) -> pl.DataFrame:
        """Those that were removed as configured: by the topic's settings, or by a step."""
        return self._gone.filter(_BY_TOPIC | pl.col("deleted_by_step"))

    @cached_property
    def _gone(self) -> pl.DataFrame:
        return self.explained_acks.filter("lost").sort(MESSAGE).with_columns(n=pl.lit(1, pl.Int64))

    @cached_property
    def overwritten(self) -> pl.DataFrame:
        """Deliveries that contradict the log, if an epoch explains them, or may (vanished.py)."""
        return self._explained_deliveries.filter(_EXPLAINED, self._read)

    @cached_property
    def displaced(self) -> pl.DataFrame:
        """The same, and those from topics that a step deleted since, to create them again; not where another
        one contradicts the log, read to its end, that nothing explains.
        """
        rows = self._explained_deliveries
        if "in_old_topic" not in rows.columns:
            return self.overwritten
        strange = rows.filter(~_EXPLAINED, self._read, ~pl.col("in_old_topic").fill_null(False))
        old = rows.filter(~_EXPLAINED, "in_old_topic").join(strange, on=SPOT, how="anti")
        return pl.concat([self.overwritten, old])

    @property
    def _read(self) -> pl.Expr:
        """Whether a row's partition was read to its end."""
        return pl.col("place").is_in(sorted(self.known.complete))

    @cached_property
    def _explained_deliveries(self) -> pl.DataFrame:
        return self.with_causes(self.tables["contradicted_deliveries"])

    def with_causes(self, claims: pl.DataFrame) -> pl.DataFrame:
        """CLAIMS (runs/columns.py), one per row, with the reasons why these messages are gone."""
        times = {"attempts": claims["attempt_ns"], "dones": claims["done_ns"].fill_null(NULL)}
        one_by_one = claims.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
        return self._with_causes(one_by_one, {name: kept.to_numpy() for name, kept in times.items()})

    def _with_causes(self, runs: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
        rows = with_causes(with_holders(runs, times, self.log), self.known)
        known = self.known
        deleted = deleted_with_topics(rows, known)
        return with_removal(deleted, self.log, known.removing)


def in_new_topic(deliveries: pl.DataFrame, log: pl.DataFrame, recreated: Mapping[int, int]) -> pl.DataFrame:
    """Deliveries without those from topics that were recreated afterwards: the log, which is the new one's,
    has another message at their offset, or none. A run that goes on from one to the other stays.
    """
    again = (pl.col("place") // SHIFT).is_in(list(recreated)).fill_null(False)
    mine = deliveries.filter(again)
    if mine.is_empty():
        return deliveries
    mine = mine.with_row_index("line")  # whole runs: parts of one would overlap in time
    parts, there = overlay([mine, log.filter(pl.col("place").is_in(mine["place"].implode()))], PLACES)
    same = parts.join(there.select("part", *MESSAGE), on=["part", *MESSAGE], how="semi")
    return pl.concat(
        [deliveries.filter(~again), mine.join(same.select("line"), on="line", how="semi").drop("line")]
    )


def of_new_topic(commits: pl.DataFrame, ordered: pl.DataFrame, recreated: Mapping[int, int]) -> pl.DataFrame:
    """Commits without those that refer to topics that were recreated afterwards: made before the old one was
    gone, or before the group was delivered anything from the new one. `ordered`: see Places.
    """
    firsts = ordered.group_by("group", "place").agg(first_ns=pl.col("polled_ns_first").min())
    gone_ns = looked_up(pl.col("place") // SHIFT, recreated)
    new = (pl.col("at_ns") > gone_ns) & (pl.col("at_ns") >= pl.col("first_ns")).fill_null(False)
    known = commits.join(firsts, on=["group", "place"], how="left")
    return known.filter(new | gone_ns.is_null()).drop("first_ns")


def in_time(deliveries: pl.DataFrame) -> pl.DataFrame:
    """Sorts each reader's runs by time."""
    # Of what a poll returned twice at one time, the shorter run first: the longer one goes on from it.
    order = ("polled_ns_first", "offset", "producer", "seq", "polled_ns_last", "n")
    return in_order(deliveries, [*READER, *order])


def deliveries_overlap(deliveries: pl.DataFrame) -> bool:
    """Whether runs of one reader (sorted by `in_time`) overlap in time, so that its steps cannot be seen in
    them. Happens if a member's rows are spread over several row groups, not ordered by time.
    """
    latest = pl.col("polled_ns_last").cum_max().shift(1).over(READER)
    end = (pl.col("offset") + pl.col("n") - 1).shift(1).over(READER)
    at_once = (pl.col("polled_ns_first") == latest) & (pl.col("offset") < end)
    overlap = (pl.col("polled_ns_first") < latest) | at_once
    return bool(deliveries.select(overlap.fill_null(False).any()).item())
