"""Basic types and constants of all layers: versions, partitions, nanoseconds, limits of 64-bit columns,
runs/; and the format of topics of named clusters, times, durations, plurals, percentages and long lists.

Imports nothing of kaput, and no library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

VERSION = "0.1.0"
DEFAULT_RUNS = Path("runs")  # the default of --runs
# The versions of Kafka that kaput works with: these and what lies between them. The newest is the default.
OLDEST_KAFKA, NEWEST_KAFKA = "3.7.0", "4.4.0"
# Durations and times are int nanoseconds; divide by these to show them.
MS = 1_000_000
SECOND = 1_000_000_000

INT64_MAX = 2**63 - 1
FOREVER_NS = INT64_MAX  # later than any time
# Null in an integer column while it is gathered, or seen as an array.
NULL_LONG = -(2**63)
NULL_INT = -(2**31)

CLUSTER_SEPARATOR = ":"  # as in `dc2:orders`; no topic name contains it


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


def qualified(cluster: str | None, topic: str) -> str:
    """The qualified name of a topic: `dc2:orders`, or just `orders` without a cluster name."""
    return f"{cluster}{CLUSTER_SEPARATOR}{topic}" if cluster else topic


def cluster_and_topic(name: str) -> tuple[str | None, str]:
    """Splits a qualified name into the cluster (None: without one) and the topic."""
    cluster, separator, topic = name.partition(CLUSTER_SEPARATOR)
    return (cluster, topic) if separator else (None, name)


def clock(at_ns: int | None) -> str:
    """The time of day in UTC, in milliseconds."""
    if at_ns is None:
        return "an unknown time"
    moment = datetime.fromtimestamp(at_ns // SECOND, UTC)
    return f"{moment:%H:%M:%S}.{at_ns // MS % 1000:03d}"


def setting_text(value: object) -> str:
    """The value of a setting as Kafka writes it: `true` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def plural(count: int, one: str, many: str | None = None) -> str:
    """The count with its noun: `1 message`, `2,000 messages`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def first_few(names: Sequence[object], most: int, what: str = "") -> str:
    """`a, b and 2 more`: at most so many of the names. `what`: the noun of the others."""
    more = len(names) - most
    others = f" and {more:,} more{what and ' '}{what}" if more > 0 else ""
    return ", ".join(map(str, names[:most])) + others


def duration(seconds: float) -> str:
    """In ms where tenths of a second would make much more of it: `0.1 s`, `52 ms`."""
    return f"{seconds:,.1f} s" if seconds >= 0.1 else f"{seconds * 1e3:.0f} ms"


def percent(share: float) -> str:
    """0.1068 -> `10.7 %`. More decimals where one would claim all, or 0.1 %: 0.99951 -> `99.95 %`."""
    decimals = 1
    while (
        0 < share < 1
        and decimals < 15
        and (round(share * 100, decimals) == 100 or share * 100 < 10**-decimals)
    ):
        decimals += 1
    return f"{share * 100:.{decimals}f} %"


def counted(count: int, what: str) -> str:
    """The count with a clause: of `{messages are|message is} lost`, `1 message is lost`."""
    return f"{count:,} " + re.sub(r"\{(.*?)\|(.*?)\}", r"\2" if count == 1 else r"\1", what)
