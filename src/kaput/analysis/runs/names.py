"""Numbers instead of names: topics, groups, members and stores as small integers, partitions as one long.

Numbers are grouped, sorted and joined several times faster than text. Not here: columns of runs (columns.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

from kaput.analysis.runs.run import Ints
from kaput.core import TopicPartition, cluster_and_topic


class Homes(NamedTuple):
    """For several clusters: `clusters`: the number of each topic's cluster; `mirrors`: source and target
    cluster of each mirror (views/stretches.py).
    """

    clusters: Ints
    mirrors: Sequence[tuple[int, int]]


SHIFT = 2**32  # a place is topic * 2**32 + partition

# The schema of group_events with numbers instead of names.
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
    """The number of each name is its position."""

    topics: Sequence[str]
    groups: Sequence[str]
    members: Sequence[str]
    stores: Sequence[str] = ()

    @cached_property
    def clusters(self) -> Sequence[str | None]:
        """The cluster of each topic; None: the only one."""
        return [cluster_and_topic(topic)[0] for topic in self.topics]

    def cluster_of(self, topic: pl.Expr) -> pl.Expr:
        """The cluster of a topic, given by its number; null: the only one."""
        words = dict(enumerate(self.clusters))
        # Polars refuses an empty mapping.
        return topic.replace_strict(words, return_dtype=pl.String) if words else pl.lit(None, pl.String)

    def numbers_of(self, read: Mapping[int, Collection[str] | None]) -> dict[int, list[int]]:
        """By group, the numbers of the topics that it reads. `read`: their names; None: all."""
        every = list(enumerate(self.topics))
        return {group: [n for n, topic in every if w is None or topic in w] for group, w in read.items()}

    def place(self, code: int | None) -> TopicPartition | None:
        """The partition with this number; None for None."""
        return None if code is None else self.located(code)

    def located(self, code: int) -> TopicPartition:
        return TopicPartition(self.topics[code // SHIFT], code % SHIFT)

    def code(self, place: TopicPartition) -> int:
        """The number of a partition."""
        return self.topics.index(place[0]) * SHIFT + place[1]


def topic_partition(names: Names) -> list[pl.Expr]:
    """`topic` (name) and `partition` of the evidence contract, from the numbers `topic` and `place`."""
    words = dict(enumerate(names.topics))
    topic = (
        pl.col("topic").replace_strict(words, return_dtype=pl.String)
        if words
        else pl.col("topic").cast(pl.String)
    )
    return [topic, (pl.col("place") % SHIFT).cast(pl.Int32).alias("partition")]
