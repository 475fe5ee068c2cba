"""Converts arriving rows (Arrow, by the contract of evidence/schemas.py) to the frames that runs are made of.

The same columns as runs/tables.py reads from Parquet files. Not here: encoding as runs (arrivals.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from kaput.analysis.runs.names import Names
from kaput.analysis.runs.tables import CLAIMED, EPOCH, FRAMES, PLACE, type_of


def frame(table: str, rows: pa.Table, names: Names) -> pl.DataFrame:
    """The rows of a table with numbers instead of names. Raises ValueError for an unknown name."""
    found = pl.DataFrame(pl.from_arrow(rows))
    words: Mapping[str, Sequence[str]] = {"topic": names.topics, "group": names.groups}
    found = found.with_columns(_number(name, known) for name, known in words.items() if name in found.columns)
    found = found.with_columns(pl.col("partition").cast(pl.Int64)).with_columns(place=PLACE)
    if table == "deliveries":
        found = found.with_columns(member=pl.lit(0))  # no question here needs members
    if table == "sends":
        found = found.with_columns(CLAIMED)
    if table == "log":
        found = found.with_columns(epoch=EPOCH)
        if "visible" not in found.columns:
            found = found.with_columns(visible=pl.lit(None, pl.Boolean))
    return found.select(pl.col(name).cast(type_of(name)) for name in FRAMES[table])


def _number(name: str, words: Sequence[str]) -> pl.Expr:
    """The position of each word."""
    positions = {word: at for at, word in enumerate(words)}
    # replace_strict refuses unknown words with an InvalidOperationError, which is a ValueError here.
    return pl.col(name).cast(pl.String).replace_strict(positions, return_dtype=pl.Int64)
