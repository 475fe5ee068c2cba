"""Of several clusters, which copies of a message are at home, and which are a mirror's.

A message's home is the topic that it was sent to; of what was not acknowledged and a replay stored, the topic
that the replay sent it to. Copies in the home's cluster are its own, all others are mirrored. A mirror that
leads home may bring some back: where a message has copies in that mirror's source, every copy at home but the
first is looped (the first: in the home's topic before others, then what is visible, then by offset).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kaput.analysis.runs.names import SHIFT, Homes
from kaput.analysis.runs.run import Ints

ALL_AT_HOME = {"home": pl.lit(True), "looped": pl.lit(False)}
# Of copies: a mirrored one that readers are given; what a mirror's aborted transaction copied, nobody is.
IS_MIRRORED = ~pl.col("home") & ~pl.col("looped") & pl.col("visible")


def home_topics(stretches: pl.DataFrame, replayed: pl.DataFrame | None, size: int) -> Ints:
    """By part, the number of its home's topic; -1 for what was never sent."""
    found = np.full(size, -1)
    found[stretches["part"].to_numpy()] = stretches["topic"].to_numpy()
    if replayed is not None and replayed.height:
        # What was acknowledged to its producer was at home before.
        own = stretches.filter(pl.col("outcome") != "acked")["part"].to_numpy()
        moved = replayed.sort("topic")
        part, topic = moved["part"].to_numpy(), moved["topic"].to_numpy()
        mine = np.isin(part, own)
        found[part[mine]] = topic[mine]
    return found


def at_home(copies: pl.DataFrame, topics: Ints, homes: Homes) -> pl.DataFrame:
    """The copies with `home` and `looped`. `topics`: home_topics. What was never sent is at home anywhere."""
    part, topic = copies["part"].to_numpy(), copies["place"].to_numpy() // SHIFT
    own = topics[part]
    cluster = homes.clusters[topic]
    home = (own == -1) | (cluster == homes.clusters[own])
    back = np.zeros(len(part), bool)
    for source, target in homes.mirrors:
        there = np.zeros(len(topics), bool)
        there[part[cluster == source]] = True
        back |= home & (own != -1) & (cluster == target) & there[part]
    looped = back & ~_first(copies, home, topic != own)
    flags = {"home": home & ~looped, "looped": looped}
    return copies.with_columns(pl.Series(name, values, pl.Boolean) for name, values in flags.items())


def _first(copies: pl.DataFrame, home: Ints, elsewhere: Ints) -> Ints:
    """Which copies are the first of their parts at home."""
    rows = copies.select("part", "place", "offset", hidden=~pl.col("visible")).with_columns(
        pl.Series("elsewhere", elsewhere, pl.Boolean), line=pl.int_range(pl.len())
    )
    order = ["part", "elsewhere", "hidden", "offset", "place"]
    chosen = rows.filter(pl.Series(home)).sort(order).unique("part", keep="first")["line"]
    first = np.zeros(copies.height, bool)
    first[chosen.to_numpy()] = True
    return first
