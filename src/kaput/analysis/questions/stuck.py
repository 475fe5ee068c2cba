"""stuck: messages that a group waited for until a fault of brokers was healed: acknowledged at least GRACE_NS
before the heal, at offsets that the group had not committed at the heal, and stored after the group began. By
the producers' acknowledgements and the members' own commits.

A group that goes on reading has none: 5 s is ten times as long as its members go without a commit. How far
groups had come is found on the driver (together/after_encoding.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from kaput.analysis.questions.messages import ACKED, HAS_OFFSET
from kaput.analysis.runs.run import NULL, Ints, numbers, spread
from kaput.analysis.sums import Sum

GRACE_NS = 5_000_000_000
# For a fault (by its number), a group and a partition: acknowledged by `until_ns`, at `offset` or above;
# where that is below `all_from`, only what was attempted from `after_ns` on.
WAITING: Mapping[str, type[pl.DataType]] = dict.fromkeys(
    ("fault", "group", "place", "until_ns", "offset", "all_from", "after_ns"), pl.Int64
)
STUCK = Sum(("fault", "group", "place"), ("n",), (), ("end",))


def none() -> pl.DataFrame:
    """Nothing is waited for."""
    return pl.DataFrame(schema=WAITING)


def stuck(stretches: pl.DataFrame, waiting: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    """STUCK: how many messages, and the offset after the last of them. `times`: see vanished."""
    own = stretches.filter(ACKED & HAS_OFFSET).select("place", "row", "n", "done_ns_first", begin="offset")
    # One after the other: a group that commits nothing waits for every message at each of many heals.
    found = [_of_one(own, rows, times) for rows in waiting.partition_by("fault", "group")]
    return STUCK.of(pl.concat([_of_one(own.clear(), waiting.clear(), times), *found]))


def _of_one(own: pl.DataFrame, waiting: pl.DataFrame, times: Mapping[str, Ints]) -> pl.DataFrame:
    last = pl.col("begin") + pl.col("n")
    known = own.join(waiting, on="place").filter(
        (last > pl.col("offset")) & (pl.col("done_ns_first") <= pl.col("until_ns"))
    )
    below = known.select((pl.col("offset") - pl.col("begin")).clip(0)).to_series().to_numpy()
    n = known["n"].to_numpy() - below
    line = np.repeat(np.arange(known.height), n)
    rows = spread(known["row"].to_numpy() + below, n)
    offsets = spread(known["begin"].to_numpy() + below, n)
    done, attempt = times["dones"][rows], times["attempts"][rows]
    until, all_from, after = (numbers(known[name])[line] for name in ("until_ns", "all_from", "after_ns"))
    waits = (done != NULL) & (done <= until) & ((offsets >= all_from) | (attempt >= after))
    found = known.select("fault", "group", "place")[line[waits]]
    ends = pl.Series(offsets[waits] + 1, dtype=pl.Int64)
    return STUCK.of(found.with_columns(n=pl.lit(1, pl.Int64), end=ends))
