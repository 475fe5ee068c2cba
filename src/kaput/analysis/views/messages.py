"""Stage messages: the messages of some blocks, with runs of sends, log and deliveries matched.

Exact times are in arrays of values per row, which the runs index. Not here: the matching (stretches.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
import polars as pl

from kaput.analysis.engine.pieces import Piece, gathered
from kaput.analysis.engine.question import Cases
from kaput.analysis.runs.columns import ENCODINGS, View, empty_tables
from kaput.analysis.runs.run import NULL, Ints, nullable, unpacked
from kaput.analysis.views.known import Known
from kaput.analysis.views.stretches import messages, uncommitted, unread
from kaput.core import FOREVER_NS
from kaput.evidence.reading import STORE_TABLES


class Messages:
    """The messages of one task.

    `tables`: runs as they came, before they were cut. `stretches`, `copies`, `deliveries`, `transactions`:
    see MatchedMessages; stretches also have the first and last times of attempts and of known outcomes, and
    whether they are `unread` or `uncommitted`. `values`: by table, the arrays that the column `row` of its
    runs indexes; of these, `times`: attempts and dones, by `row` of stretches; `polls`: by `row` of
    deliveries. `outputs`: of pipes. `groups`: the numbers of all groups. `kept`, `replayed` and `left`: what
    stores took, gave back and still have, cut like stretches; `took` and `gave`: the times of the first two,
    indexed by `row`.
    """

    def __init__(self, pieces: Iterable[Piece], known: Known, _passed_tables: object, part: int) -> None:
        self.known, self.part = known, part
        self.cases: dict[str, pl.DataFrame] = {}
        self.tables = tables = gathered(pieces, empty_tables(View.MESSAGES))
        both = {name: unpacked(runs, ENCODINGS[name].arrays) for name, runs in tables.items()}
        runs = {name: of_table for name, (of_table, _) in both.items()}
        self.values = {name: values for name, (_, values) in both.items()}
        self.times, self.polls = self.values["sends"], self.values["deliveries"]["polls"]
        self.took, self.gave = self.values["kept"]["ats"], self.values["replayed"]["ats"]
        self.outputs, self.groups = runs["outputs"], range(len(known.names.groups))
        stores = [runs[name] for name in STORE_TABLES]
        matched = messages(
            runs["sends"],
            runs["log"],
            runs["deliveries"],
            runs["transactions"],
            self.groups,
            stores,
            known.homes,
        )
        self.kept, self.replayed, self.left = matched.stores
        self.copies, self.deliveries, self.transactions = (
            matched.copies,
            matched.deliveries,
            matched.transactions,
        )
        flags = unread(known.complete, known.complete_topics)
        stretches = _timed(matched.stretches, self.times).with_columns(unread=flags)
        self.stretches = stretches.with_columns(uncommitted=uncommitted())

    def stored(self, *of: pl.Expr) -> pl.DataFrame:
        """The stretches that are stored, of those for which all this holds, with `times`: how often."""
        return self.stretches.filter(pl.col("stored") > 0, *of).with_columns(times="stored")

    @cached_property
    def phantoms(self) -> pl.DataFrame:
        """The copies of messages that were never sent."""
        return self.copies.filter(~pl.col("sent"))

    def case(self, name: str, rows: pl.DataFrame) -> Cases:
        """Cases of an anomaly from stretches. Examples show the first copy's place and the attempt's time."""
        return Cases(name, rows, self._where_and_when)

    def _where_and_when(self, rows: pl.DataFrame) -> pl.DataFrame:
        at_ns = pl.Series("at_ns", self.times["attempts"][rows["row"].to_numpy()], pl.Int64)
        # The partition in sends may be unknown, or another one.
        place = pl.coalesce("first_place", "place")
        return rows.with_columns(at_ns, place=place, offset="first_offset")


def _timed(stretches: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """The stretches with the first and last times of attempts and of known outcomes."""
    # Stretches cover all sends, in the order of their rows, so reduceat works.
    begin, attempts, dones = stretches["row"].to_numpy(), times["attempts"], times["dones"]
    last = np.maximum.reduceat(dones, begin)
    first = np.minimum.reduceat(np.where(dones == NULL, FOREVER_NS, dones), begin)
    both_ends = [
        pl.Series("attempt_ns_first", np.minimum.reduceat(attempts, begin)),
        pl.Series("attempt_ns_last", np.maximum.reduceat(attempts, begin)),
        nullable("done_ns_first", first, FOREVER_NS),
        nullable("done_ns_last", last),
    ]
    return stretches.hstack(both_ends)


class Keys:
    """Stage keys: `log` and `deliveries` of some blocks of messages again, for questions about keys. Runs of
    records with an identity; the deliveries' `row` indexes `polls`.
    """

    def __init__(self, pieces: Iterable[Piece], known: Known, _passed_tables: object, _part: int) -> None:
        self.known = known
        self.cases: dict[str, pl.DataFrame] = {}
        empty = empty_tables(View.MESSAGES)
        self.tables = gathered(pieces, {name: empty[name] for name in ("log", "deliveries")})
        self.log = self.tables["log"]
        self.deliveries, polls = unpacked(self.tables["deliveries"], ENCODINGS["deliveries"].arrays)
        self.polls = polls["polls"]
