"""The ledger on disk: the fate of every message, one row per stretch of messages of one producer with the
same fate, or one row per message.

Stretches are maximal: seq, and acknowledged and stored offsets, each increase by one from message to message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question
from kaput.analysis.engine.tables import write
from kaput.analysis.run import Run
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.names import Names, topic_partition
from kaput.analysis.runs.run import Ints, nullable
from kaput.analysis.views.messages import Messages
from kaput.scenario.vocabulary import LedgerRows

_TIMES = ("attempt_ns_first", "attempt_ns_last", "done_ns_first", "done_ns_last")
_ROW_GROUP_ROWS = 250_000


@dataclass(frozen=True)
class LedgerTable(Question):
    """Finds nothing, but writes the ledger to `directory`. `rows`: what it has a row for."""

    directory: str = ""
    rows: LedgerRows = "none"

    def before_messages(self, run: Run) -> LedgerTable:
        directory = str(run.given.evidence.folder.analysis.resolve() / "ledger")
        return replace(self, directory=directory, rows=run.ledger)

    def of_messages(self, messages: Messages) -> Iterator[Find]:
        """Writes the stretches of one task. Raises OSError."""
        stretches, names = messages.stretches, messages.known.names
        if self.rows == "stretches" and stretches.height:
            write(_stretches(stretches, names), self.directory, messages.part)
        elif self.rows == "messages" and stretches.height:
            pieces = (_messages(few, messages.times, names) for few in _in_pieces(stretches))
            write(pieces, self.directory, messages.part)
        yield from ()


def write_empty(names: Names, directory: str, rows: LedgerRows) -> None:
    groups = {f"delivered_{group}": pl.Int64 for group in range(len(names.groups))}
    numbers = ("producer", "topic", "place", "stored", "epoch", "seq", "offset", "first_offset", "n", "row")
    schema = dict.fromkeys([*numbers, *_TIMES], pl.Int64) | {"outcome": pl.String, "error": pl.String}
    flags = dict.fromkeys(("unread", "uncommitted"), pl.Boolean)
    none = pl.DataFrame(schema={**schema, **flags, **groups})
    times = dict.fromkeys(("attempts", "dones"), np.empty(0, np.int64))
    write(_stretches(none, names) if rows == "stretches" else _messages(none, times, names), directory, 0)


def _stretches(stretches: pl.DataFrame, names: Names) -> pl.DataFrame:
    groups = [f"delivered_{group}" for group in range(len(names.groups))]
    facts = ("outcome", "error", "stored", "epoch", "unread", "uncommitted")
    fate_columns = ["producer", "topic", "place", *facts, *groups]
    parts = stretches.sort("producer", "seq")
    changes = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in fate_columns]
    previous_n = pl.col("n").shift(1)
    changes += [
        pl.col(name).ne_missing(pl.col(name).shift(1) + previous_n)
        for name in ("seq", "offset", "first_offset")
    ]
    whole = (
        parts.with_columns(new=pl.any_horizontal(changes).cum_sum())
        .group_by("new", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in (*fate_columns, "seq", "offset", "first_offset")),
            pl.col("n").sum(),
            *(pl.col(name).min() for name in _TIMES if name.endswith("first")),
            *(pl.col(name).max() for name in _TIMES if name.endswith("last")),
        )
    )
    return whole.select(
        pl.col("producer").cast(pl.Int32),
        pl.col("seq").alias("seq_first"),
        (pl.col("seq") + pl.col("n") - 1).alias("seq_last"),
        pl.col("n").alias("messages"),
        *topic_partition(names),
        pl.col("outcome").cast(pl.String),
        "error",
        pl.col("offset").alias("offset_first"),
        pl.col("stored").cast(pl.Int32),
        pl.col("first_offset").alias("stored_offset_first"),
        *_in_the_log(names),
        *_TIMES,
    )


def _messages(stretches: pl.DataFrame, times: Mapping[str, Ints], names: Names) -> pl.DataFrame:
    rows = single(stretches)
    at = rows["row"].to_numpy()
    return rows.select(
        pl.col("producer").cast(pl.Int32),
        "seq",
        *topic_partition(names),
        pl.Series("attempt_ns", times["attempts"][at], pl.Int64),
        nullable("done_ns", times["dones"][at]),
        pl.col("outcome").cast(pl.String),
        "offset",
        "error",
        pl.col("stored").cast(pl.Int32),
        "first_offset",
        *_in_the_log(names),
    )


def _in_the_log(names: Names) -> list[pl.Expr]:
    """leader_epoch, unread, uncommitted; and, with groups, a struct of the times delivered to each."""
    of_log = [pl.col("epoch").cast(pl.Int32).alias("leader_epoch"), pl.col("unread"), pl.col("uncommitted")]
    groups = [pl.col(f"delivered_{n}").cast(pl.Int32).alias(group) for n, group in enumerate(names.groups)]
    return [*of_log, pl.struct(groups).alias("delivered")] if groups else of_log


def _in_pieces(stretches: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Splits the stretches, sorted by message, into pieces of about one row group each."""
    ordered = stretches.sort("producer", "seq")
    piece = (ordered["n"].cum_sum() - ordered["n"]) // _ROW_GROUP_ROWS
    yield from ordered.with_columns(piece=piece).partition_by("piece", maintain_order=True, include_key=False)
