"""A micro-batch as runs: the sends, log records and deliveries that arrived since the previous one.

Records of the log are encoded in Spark's tasks, with the second of their timestamps; what clients recorded is
encoded where it is read. Not here: the ledger that takes them (ledger.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from kaput.analysis.runs.columns import ENCODINGS, NAMED, InRun, View
from kaput.analysis.runs.encoding import encoded
from kaput.analysis.runs.names import EVENTS, Names
from kaput.analysis.runs.run import encode, in_order
from kaput.analysis.runs.tables import TableRows


def no_runs(table: str) -> pl.DataFrame:
    """The runs of a table that a ledger holds, without rows."""
    return pl.DataFrame(schema=ENCODINGS[table].of(View.LIVE))


def same_and_steps(table: str) -> tuple[list[str], list[str]]:
    """The columns of these runs that are constant within a run, and those that increase by one."""
    mine, steps = ENCODINGS[table].of(View.LIVE), ENCODINGS[table].in_runs(InRun.STEP)
    return [name for name in mine if name not in (*steps, "n")], steps


@dataclass(frozen=True)
class Arrivals:
    """Runs of each table; those of the log may have `at_ns`, the second of their records."""

    sends: pl.DataFrame = field(default_factory=lambda: no_runs("sends"))
    log: pl.DataFrame = field(default_factory=lambda: no_runs("log"))
    deliveries: pl.DataFrame = field(default_factory=lambda: no_runs("deliveries"))

    @property
    def positions(self) -> dict[int, int]:
        """By place, the offset after the last record of the log."""
        ends = self.log.group_by("place").agg((pl.col("offset") + pl.col("n")).max())
        return {place: end for place, end in ends.iter_rows() if place is not None}


def arrivals(
    sends: pl.DataFrame | None = None, log: pl.DataFrame | None = None, deliveries: pl.DataFrame | None = None
) -> Arrivals:
    """The runs of these frames (runs/tables.py); None: no rows of that table arrived."""
    runs: dict[str, pl.DataFrame] = {}
    if sends is not None:
        runs["sends"] = _runs("sends", sends)
    if log is not None:
        runs["log"] = log_runs(log)
    if deliveries is not None:
        runs["deliveries"] = _runs("deliveries", deliveries.filter(NAMED))
    return Arrivals(**runs)


def frame(table: str, rows: pa.Table, names: Names) -> pl.DataFrame:
    """Arriving rows (Arrow, by the evidence contract) with the columns of runs/columns.py, numbers instead of
    names, as runs/tables.py reads them from files. Raises ValueError for an unknown name.
    """
    encoding, arrived = ENCODINGS[table], pl.DataFrame(pl.from_arrow(rows))
    words: Mapping[str, Sequence[str]] = {"topic": names.topics, "group": names.groups}
    arrived = arrived.with_columns(
        _number(name, known) for name, known in words.items() if name in arrived.columns
    )
    arrived = arrived.with_columns(pl.col("partition").cast(pl.Int64))
    arrived = arrived.with_columns(value.alias(name) for name, (value, _) in encoding.computed.items())
    absent = {name: pl.lit(None) for name in encoding.read if name not in arrived.columns}
    if table == "deliveries":
        absent["member"] = pl.lit(0)  # the live ledger does not have members
    return arrived.with_columns(**absent).select(
        pl.col(name).cast(encoding.columns[name].type) for name in encoding.read
    )


def _number(name: str, words: Sequence[str]) -> pl.Expr:
    """The position of each word."""
    positions = {word: at for at, word in enumerate(words)}
    # replace_strict refuses unknown words with an InvalidOperationError, which is a ValueError here.
    return pl.col(name).cast(pl.String).replace_strict(positions, return_dtype=pl.Int64)


def _runs(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    return encoded(TableRows(table, rows), pl.DataFrame(schema=EVENTS)).of(View.LIVE)


def log_runs(log: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Runs of the log, in which the columns `more` are constant, too."""
    frame = in_order(log, ("place", "offset")).with_columns(pl.col("visible").fill_null(True))
    same, steps = same_and_steps("log")
    return encode(frame, (*same, *more), steps=steps).select(*ENCODINGS["log"].of(View.LIVE), *more)
