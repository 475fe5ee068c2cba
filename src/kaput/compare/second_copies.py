"""Records that were mirrored again: what a mirror says of offsets may mean the second copy of a record.

A mirror that is killed copies again what it had not committed, and goes on from the second copies. Matching
takes the first copy (matching.py), so that a pair of offsets with the second one needs a look of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from kaput.compare.matching import TARGET

_CONTENT = ["key", "value"]


def with_second_copies(
    claims: pl.DataFrame, sources: Mapping[int, Path], left: Sequence[Path]
) -> pl.DataFrame:
    """`claims` (positions.CLAIMS) with `again`: the target's record is a surplus copy of the source's one.

    `sources`: what was read of the source, by pair; `left`: the rows that matched nothing.
    """
    if claims.is_empty() or not left:
        return claims.with_columns(again=pl.lit(False))
    copies = (
        pl.scan_parquet(list(left), glob=False)
        .filter(pl.col("side") == TARGET, pl.col("copy"))
        .select("pair", *_CONTENT, target="offset")
    )
    # Few or none: what was read of the source is looked at only where there are some.
    named = claims.lazy().join(copies, on=["pair", "target"], how="inner").collect()
    by_pair = named.partition_by("pair", as_dict=True)
    same = [_same(mine, sources[pair]) for (pair,), mine in by_pair.items()]
    found = pl.concat([named.clear(), *same]).select(*claims.columns, again=pl.lit(True))
    return claims.join(found, on=claims.columns, how="left", maintain_order="left").with_columns(
        pl.col("again").fill_null(False)
    )


def _same(named: pl.DataFrame, source: Path) -> pl.DataFrame:
    """Those of the claims on one pair whose copy has the content of the source's record."""
    records = pl.scan_parquet(source).select(*_CONTENT, source="offset")
    return named.lazy().join(records, on=["source", *_CONTENT], how="semi").collect()
