"""Stage rows: encodes row groups as runs, and sends these to the tasks of their messages and of their places.

On the way it asks the questions that need only single rows: counts, times, durations. Not here: the encoding
(runs/encoding.py).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.engine.asking import ask, kinds
from kaput.analysis.engine.pieces import Piece, by_part
from kaput.analysis.engine.question import Question
from kaput.analysis.engine.sums import total
from kaput.analysis.runs import encoding
from kaput.analysis.runs.columns import ACKED, NAMED
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.names import EVENTS
from kaput.analysis.runs.run import Ints, whole_us
from kaput.analysis.runs.tables import Rows as TableRows
from kaput.analysis.runs.tables import Unit, empty, read
from kaput.analysis.views.known import Known
from kaput.evidence.reading import STORE_TABLES

DELIVERED = ("group", "producer", "seq", "place", "offset", "block", "n", "polls", "polls_from")


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


def encode(units: Iterable[Unit], known: Known, questions: Sequence[Question]) -> Iterator[tuple[int, Piece]]:
    """Runs one task: yields pieces with the part they go to, and finally what questions found."""
    yield from encode_rows(((unit.table, read(unit, known.names)) for unit in units), known, questions)


def encode_rows(
    tables: Iterable[tuple[str, TableRows]], known: Known, questions: Sequence[Question]
) -> Iterator[tuple[int, Piece]]:
    """The same for rows that have been read already."""
    found = []
    for table, rows in tables:
        coded = _ENCODE[table](rows, known)
        of_rows = ask(questions, "rows", Rows(table, coded, known), known.parts)
        assert not of_rows.shown, "cases cannot be found in rows: their examples would be lost"
        found.append(of_rows.sums)
        yield from _SPLIT[table](coded, known)
    if found:
        yield known.parts.sums, Piece("sums", pickle.dumps(total(found, kinds(questions))))


@cache
def no_rows() -> Mapping[str, Encoded]:
    """All tables, encoded, without rows.

    Not made on import: Spark forks its workers from a process that has imported this, and forking a process
    in which Polars has run anything deadlocks.
    """
    return {
        "sends": encoding.sends(empty("sends")),
        "log": encoding.log(empty("log")),
        "deliveries": encoding.deliveries(empty("deliveries"), pl.DataFrame(schema=EVENTS)),
        "share_events": encoding.share_events(empty("share_events")),
        "transactions": encoding.transactions(empty("transactions")),
        "outputs": encoding.outputs(empty("outputs")),
        "kept": encoding.in_store(empty("kept"), encoding.KEPT),
        "replayed": encoding.in_store(empty("replayed"), encoding.REPLAYED),
        "left_in_store": encoding.in_store(empty("left_in_store"), encoding.LEFT),
    }


_ENCODE: Mapping[str, Callable[[TableRows, Known], Encoded]] = {
    "sends": lambda rows, known: encoding.sends(rows),
    "log": lambda rows, known: encoding.log(rows),
    "deliveries": lambda rows, known: encoding.deliveries(rows, known.events),
    "share_events": lambda rows, known: encoding.share_events(rows),
    "transactions": lambda rows, known: encoding.transactions(rows),
    "outputs": lambda rows, known: encoding.outputs(rows),
    "kept": lambda rows, known: encoding.in_store(rows, encoding.KEPT),
    "replayed": lambda rows, known: encoding.in_store(rows, encoding.REPLAYED),
    "left_in_store": lambda rows, known: encoding.in_store(rows, encoding.LEFT),
}


def _sends(coded: Encoded, known: Known) -> Iterator[tuple[int, Piece]]:
    yield from by_part(coded.packed(), _message(known), known.parts.messages, "sends")


def _log(coded: Encoded, known: Known) -> Iterator[tuple[int, Piece]]:
    runs = coded.runs
    yield from by_part(runs.filter(NAMED), _message(known), known.parts.messages, "log")
    yield from by_part(runs, known.parts.place(pl.col("place")), known.parts.places, "log")


def _deliveries(coded: Encoded, known: Known) -> Iterator[tuple[int, Piece]]:
    named = coded.packed().filter(NAMED).select(DELIVERED)
    yield from by_part(named, _message(known), known.parts.messages, "deliveries")
    runs = coded.runs.drop("row")
    yield from by_part(runs, known.parts.place(pl.col("place")), known.parts.places, "deliveries")


def _share_events(coded: Encoded, known: Known) -> Iterator[tuple[int, Piece]]:
    yield from by_part(coded.runs, known.parts.place(pl.col("place")), known.parts.places, "share_events")


def _of_messages(table: str) -> Callable[[Encoded, Known], Iterator[tuple[int, Piece]]]:
    """Splits a table that only goes to the tasks of messages."""

    def split(coded: Encoded, known: Known) -> Iterator[tuple[int, Piece]]:
        runs = coded.packed() if coded.rows else coded.runs
        yield from by_part(runs, _message(known), known.parts.messages, table)

    return split


_SPLIT: Mapping[str, Callable[[Encoded, Known], Iterator[tuple[int, Piece]]]] = {
    "sends": _sends,
    "log": _log,
    "deliveries": _deliveries,
    "share_events": _share_events,
    "transactions": _of_messages("transactions"),
    **{table: _of_messages(table) for table in ("outputs", *STORE_TABLES)},
}


def _message(known: Known) -> pl.Expr:
    return known.parts.message(pl.col("producer"), pl.col("block"))
