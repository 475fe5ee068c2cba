"""Stage 3: what some partitions hold, and what was delivered of it to groups: runs in the order of offsets.

What questions found of messages comes along, as the tables that they pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import polars as pl

from kaput.analysis.causes.explained import against_the_log, deleted_with_topics, explained
from kaput.analysis.engine.pieces import Piece, gathered
from kaput.analysis.runs.clocks import READER
from kaput.analysis.runs.columns import MESSAGE
from kaput.analysis.runs.cutting import PLACES
from kaput.analysis.runs.run import NULL, Ints, in_order, unpacked
from kaput.analysis.views.known import Known
from kaput.analysis.views.rows import no_rows


class Stored:
    """What partitions hold before messages are matched: `log`, in order; `deliveries` and `share_events`."""

    def __init__(
        self, pieces: Iterable[Piece], known: Known, inlets: Mapping[str, pl.DataFrame], part: int
    ) -> None:
        self.known, self.part = known, part
        self.cases: dict[str, pl.DataFrame] = {}
        none = no_rows()
        empty = {
            "log": none["log"].runs,
            "deliveries": none["deliveries"].runs.drop("row"),
            "share_events": none["share_events"].runs,
        }
        self.passed = gathered(pieces, empty | dict(inlets))
        self.log = in_order(self.passed["log"], PLACES.columns)
        self.deliveries, self.share_events = self.passed["deliveries"], self.passed["share_events"]


class Places(Stored):
    """The same with `passed`: the tables that questions pass to these places, by name."""

    @cached_property
    def ordered(self) -> pl.DataFrame:
        """Deliveries of groups that promise an order (share groups do not), in that of time."""
        share = list(self.known.share_groups)
        return in_time(self.deliveries.filter(~pl.col("group").is_in(share)))

    @property
    def torn(self) -> bool:
        """Whether the steps of some reader do not show in these runs."""
        return torn(self.ordered)

    @cached_property
    def committed(self) -> pl.DataFrame:
        """(group, place, offset, at_ns, member): what groups committed; share groups commit nothing."""
        rows = self.known.events.filter(kind="committed").drop_nulls(["place", "offset"])
        rows = rows.filter(~pl.col("group").is_in(list(self.known.share_groups)))
        return rows.select("group", "place", "offset", "at_ns", "member")

    def shown_to(self, rows: pl.DataFrame) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
        """Those rows that are of groups which are given every record, with the log; and those of others, with
        what is visible of it.
        """
        if self.log["visible"].all():
            return [(rows, self.log)]
        every = pl.col("group").is_in(list(self.known.uncommitted))
        return [(rows.filter(every), self.log), (rows.filter(~every), self.log.filter("visible"))]

    @cached_property
    def contradicted(self) -> tuple[pl.DataFrame, Mapping[str, Ints]]:
        """Acknowledgements that the log does not bear out, as runs, and the times their rows point to."""
        return unpacked(self.passed["contradicted_acks"], ("attempts", "dones"))

    @cached_property
    def explained_acks(self) -> pl.DataFrame:
        """The same one by one, explained (causes/explained.py)."""
        return self._explained(*self.contradicted)

    @cached_property
    def lost(self) -> pl.DataFrame:
        """Those of them that are lost, in the order of messages."""
        return self.explained_acks.filter("lost").sort(MESSAGE).with_columns(n=pl.lit(1, pl.Int64))

    @cached_property
    def overwritten(self) -> pl.DataFrame:
        """What groups were handed and the log contradicts (questions/contradicted.py), as far as an epoch
        explains it, or may.
        """
        rows = self.explained(self.passed["contradicted_deliveries"])
        return rows.filter(pl.col("later_epoch").is_not_null() | pl.col("either_leader"))

    def explained(self, claims: pl.DataFrame) -> pl.DataFrame:
        """CLAIMS (stretches.py) one by one, and why these messages are not there any more."""
        times = {"attempts": claims["attempt_ns"], "dones": claims["done_ns"].fill_null(NULL)}
        one_by_one = claims.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
        return self._explained(one_by_one, {name: kept.to_numpy() for name, kept in times.items()})

    def _explained(self, runs: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
        known = self.known
        rows = explained(
            against_the_log(runs, times, self.log),
            known.under,
            known.timeline,
            known.extents,
            known.deleted,
            known.names,
            known.silent,
            known.attempted,
        )
        return deleted_with_topics(rows, known.recreated)


def in_time(deliveries: pl.DataFrame) -> pl.DataFrame:
    """Each reader's runs in the order of time."""
    return in_order(deliveries, [*READER, "polled_ns_first", "offset", "producer", "seq", "polled_ns_last"])


def torn(deliveries: pl.DataFrame) -> bool:
    """Whether deliveries of one reader, which are `in_time`, overlap there: its steps do not show in these
    runs. That is so where the rows of a member are in several row groups in no order of time.
    """
    latest = pl.col("polled_ns_last").cum_max().shift(1).over(READER)
    end = (pl.col("offset") + pl.col("n") - 1).shift(1).over(READER)
    at_once = (pl.col("polled_ns_first") == latest) & (pl.col("offset") < end)
    overlap = (pl.col("polled_ns_first") < latest) | at_once
    return bool(deliveries.select(overlap.fill_null(False).any()).item())
