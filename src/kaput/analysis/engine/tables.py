"""Writes the tables of RUN_DIR/analysis as Parquet.

A file gets its name only when it is complete, and a repeated task writes the same file again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq


def write(frames: pl.DataFrame | Iterable[pl.DataFrame], directory: str, part: int) -> None:
    """Writes one task's file of a table from a frame, or from several ones. Raises OSError."""
    path = Path(directory) / f"part-{part:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    writer = None
    try:
        for frame in [frames] if isinstance(frames, pl.DataFrame) else frames:
            table = _plain(frame.to_arrow())
            writer = writer or pq.ParquetWriter(unfinished, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _plain(table: pa.Table) -> pa.Table:
    """Converts large strings to plain ones, which every reader supports."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
