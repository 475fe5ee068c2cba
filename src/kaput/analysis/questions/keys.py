"""What became of keys in a topic that was resized.

A key moved: its messages are stored in more than one partition. A message is out of order by key: it was
delivered to a group for the first time after a later message of its producer with its key had been.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from kaput.analysis.runs.run import Ints, numbers, spread

_KEY = ("group", "producer", "key")
_NEVER = 2**63 - 1


def stored(log: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """(place, key, n): where records of each key are. `log`: those with an identity; `keys`: see `_keyed`."""
    return _keyed(log, keys).group_by("place", "key").agg(n=pl.len().cast(pl.Int64))


def first_deliveries(deliveries: pl.DataFrame, polls: Ints, keys: Mapping[int, int]) -> pl.DataFrame:
    """(group, producer, key, block, seq, at_ns): when each message was delivered first."""
    rows = _keyed(deliveries, keys)
    every = rows.with_columns(at_ns=pl.Series(polls[rows["row"].to_numpy()], dtype=pl.Int64))
    return every.group_by(*_KEY, "block", "seq").agg(pl.col("at_ns").min())


def earliest(first: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, key, block, at_ns): the earliest first delivery in each block."""
    return first.group_by(*_KEY, "block").agg(pl.col("at_ns").min())


def later(mins: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, key, block, later_ns): the earliest first delivery in all later blocks; none of
    the last block. `mins`: of `earliest`.
    """
    down = mins.sort("block", descending=True)
    after = down.with_columns(later_ns=pl.col("at_ns").cum_min().shift(1).over(_KEY))
    return after.select(*_KEY, "block", "later_ns").drop_nulls()


def out_of_order(first: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """(group, producer, n): messages out of order by key. `after`: see `later`."""
    down = first.sort("seq", descending=True)
    within = pl.col("at_ns").cum_min().shift(1).over(*_KEY, "block").fill_null(_NEVER)
    beside = down.with_columns(within=within).join(
        after, on=[*_KEY, "block"], how="left", maintain_order="left"
    )
    overtaken = pl.col("at_ns") > pl.min_horizontal("within", pl.col("later_ns").fill_null(_NEVER))
    return beside.filter(overtaken).group_by("group", "producer").agg(n=pl.len().cast(pl.Int64))


def _keyed(runs: pl.DataFrame, keys: Mapping[int, int]) -> pl.DataFrame:
    """A row for each record of the producers that give keys, with its key. `keys`: by producer, how many it
    goes through (message `seq` has the key seq modulo that), or 0: its own number is its only key.
    """
    mine = runs.filter(pl.col("producer").is_in(sorted(keys)))
    n = mine["n"].to_numpy()
    at = np.repeat(np.arange(mine.height), n)
    columns = ("group", "producer", "place", "block")
    rows = mine.select(name for name in columns if name in mine.columns)[at].with_columns(
        pl.Series(name, spread(numbers(mine[name]), n), pl.Int64) for name in ("seq", "row") if name in mine
    )
    many = pl.col("producer").replace_strict(keys, return_dtype=pl.Int64)
    return rows.with_columns(key=pl.when(many > 0).then(pl.col("seq") % many).otherwise("producer"))
