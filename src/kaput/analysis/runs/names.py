"""Numbers for names: topics, groups, members and stores as small integers, partitions as one long.

Numbers are grouped, sorted and joined several times faster than text. The driver keeps the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

from kaput.analysis.runs.run import Ints
from kaput.core import TopicPartition, cluster_and_topic


class Homes(NamedTuple):
    """Of several clusters: `clusters`: the number of each topic's cluster; `mirrors`: the clusters that each
    leads from and to (views/homes.py).
    """

    clusters: Ints
    mirrors: Sequence[tuple[int, int]]


SHIFT = 2**32  # a place is topic * 2**32 + partition

# group_events with numbers for names, as frames have them.
EVENTS: Mapping[str, type[pl.DataType]] = {
    "group": pl.Int64,
    "member": pl.Int64,
    "topic": pl.Int64,
    "kind": pl.String,
    "place": pl.Int64,
    "offset": pl.Int64,
    "at_ns": pl.Int64,
}


@dataclass(frozen=True)
class Names:
    """Every name's number is its position."""

    topics: Sequence[str]
    groups: Sequence[str]
    members: Sequence[str]
    stores: Sequence[str] = ()

    @cached_property
    def clusters(self) -> Sequence[str | None]:
        """Of each topic, the cluster that it is in; None: the only one."""
        return [cluster_and_topic(topic)[0] for topic in self.topics]

    def cluster_of(self, topic: pl.Expr) -> pl.Expr:
        """The cluster that a topic, given by its number, is in; null: the only one."""
        words = dict(enumerate(self.clusters))
        # Polars refuses to replace by nothing.
        return topic.replace_strict(words, return_dtype=pl.String) if words else pl.lit(None, pl.String)

    def place(self, code: int | None) -> TopicPartition | None:
        """The partition behind a number."""
        return None if code is None else self.located(code)

    def located(self, code: int) -> TopicPartition:
        """The partition behind a number that there is."""
        return TopicPartition(self.topics[code // SHIFT], code % SHIFT)

    def code(self, place: TopicPartition) -> int:
        """The number of a partition."""
        return self.topics.index(place[0]) * SHIFT + place[1]


def topic_partition(names: Names) -> list[pl.Expr]:
    """The columns `topic` and `partition` as words and numbers of the contract, of `topic` and `place`."""
    words = dict(enumerate(names.topics))
    topic = (
        pl.col("topic").replace_strict(words, return_dtype=pl.String)
        if words
        else pl.col("topic").cast(pl.String)
    )
    return [topic, (pl.col("place") % SHIFT).cast(pl.Int32).alias("partition")]
