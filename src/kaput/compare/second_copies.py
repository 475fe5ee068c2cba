"""Finds offset syncs that refer to the second copy of a record.

A killed mirror copies again what it had not committed, and continues from the second copies. Matching uses
the first copy (matching.py), so offset syncs with the second copy are checked here.
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
    """`claims` (positions.CLAIMS) with `again`: whether the target's record is a surplus copy of the
    source's.

    `sources`: the source's rows by pair; `left`: the unmatched rows.
    """
    if claims.is_empty() or not left:
        return claims.with_columns(again=pl.lit(False))
    copies = (
        pl.scan_parquet(list(left), glob=False)
        .filter(pl.col("side") == TARGET, pl.col("copy"))
        .select("pair", *_CONTENT, target="offset")
    )
    # There are few or none: the source's rows are only read if there are some.
    named = claims.lazy().join(copies, on=["pair", "target"], how="inner").collect()
    by_pair = named.partition_by("pair", as_dict=True)
    same = [_same(mine, sources[pair]) for (pair,), mine in by_pair.items()]
    found = pl.concat([named.clear(), *same]).select(*claims.columns, again=pl.lit(True))
    return claims.join(found, on=claims.columns, how="left", maintain_order="left").with_columns(
        pl.col("again").fill_null(False)
    )


def _same(named: pl.DataFrame, source: Path) -> pl.DataFrame:
    """The claims of one pair whose copy has the content of the source's record."""
    records = pl.scan_parquet(source).select(*_CONTENT, source="offset")
    return named.lazy().join(records, on=["source", *_CONTENT], how="semi").collect()
