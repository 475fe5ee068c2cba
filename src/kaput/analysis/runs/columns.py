"""Every column of runs, declared once: its source, what becomes of it when a run is cut, and who gets it.

What is read (tables.py), encoded (encoding.py), cut (cutting.py), sent to the tasks of messages and of places
(views/rows.py), what these have without rows, and the live ledger (streaming/) follow from ENCODINGS. Also
here: common expressions on these columns. Not here: what a run is (run.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

import polars as pl

from kaput.analysis.runs.names import SHIFT
from kaput.scenario.vocabulary import OUTCOMES, TRANSACTION_OUTCOMES


class InRun(Enum):
    """What a column is within a run, and so what becomes of it when the run is cut."""

    SAME = auto()  # equal in all rows: each part has the value
    STEP = auto()  # increases by one from row to row: moves with the beginning of a part
    EACH = auto()  # any value in each row: an array, which the column `row` indexes
    ABSENT = auto()  # not a column of runs: others are computed from it


class View(Enum):
    """Who gets a column of runs."""

    MESSAGES = auto()  # the tasks of the stages messages and keys
    PLACES = auto()  # the tasks of the stages stored and places
    LIVE = auto()  # the ledger of a living cluster (streaming/ledger.py)


M, P, L = View.MESSAGES, View.PLACES, View.LIVE
INT, FLAG, TEXT = pl.Int64(), pl.Boolean(), pl.Categorical()


class ColumnEncoding(NamedTuple):
    """`value`: computes it from the `sources`, columns of the evidence contract; without, it is the one of
    its name. `made`: while encoding. `array`: the name of its values per row.
    """

    in_run: InRun
    views: Sequence[View] = ()
    type: pl.DataType = INT
    value: pl.Expr | None = None
    sources: Sequence[str] = ()
    made: bool = False
    array: str = ""


class TableEncoding(NamedTuple):
    """`columns`: of rows and runs. `order`: makes long runs; `strictly`: even for few rows out of order."""

    columns: Mapping[str, ColumnEncoding]
    order: Sequence[str]
    strictly: bool = False

    @property
    def read(self) -> list[str]:
        """The columns of its rows."""
        return [name for name, column in self.columns.items() if not column.made]

    @property
    def computed(self) -> dict[str, tuple[pl.Expr, Sequence[str]]]:
        """The columns of its rows that are computed, with their sources."""
        return {n: (c.value, c.sources) for n, c in self.columns.items() if c.value is not None}

    @property
    def arrays(self) -> dict[str, str]:
        """By array of values per row, its column."""
        return {column.array: name for name, column in self.columns.items() if column.array}

    def in_runs(self, *kinds: InRun) -> list[str]:
        """The columns of its runs that are of these kinds; without any, all, with `n` and `row`."""
        wanted = kinds or (InRun.SAME, InRun.STEP)
        names = [name for name, column in self.columns.items() if column.in_run in wanted]
        return names if kinds else [*names, "n", *(["row"] if self.arrays else [])]

    def of(self, view: View) -> dict[str, pl.DataType]:
        """The columns that a view gets, arrays as lists; empty if it does not get this table."""
        mine = {name: column for name, column in self.columns.items() if view in column.views}
        single = {name: _across_tasks(column.type) for name, column in mine.items() if not column.array}
        arrays = [column.array for column in mine.values() if column.array]
        lists = {name: type_ for array in arrays for name, type_ in _packed(array).items()}
        return {**single, "n": INT, **lists} if single else {}


def _packed(array: str) -> dict[str, pl.DataType]:
    """The columns as which an array is moved between tasks (run.py: kept)."""
    return {array: pl.List(INT), f"{array}_from": INT}


def _across_tasks(type_: pl.DataType) -> pl.DataType:
    return pl.String() if type_ == TEXT else type_  # each task has categories of its own


def _same(*views: View, type: pl.DataType = INT, made: bool = False) -> ColumnEncoding:
    return ColumnEncoding(InRun.SAME, views, type, made=made)


def _step(*views: View, made: bool = False) -> ColumnEncoding:
    return ColumnEncoding(InRun.STEP, views, made=made)


def _each(array: str, view: View) -> ColumnEncoding:
    return ColumnEncoding(InRun.EACH, (view,), array=array)


def _place(*views: View) -> ColumnEncoding:
    return _same(*views)._replace(value=_PLACE, sources=("topic", "partition"))


# A negative number is how clients report one that they do not know: the partition of a message that was not
# acknowledged; the offset with acks=0, and of messages that the broker already had; the leader epoch.
_PLACE = pl.when(pl.col("partition") >= 0).then(pl.col("topic") * SHIFT + pl.col("partition"))
_CLAIMED_OFFSET = pl.when(pl.col("offset") >= 0).then(pl.col("offset"))
_EPOCH = pl.when(pl.col("leader_epoch") >= 0).then(pl.col("leader_epoch"))
_OUTCOMES = pl.Enum(list(dict.fromkeys((*OUTCOMES, *TRANSACTION_OUTCOMES))))
_BLOCK = _same(M, made=True)  # of messages, which go to the same task (encoding.py)

ENCODINGS: dict[str, TableEncoding] = {
    "sends": TableEncoding(
        {
            "producer": _same(M, L),
            "seq": _step(M, L),
            "topic": _same(M, L),
            "place": _place(M, L),
            "offset": _step(M, L)._replace(value=_CLAIMED_OFFSET, sources=("offset",)),
            "outcome": _same(M, L, type=_OUTCOMES),
            "error": _same(M, type=TEXT),
            "attempt_ns": _each("attempts", M),
            "done_ns": _each("dones", M),
            "block": _BLOCK,
        },
        order=("producer", "seq"),
    ),
    "log": TableEncoding(
        {
            "producer": _same(M, P, L),
            "seq": _step(M, P, L),
            "place": _place(M, P, L),
            "offset": _step(M, P, L),
            "epoch": _same(M, P, L)._replace(value=_EPOCH, sources=("leader_epoch",)),
            "intact": _same(M, P, L, type=FLAG),
            "visible": _same(M, P, L, type=FLAG),
            "block": _BLOCK,
        },
        order=("place", "offset"),
    ),
    "deliveries": TableEncoding(
        {
            "group": _same(M, P, L),
            "member": _same(P),
            "producer": _same(M, P, L),
            "seq": _step(M, P, L),
            "topic": _same(P),
            "place": _place(M, P, L),
            "offset": _step(M, P, L),
            "intact": _same(P, type=FLAG),
            "polled_ns": _each("polls", M),
            # See clocks.py.
            **dict.fromkeys(("polled_ns_first", "polled_ns_last"), _same(P, made=True)),
            **dict.fromkeys(("commits", "changes", "assigned_ns", "since_ns"), _same(P, made=True)),
            "owns": _same(P, type=FLAG, made=True),
            "block": _BLOCK,
        },
        order=("group", "member", "polled_ns", "place", "offset", "producer", "seq"),
        strictly=True,
    ),
    "share_events": TableEncoding(
        {
            "group": _same(P),
            "member": _same(P),
            "kind": _same(P),
            "place": _place(P),
            "offset": _step(P),
            "delivery_count": _same(P),
            "at_ns": _same(P),
        },
        order=("group", "member", "kind", "place", "delivery_count", "at_ns", "offset"),
        strictly=True,
    ),
    "transactions": TableEncoding(
        {
            "producer": _same(M),
            "transaction": _same(M),
            "first_seq": _same(M),
            "last_seq": ColumnEncoding(InRun.ABSENT),
            "outcome": ColumnEncoding(InRun.ABSENT, type=_OUTCOMES),
            "error": ColumnEncoding(InRun.ABSENT, type=TEXT),
            # See encoding.py: transactions.
            **dict.fromkeys(("state", "begins"), _same(M, made=True)),
            "whole": _same(M, type=FLAG, made=True),
            "seq": _step(M, made=True),
            "block": _BLOCK,
        },
        order=(),
    ),
    "outputs": TableEncoding(
        {
            "group": _same(M),
            "producer": _same(M),
            "seq": _step(M),
            "place": _place(M),
            "offset": _step(M),
            "block": _BLOCK,
        },
        order=("producer", "seq"),
    ),
    "kept": TableEncoding(
        {
            "producer": _same(M),
            "seq": _step(M),
            "store": _same(M),
            "in_doubt": _same(M, type=FLAG),
            "at_ns": _each("ats", M),
            "block": _BLOCK,
        },
        order=("store", "producer", "seq"),
    ),
    "replayed": TableEncoding(
        {
            "producer": _same(M),
            "seq": _step(M),
            "store": _same(M),
            "topic": _same(M),
            "at_ns": _each("ats", M),
            "block": _BLOCK,
        },
        order=("store", "producer", "seq"),
    ),
    "left_in_store": TableEncoding(
        {"producer": _same(M), "seq": _step(M), "store": _same(M), "block": _BLOCK},
        order=("store", "producer", "seq"),
    ),
}

# Columns that views and questions add to runs, named like those that move: the former do, too; the latter do
# not, or are of single rows.
MOVE_TOO = ("row", "first_offset", "source_offset", "other_seq", "holder_seq")
STAY = ("first_seq", "other_offset", "before_seq", "claimed_offset")
_LIKE_STEPS = ("seq", "offset", "row")


def moving(columns: Iterable[str]) -> list[str]:
    """The columns of runs that move with the beginning of a part when a run is cut. Raises ValueError for a
    column that is named like one of these, but not declared here.
    """
    steps = {name for table in ENCODINGS.values() for name in table.in_runs(InRun.STEP)}
    named_so = [name for name in columns if name.endswith(_LIKE_STEPS)]
    if undeclared := [name for name in named_so if name not in (*steps, *MOVE_TOO, *STAY)]:
        raise ValueError(f"runs/columns.py does not declare whether these columns move: {undeclared}")
    return [name for name in named_so if name not in STAY]


def type_of(name: str) -> pl.DataType:
    """The type of a column of rows. It is the same in all tables; parts of a place, which are in no table's
    columns, are numbers.
    """
    return next((table.columns[name].type for table in ENCODINGS.values() if name in table.columns), INT)


@cache
def empty_tables(view: View) -> Mapping[str, pl.DataFrame]:
    return {
        name: pl.DataFrame(schema=columns) for name, table in ENCODINGS.items() if (columns := table.of(view))
    }


MESSAGE = ["producer", "seq"]
SPOT = ["place", "offset"]
RECORD = [*SPOT, *MESSAGE]
# Messages that were at an offset and no longer are, and when each was attempted and acknowledged.
CLAIMS = ("group", *MESSAGE, "topic", *SPOT, "n", "attempt_ns", "done_ns")
CLAIM_TYPES: Mapping[str, type[pl.DataType]] = dict.fromkeys(CLAIMS, pl.Int64)

COMMITTED, ABORTED, UNKNOWN = range(len(TRANSACTION_OUTCOMES))  # the column `state`
NAMED = pl.col("intact") & pl.col("producer").is_not_null() & pl.col("seq").is_not_null()
ACKED = pl.col("outcome") == "acked"
HAS_OFFSET = pl.col("place").is_not_null() & pl.col("offset").is_not_null()
LOST = ACKED & (pl.col("stored") == 0) & ~pl.col("unread") & ~pl.col("uncommitted")
# Acknowledged, or committed by its transaction: Kafka confirms a commit when all of it is written.
PROMISED = ACKED | ((pl.col("state") == COMMITTED) & (pl.col("outcome") == "unknown"))
# What a group of its topic has to be delivered, as far as is known: stored, visible and not aborted; or the
# partition was not read to its end, and it is acknowledged and not of an uncommitted transaction.
_OUTCOME = pl.col("state").fill_null(COMMITTED)
DUE = ((pl.col("stored") > 0) & (_OUTCOME != ABORTED)) | (ACKED & pl.col("unread") & (_OUTCOME == COMMITTED))
GONE = PROMISED & (pl.col("stored") == 0) & ~pl.col("unread")


OWN_NUMBER, OWN_SEQ, NO_KEY = 0, -1, -2  # instead of a number of keys


def key_of(keys: Mapping[int, int]) -> pl.Expr:
    """The key of a message, as a number; null if it has none, or an unknown one. `keys`: by producer, how
    many it uses in turn, or OWN_NUMBER, OWN_SEQ, NO_KEY.
    """
    count = looked_up(pl.col("producer"), keys, NO_KEY)
    in_turn = pl.when(count > 0).then(pl.col("seq") % count.clip(1))
    return in_turn.when(count == OWN_NUMBER).then("producer").when(count == OWN_SEQ).then("seq")


def looked_up(key: pl.Expr, values: Mapping[int, int], default: int | None = None) -> pl.Expr:
    """The value of each key; `default` of the others."""
    return key.replace_strict(dict(values), default=default, return_dtype=pl.Int64)


def none(*columns: str) -> pl.DataFrame:
    """A frame without rows, with these integer columns."""
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
