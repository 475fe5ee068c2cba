"""Tables that the analysis leaves in RUN_DIR/analysis, as Parquet.

A file is complete under its name before anybody can see it, and a task that is run again writes the same one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq


def write(table: pl.DataFrame, directory: str, part: int) -> None:
    """One task's file of one table. Raises OSError."""
    write_all([table], directory, part)


def write_all(frames: Iterable[pl.DataFrame], directory: str, part: int) -> None:
    """The same of a table that comes piece by piece. Raises OSError."""
    path = Path(directory) / f"part-{part:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    writer = None
    try:
        for frame in frames:
            table = _plain(frame.to_arrow())
            writer = writer or pq.ParquetWriter(unfinished, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _plain(table: pa.Table) -> pa.Table:
    """With the plain text type, which every reader has."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
