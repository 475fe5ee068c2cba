"""Matches messages with the log, deliveries, transactions and stores: stretches of messages of one producer
with the same fate.

Every message (a producer's seq) has one row in sends; the log may have copies, members of groups may have
received some, and it may be in a transaction. Once all of these are cut at each other's borders, each stretch
has one fate. The ledger, all fates, and the anomalies defined by them (lost, duplicate, recovered, ghost,
unseen) follow from this; records with an identity that was never sent are phantoms.

With several clusters, some copies are mirrored. A message's home is the topic that it was sent to; if it was
not acknowledged but a replay stored it, the topic that the replay sent it to. Copies in the home's cluster
are its own, all others are mirrored. A mirror to the home's cluster may bring copies back: if a message has
copies in that mirror's source, every copy at home except the first is looped. The first is the one in the
home's topic, then a visible one, then by offset.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kaput.analysis.runs.columns import COMMITTED
from kaput.analysis.runs.cutting import MESSAGES, overlay
from kaput.analysis.runs.names import SHIFT, Homes
from kaput.analysis.runs.run import NULL, Flags, Ints, nullable, numbers

_OF_TRANSACTION = ("transaction", "first_seq", "state", "whole")
ALL_AT_HOME = {"home": pl.lit(True), "looped": pl.lit(False)}
# Of copies: mirrored and visible. Copies in a mirror's aborted transactions are not visible.
IS_MIRRORED = ~pl.col("home") & ~pl.col("looped") & pl.col("visible")


@dataclass(frozen=True)
class MatchedMessages:
    """`stretches`: sends, one row per stretch (see `messages`). `copies`: the log's records with an identity,
    cut likewise, with whether it was `sent`, and whether they are at `home` or `looped`.
    `deliveries`, `transactions`: cut likewise; `stores`: what stores took, gave back and still have
    (STORE_TABLES), cut likewise.
    """

    stretches: pl.DataFrame
    copies: pl.DataFrame
    deliveries: pl.DataFrame
    transactions: pl.DataFrame
    stores: Sequence[pl.DataFrame] = ()


def messages(
    sends: pl.DataFrame,
    log: pl.DataFrame,
    deliveries: pl.DataFrame,
    transactions: pl.DataFrame,
    groups: Collection[int],
    stores: Sequence[pl.DataFrame] = (),
    homes: Homes | None = None,
) -> MatchedMessages:
    """Matches runs of sends, log and deliveries (with an identity), transactions, and stores' rows, by
    producer and seq.

    `homes`: given if there are several clusters. Then only copies at home count, except for phantoms and
    deliveries, which count anywhere.

    A stretch has the columns of a run of sends, and: `home_topic`; `stored`, the number of visible
    copies; `logged`, of all copies; `first_place`, `first_offset`, `epoch` of the first copy, visible ones
    first, then by offset, then place; `borne_out`, whether the log has a copy where the acknowledgement says;
    `transaction`, `first_seq`, `state`, `whole` of its transaction (runs/encoding.py), null without one;
    `delivered_G`, the number of deliveries to members of group G; if `stores` are given, the columns of
    `_store_columns`.
    """
    every = overlay([sends, log, deliveries, transactions, *stores], MESSAGES)
    (stretches, copies, delivered, transaction_parts), stores = every[:4], every[4:]
    at = stretches["part"].to_numpy()
    size = _size(*every)
    topics: Ints | None = None
    own = copies = copies.with_columns(**ALL_AT_HOME)
    if homes is not None:
        topics = home_topics(stretches, stores[1] if stores else None, size)
        copies = at_home(copies, topics, homes)
        own = copies.filter("home")
    part = own["part"].to_numpy()
    logged = stored = np.bincount(part, minlength=size)
    if not own["visible"].all():
        stored = np.bincount(part[own["visible"].to_numpy()], minlength=size)
    sent, borne_out = np.zeros((2, size), bool)
    sent[at] = True
    borne_out[part[_as_claimed(own, stretches, size)]] = True
    copies = copies.with_columns(sent=pl.Series(sent[copies["part"].to_numpy()], dtype=pl.Boolean))
    # Of several copies, the first visible one is the first.
    ordered = own.sort(~pl.col("visible"), "offset", "place") if (logged > 1).any() else own
    stretches = stretches.with_columns(
        pl.col("topic").alias("home_topic") if topics is None else pl.Series("home_topic", topics[at]),
        *_of_first(ordered, at, size, place="first_place", offset="first_offset", epoch="epoch"),
        *_of_first(transaction_parts, at, size, **{name: name for name in _OF_TRANSACTION}),
        *_store_columns(stores, at, size),
        stored=pl.Series(stored[at], dtype=pl.Int64),
        logged=pl.Series(logged[at], dtype=pl.Int64),
        borne_out=pl.Series(borne_out[at], dtype=pl.Boolean),
    )
    group, delivered_parts = numbers(delivered["group"]), delivered["part"].to_numpy()
    delivery_counts = [np.bincount(delivered_parts[group == each], minlength=size)[at] for each in groups]
    columns = [
        pl.Series(f"delivered_{each}", times, pl.Int64)
        for each, times in zip(groups, delivery_counts, strict=True)
    ]
    return MatchedMessages(stretches.with_columns(columns), copies, delivered, transaction_parts, stores)


def _size(*frames: pl.DataFrame) -> int:
    """The number of parts."""
    return 1 + max(int(frame["part"].max()) if frame.height else -1 for frame in frames)  # type: ignore[arg-type]


def _as_claimed(copies: pl.DataFrame, stretches: pl.DataFrame, size: int) -> Flags:
    """Whether each copy is where its message's acknowledgement says."""
    line = np.full(size, -1)
    line[stretches["part"].to_numpy()] = np.arange(stretches.height)
    mine = line[copies["part"].to_numpy()]
    as_claimed: Flags = mine >= 0
    for name in ("place", "offset"):
        claimed = np.append(numbers(stretches[name]), NULL)
        as_claimed &= claimed[mine] == numbers(copies[name])
    return as_claimed


