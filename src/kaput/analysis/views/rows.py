"""Stage rows: encodes row groups as runs, and sends these to the tasks of their messages and of their places.

On the way it asks the questions that need only single rows: counts, times, durations. Not here: the encoding
(runs/encoding.py).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.engine.asking import CpuClock, TaskFinds, ask, kinds
from kaput.analysis.engine.pieces import Pack, Piece, by_part
from kaput.analysis.engine.pieces import pack as to_bytes
from kaput.analysis.engine.question import Question
from kaput.analysis.engine.sums import total
from kaput.analysis.runs.columns import ACKED, ENCODINGS, View
from kaput.analysis.runs.encoding import Encoded, encoded
from kaput.analysis.runs.names import Names
from kaput.analysis.runs.run import Ints, whole_us
from kaput.analysis.runs.tables import TableRows, Unit, read, together
from kaput.analysis.views.known import Known

_TOGETHER_ROWS = 100_000


@dataclass(frozen=True)
class Rows:
    """A row group of one `table`, as runs and arrays of values per row (runs/encoding.py)."""

    table: str
    coded: Encoded
    known: Known
    cases: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The runs, by the name of their table."""
        return {self.table: self.coded.runs}

    @cached_property
    def acked(self) -> Encoded:
        """The acknowledged sends."""
        return self.coded.where(ACKED)

    @cached_property
    def acked_us(self) -> Ints:
        """The latency of each of them in whole microseconds, rounded towards zero."""
        return whole_us(self.acked.rows["dones"] - self.acked.rows["attempts"])

    @cached_property
    def graded(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """GRADES and LONGEST of the acknowledgements' latencies, by step (engine/steps.py)."""
        return steps.graded("acked", self.acked.rows["dones"], self.acked_us, self.known.step_ns)


def tables(units: Iterable[Unit], names: Names) -> Iterator[TableRows]:
    """Each row group; small ones of a table together, because what follows costs the same for any size."""
    for _, units_of_table in groupby(units, lambda unit: unit.table):
        waiting: list[TableRows] = []
        for unit in units_of_table:
            if waiting and sum(rows.frame.height for rows in waiting) + unit.rows > _TOGETHER_ROWS:
                yield together(waiting)
                waiting = []
            waiting.append(read(unit, names))
        yield together(waiting)


def encode(
    every: Iterable[TableRows],
    known: Known,
    questions: Sequence[Question],
    pack: Pack = to_bytes,
) -> Iterator[tuple[int, Piece]]:
    """Runs one task on rows of tables: yields pieces with the part they go to, and finally what questions
    found.
    """
    sums, clock = [], CpuClock()
    for rows in every:
        clock.lap("rows", "reading Parquet")
        coded = encoded(rows, known.events)
        clock.lap("rows", "encoding as runs")
        of_rows = ask(questions, "rows", Rows(rows.table, coded, known), known.parts, clock)
        assert not of_rows.shown, "cases cannot be found in rows: their examples would be lost"
        sums.append(of_rows.sums)
        yield from _pieces(coded, known, pack)
        clock.lap("rows", "passing runs on")
    if sums:
        found = TaskFinds(total(sums, kinds(questions)), cpu=clock.spent)
        yield known.parts.sums, Piece("sums", pickle.dumps(found))


def _pieces(coded: Encoded, known: Known, pack: Pack) -> Iterator[tuple[int, Piece]]:
    """What the tasks of messages and of places get."""
    small = pack is to_bytes  # a file may be larger
    message = known.parts.message(pl.col("producer"), pl.col("block"))
    place = known.parts.place(pl.col("place"))
    for view, part, count in (
        (View.MESSAGES, message, known.parts.messages),
        (View.PLACES, place, known.parts.places),
    ):
        if ENCODINGS[coded.table].of(view):
            yield from by_part(coded.of(view, small), part, count, coded.table, pack)


@dataclass(frozen=True)
class Sends:
    """Stage sends: the `rows` of a row group again, for questions that need facts about the whole run."""

    rows: pl.DataFrame
    cases: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The rows, by the name of their table."""
        return {"sends": self.rows}


def scan(units: Iterable[Unit], known: Known, questions: Sequence[Question]) -> Iterator[TaskFinds]:
    """Runs one task: yields the finds of each row group."""
    for unit in units:
        yield ask(questions, "sends", Sends(read(unit, known.names).whole()), known.parts)
