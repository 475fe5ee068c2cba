"""Stage 2: what became of the messages of some blocks: runs of sends, the log and deliveries, matched.

Exact times come from the rows' own columns, to which the runs point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
import polars as pl

from kaput.analysis.engine.pieces import Piece, gathered
from kaput.analysis.engine.question import Cases
from kaput.analysis.runs.run import NULL, Ints, unpacked
from kaput.analysis.views.known import Known
from kaput.analysis.views.rows import DELIVERED, no_rows
from kaput.analysis.views.stretches import messages, uncommitted, unread
from kaput.core import FOREVER_NS


class Messages:
    """`stretches`, `copies`, `deliveries`, `transactions`: see MatchedMessages; stretches also have the
    least and the greatest time of attempts and of what is known of outcomes, and whether they are `unread` or
    `uncommitted`. `times`: attempts and dones, to which the column `row` of stretches points; `polls`: to
    which that of deliveries does. `outputs`: of pipes. `groups`: the numbers of all. `kept`, `replayed` and
    `left`: what stores took, gave back and still have, cut like stretches; `took` and `gave`: when, to which
    the column `row` of the first two points.
    """

    def __init__(self, pieces: Iterable[Piece], known: Known, _inlets: object, part: int) -> None:
        self.known, self.part = known, part
        self.cases: dict[str, pl.DataFrame] = {}
        tables = gathered(pieces, _no_runs())
        sends, self.times = unpacked(tables["sends"], ("attempts", "dones"))
        deliveries, polls = unpacked(tables["deliveries"], ("polls",))
        self.polls, self.outputs = polls["polls"], tables["outputs"]
        self.groups = range(len(known.names.groups))
        kept, took = unpacked(tables["kept"], ("ats",))
        replayed, gave = unpacked(tables["replayed"], ("ats",))
        self.took, self.gave = took["ats"], gave["ats"]
        stores = (kept, replayed, tables["left_in_store"])
        log, transactions = tables["log"], tables["transactions"]
        found = messages(sends, log, deliveries, transactions, self.groups, stores, known.homes)
        self.kept, self.replayed, self.left = found.stores
        self.copies, self.deliveries, self.transactions = found.copies, found.deliveries, found.transactions
        flags = unread(known.complete, known.complete_topics)
        stretches = _timed(found.stretches, self.times).with_columns(unread=flags)
        self.stretches = stretches.with_columns(uncommitted=uncommitted())

    @cached_property
    def stored(self) -> pl.DataFrame:
        """The stretches that the log shows, with `times`: how often."""
        return self.stretches.filter(pl.col("stored") > 0).with_columns(times="stored")

    @cached_property
    def phantoms(self) -> pl.DataFrame:
        """The copies of what was never sent."""
        return self.copies.filter(~pl.col("sent"))

    def case(self, name: str, rows: pl.DataFrame) -> Cases:
        """Stretches that are cases, shown with where they are stored first, and when they were attempted."""
        return Cases(name, rows, self._where_and_when)

    def _where_and_when(self, rows: pl.DataFrame) -> pl.DataFrame:
        at_ns = pl.Series("at_ns", self.times["attempts"][rows["row"].to_numpy()], pl.Int64)
        # What its sender was told of the partition may be nothing, or another one.
        place = pl.coalesce("first_place", "place")
        return rows.with_columns(at_ns, place=place, offset="first_offset")


def _no_runs() -> dict[str, pl.DataFrame]:
    none = no_rows()
    return {
        "sends": none["sends"].packed(),
        "log": none["log"].runs,
        "deliveries": none["deliveries"].packed().select(DELIVERED),
        "transactions": none["transactions"].runs,
        "outputs": none["outputs"].runs,
        "kept": none["kept"].packed(),
        "replayed": none["replayed"].packed(),
        "left_in_store": none["left_in_store"].runs,
    }


def _timed(stretches: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """The stretches with the least and the greatest time of attempts and of what is known of outcomes."""
    if stretches.is_empty():
        columns = ("attempt_ns_first", "attempt_ns_last", "done_ns_first", "done_ns_last")
        return stretches.with_columns(pl.lit(None, pl.Int64).alias(name) for name in columns)
    # Sends are cut into stretches without a rest, in the order of their rows.
    begin, attempts, dones = stretches["row"].to_numpy(), times["attempts"], times["dones"]
    last = np.maximum.reduceat(dones, begin)
    first = np.minimum.reduceat(np.where(dones == NULL, FOREVER_NS, dones), begin)
    return stretches.with_columns(
        attempt_ns_first=pl.Series(np.minimum.reduceat(attempts, begin)),
        attempt_ns_last=pl.Series(np.maximum.reduceat(attempts, begin)),
        done_ns_first=pl.Series(first).replace(FOREVER_NS, None),
        done_ns_last=pl.Series(last).replace(NULL, None),
    )