def _of_first(frame: pl.DataFrame, at: Ints, size: int, **names: str) -> list[pl.Series]:
    """Columns of the first row of each part in `at`, null for none, by the names that they get."""
    line = np.full(size, -1)
    # Reversed, because the last assignment wins.
    line[frame["part"].to_numpy()[::-1]] = np.arange(frame.height)[::-1]
    chosen = nullable("", line[at], -1)
    return [frame[column].gather(chosen).alias(name) for column, name in names.items()]


def _store_columns(stores: Sequence[pl.DataFrame], at: Ints, size: int) -> list[pl.Series]:
    """in_store, in_doubt, replayed, left of each part in `at`: whether any row shows that a store had it;
    whether Kafka may have stored it before (assumed without a row of `kept`); whether a replay sent it;
    whether a store still has it.
    """
    if not stores:
        return []
    kept, replayed, left = np.zeros((3, size), bool)
    for flags, rows in zip((kept, replayed, left), stores, strict=True):
        flags[rows["part"].to_numpy()] = True
    in_doubt = (replayed | left) & ~kept
    in_doubt[stores[0].filter("in_doubt")["part"].to_numpy()] = True
    columns = {"in_store": kept | replayed | left, "in_doubt": in_doubt, "replayed": replayed, "left": left}
    return [pl.Series(name, values[at], dtype=pl.Boolean) for name, values in columns.items()]


def uncommitted() -> pl.Expr:
    """Whether a stretch (with `unread`) is missing but was never promised: its transaction was aborted or has
    an unknown outcome; or, if no transaction is recorded, the log has it but it is not visible.
    """
    open_ = (
        pl.when(pl.col("state").is_null()).then(pl.col("logged") > 0).otherwise(pl.col("state") != COMMITTED)
    )
    return (pl.col("stored") == 0) & ~pl.col("unread") & open_


def unread(complete: Collection[int], complete_topics: Collection[int]) -> pl.Expr:
    """Whether a stretch was not found, and its partition (if unknown, one of its topic) was not read."""
    elsewhere = ~pl.col("place").is_in(sorted(complete))
    anywhere = ~pl.col("topic").is_in(sorted(complete_topics))
    return (pl.col("stored") == 0) & pl.when(pl.col("place").is_null()).then(anywhere).otherwise(elsewhere)


def home_topics(stretches: pl.DataFrame, replayed: pl.DataFrame | None, size: int) -> Ints:
    """By part, the number of its home's topic; -1 if it was never sent."""
    topics = np.full(size, -1)
    topics[stretches["part"].to_numpy()] = stretches["topic"].to_numpy()
    if replayed is not None and replayed.height:
        # A replay does not move the home of a message that was acknowledged to its producer.
        own = stretches.filter(pl.col("outcome") != "acked")["part"].to_numpy()
        moved = replayed.sort("topic")
        part, topic = moved["part"].to_numpy(), moved["topic"].to_numpy()
        not_acked = np.isin(part, own)
        topics[part[not_acked]] = topic[not_acked]
    return topics


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
