"""Records that were mirrored again: what a mirror says of offsets may mean the second copy of a record.

A mirror that is killed copies again what it had not committed, and goes on from the second copies. Matching
takes the first copy (matching.py), so that a pair of offsets with the second one needs a look of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from kaput.compare.matching import TARGET

_BY = ["pair", "key", "value"]


def with_second_copies(
    claims: pl.DataFrame, sources: Mapping[int, Path], left: Sequence[Path]
) -> pl.DataFrame:
    """`claims` (positions.CLAIMS) with `again`: the target's record is a surplus copy of the source's one.

    `sources`: what was read of the source, by pair; `left`: the rows that matched nothing.
    """
    if claims.is_empty() or not left:
        return claims.with_columns(again=pl.lit(False))
    wanted = [
        _records(pl.scan_parquet(path).with_columns(pair=pl.lit(pair, pl.Int32)), claims, pair)
        for pair, path in sources.items()
        if pair in claims["pair"]
    ]
    copies = (
        pl.scan_parquet(list(left), glob=False)
        .filter(pl.col("side") == TARGET, pl.col("copy"))
        .select(*_BY, target="offset", again=pl.lit(True))
    )
    found = (
        pl.concat(wanted)
        .join(copies, on=[*_BY, "target"], how="inner")
        .select("pair", "source", "target", "again")
    )
    return claims.join(
        found.collect(), on=["pair", "source", "target"], how="left", maintain_order="left"
    ).with_columns(pl.col("again").fill_null(False))


def _records(rows: pl.LazyFrame, claims: pl.DataFrame, pair: int) -> pl.LazyFrame:
    """The claimed records of a pair as the source has them, each with the offset in the target claimed."""
    mine = claims.lazy().filter(pl.col("pair") == pair)
    return mine.join(rows.select(*_BY, source="offset"), on=["pair", "source"], how="inner")
