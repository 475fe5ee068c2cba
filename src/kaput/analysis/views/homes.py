"""With several clusters: which copies of a message are at home, and which are mirrored.

A message's home is the topic that it was sent to; if it was not acknowledged but a replay stored it, the
topic that the replay sent it to. Copies in the home's cluster are its own, all others are mirrored. A mirror
to the home's cluster may bring copies back: if a message has copies in that mirror's source, every copy at
home except the first is looped. The first is the one in the home's topic, then a visible one, then by offset.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kaput.analysis.runs.names import SHIFT, Homes
from kaput.analysis.runs.run import Ints

ALL_AT_HOME = {"home": pl.lit(True), "looped": pl.lit(False)}
# Of copies: mirrored and visible. Copies in a mirror's aborted transactions are not visible.
IS_MIRRORED = ~pl.col("home") & ~pl.col("looped") & pl.col("visible")


def home_topics(stretches: pl.DataFrame, replayed: pl.DataFrame | None, size: int) -> Ints:
    """By part, the number of its home's topic; -1 if it was never sent."""
    found = np.full(size, -1)
    found[stretches["part"].to_numpy()] = stretches["topic"].to_numpy()
    if replayed is not None and replayed.height:
        # A replay does not move the home of a message that was acknowledged to its producer.
        own = stretches.filter(pl.col("outcome") != "acked")["part"].to_numpy()
        moved = replayed.sort("topic")
        part, topic = moved["part"].to_numpy(), moved["topic"].to_numpy()
        not_acked = np.isin(part, own)
        found[part[not_acked]] = topic[not_acked]
    return found


def at_home(copies: pl.DataFrame, topics: Ints, homes: Homes) -> pl.DataFrame:
    """The copies with `home` and `looped`. `topics`: home_topics. Phantoms are at home anywhere."""
    part, topic = copies["part"].to_numpy(), copies["place"].to_numpy() // SHIFT
    own = topics[part]
    cluster = homes.clusters[topic]
    home = (own == -1) | (cluster == homes.clusters[own])
    returned = np.zeros(len(part), bool)
    for source, target in homes.mirrors:
        there = np.zeros(len(topics), bool)
        there[part[cluster == source]] = True
        returned |= home & (own != -1) & (cluster == target) & there[part]
    looped = returned & ~_first(copies, home, topic != own)
    flags = {"home": home & ~looped, "looped": looped}
    return copies.with_columns(pl.Series(name, values, pl.Boolean) for name, values in flags.items())


def _first(copies: pl.DataFrame, home: Ints, elsewhere: Ints) -> Ints:
    """Whether each copy is the first of its part at home."""
    rows = copies.select("part", "place", "offset", hidden=~pl.col("visible")).with_columns(
        pl.Series("elsewhere", elsewhere, pl.Boolean), line=pl.int_range(pl.len())
    )
    order = ["part", "elsewhere", "hidden", "offset", "place"]
    chosen = rows.filter(pl.Series(home)).sort(order).unique("part", keep="first")["line"]
    first = np.zeros(copies.height, bool)
    first[chosen.to_numpy()] = True
    return first
