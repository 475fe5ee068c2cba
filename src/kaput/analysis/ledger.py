"""The ledger on disk: what became of every message, a row for each stretch of messages of one producer that
had the same fate, or for each message.

A stretch is as long as can be: its messages follow each other by seq, and their offsets, acknowledged and
stored, by one. A file is complete under its name before anybody can see it, and a task that is run again
writes the same one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.analysis.names import Names, topic_partition
from kaput.analysis.runs.cutting import single
from kaput.analysis.runs.run import NULL, Ints

if TYPE_CHECKING:
    from kaput.evidence.folder import LedgerRows

_TIMES = ("attempt_ns_first", "attempt_ns_last", "done_ns_first", "done_ns_last")
_ROW_GROUP_ROWS = 250_000


def write_part(
    stretches: pl.DataFrame,
    times: Mapping[str, Ints],
    names: Names,
    directory: str,
    part: int,
    rows: LedgerRows,
) -> None:
    """One task's stretches, which have _TIMES and whose `row` points into the times attempts and dones.

    Raises OSError.
    """
    if rows == "stretches" and stretches.height:
        write(_stretches(stretches, names), directory, part)
    elif rows == "messages" and stretches.height:
        pieces = (_messages(few, times, names) for few in _in_pieces(stretches))
        _write(pieces, directory, part)


def write_empty(names: Names, directory: str, rows: LedgerRows) -> None:
    """A ledger of no messages. Raises OSError."""
    groups = {f"delivered_{group}": pl.Int64 for group in range(len(names.groups))}
    numbers = ("producer", "topic", "place", "stored", "epoch", "seq", "offset", "first_offset", "n", "row")
    schema = dict.fromkeys([*numbers, *_TIMES], pl.Int64) | {"outcome": pl.String, "error": pl.String}
    flags = dict.fromkeys(("unread", "uncommitted"), pl.Boolean)
    none = pl.DataFrame(schema={**schema, **flags, **groups})
    times = dict.fromkeys(("attempts", "dones"), np.empty(0, np.int64))
    write(_stretches(none, names) if rows == "stretches" else _messages(none, times, names), directory, 0)


def write(table: pl.DataFrame, directory: str, part: int) -> None:
    """One task's file of one table. Raises OSError."""
    _write([table], directory, part)


def _write(frames: Iterable[pl.DataFrame], directory: str, part: int) -> None:
    path = Path(directory) / f"part-{part:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    writer = None
    try:
        for frame in frames:
            table = _plain(frame.to_arrow())
            writer = writer or pq.ParquetWriter(beside, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _plain(table: pa.Table) -> pa.Table:
    """With the plain text type, which every reader has."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _stretches(stretches: pl.DataFrame, names: Names) -> pl.DataFrame:
    groups = [f"delivered_{group}" for group in range(len(names.groups))]
    told = ("outcome", "error", "stored", "epoch", "unread", "uncommitted")
    same = ["producer", "topic", "place", *told, *groups]
    parts = stretches.sort("producer", "seq")
    changes = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in same]
    goes_on = pl.col("n").shift(1)
    changes += [
        pl.col(name).ne_missing(pl.col(name).shift(1) + goes_on) for name in ("seq", "offset", "first_offset")
    ]
    whole = (
        parts.with_columns(new=pl.any_horizontal(changes).cum_sum())
        .group_by("new", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in (*same, "seq", "offset", "first_offset")),
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
        pl.col("epoch").cast(pl.Int32).alias("leader_epoch"),
        "unread",
        "uncommitted",
        *_delivered(names),
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
        pl.Series("done_ns", times["dones"][at], pl.Int64).replace(NULL, None),
        pl.col("outcome").cast(pl.String),
        "offset",
        "error",
        pl.col("stored").cast(pl.Int32),
        "first_offset",
        pl.col("epoch").cast(pl.Int32).alias("leader_epoch"),
        "unread",
        "uncommitted",
        *_delivered(names),
    )


def _delivered(names: Names) -> list[pl.Expr]:
    """A field for each group: how often they were delivered to it."""
    groups = [pl.col(f"delivered_{n}").cast(pl.Int32).alias(group) for n, group in enumerate(names.groups)]
    return [pl.struct(groups).alias("delivered")] if groups else []


def _in_pieces(stretches: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The stretches in the order of messages, no more at a time than make a row group."""
    ordered = stretches.sort("producer", "seq")
    piece = (ordered["n"].cum_sum() - ordered["n"]) // _ROW_GROUP_ROWS
    yield from ordered.with_columns(piece=piece).partition_by("piece", maintain_order=True, include_key=False)
