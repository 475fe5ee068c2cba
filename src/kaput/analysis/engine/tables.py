"""Writes the tables of RUN_DIR/analysis as Parquet.

A file gets its name only when it is complete, and a repeated task writes the same file again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.evidence.folder import replacing


def write(frames: pl.DataFrame | Iterable[pl.DataFrame], directory: str, part: int) -> None:
    """Writes one task's file of a table from a frame, or from several ones. Raises OSError."""
    path = Path(directory) / f"part-{part:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = (_plain(one.to_arrow()) for one in ([frames] if isinstance(frames, pl.DataFrame) else frames))
    first = next(tables, None)
    if first is None:
        return
    with replacing(path) as new, pq.ParquetWriter(new, first.schema, compression="zstd") as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _plain(table: pa.Table) -> pa.Table:
    """Converts large strings to plain ones, which every reader supports."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
