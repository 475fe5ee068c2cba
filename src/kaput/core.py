"""The vocabulary every layer shares: a topic's partition, nanoseconds, the limits of 64-bit columns, runs/;
and how topics of named clusters, times of day and plurals are written.

Nothing here imports anything of kaput, or any library.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

DEFAULT_RUNS = Path("runs")  # where run folders are, unless --runs says otherwise
# Durations and times are int nanoseconds; divide by these to show them.
US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000

INT64_MAX = 2**63 - 1
FOREVER_NS = INT64_MAX  # later than every time
# What stands for null in an integer column while it is gathered, or looked at as an array.
NULL_LONG = -(2**63)
NULL_INT = -(2**31)

CLUSTER_SEPARATOR = ":"  # as in `dc2:orders`; a topic's own name never has one


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def qualified(cluster: str | None, topic: str) -> str:
    """One name for a topic of a named cluster: `dc2:orders`. The topic of the only cluster keeps its name."""
    return f"{cluster}{CLUSTER_SEPARATOR}{topic}" if cluster else topic


def cluster_and_topic(name: str) -> tuple[str | None, str]:
    """The cluster (None: the name has none) and the topic's own name."""
    cluster, separator, topic = name.partition(CLUSTER_SEPARATOR)
    return (cluster, topic) if separator else (None, name)


def clock(at_ns: int | None) -> str:
    """A time of day in UTC, to the millisecond."""
    if at_ns is None:
        return "an unknown time"
    moment = datetime.fromtimestamp(at_ns // SECOND, UTC)
    return f"{moment:%H:%M:%S}.{at_ns // MS % 1000:03d}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 message`, `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
