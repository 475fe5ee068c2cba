"""Parses the output lines of Kafka's Verifiable tools, one JSON object each. No files, no processes.

Times are whole milliseconds, and are taken as the end of their millisecond, so that nothing looks shorter
than it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaput.core import MS, TopicPartition
from kaput.workload.command.program import Line, integer

_LATEST_MS = 2**43  # the year 2248


def end_ns(line: Line, now_ns: int) -> int:
    """A line's time (ns); never later than `now_ns`, when it was read."""
    stamp = line.get("timestamp")
    if not integer(stamp) or stamp >= _LATEST_MS:
        return now_ns
    return min(stamp * MS + MS - 1, now_ns)


def parse_partition(value: Any) -> TopicPartition | None:
    """`{"topic": ..., "partition": ...}`; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    topic, partition = value.get("topic"), value.get("partition")
    if not isinstance(topic, str) or not integer(partition) or partition >= 2**31:
        return None
    return TopicPartition(topic, partition)


def parse_partitions(value: Any) -> list[TopicPartition] | None:
    """A list of such objects; None for anything else."""
    found = [parse_partition(each) for each in value] if isinstance(value, list) else [None]
    return None if None in found else [place for place in found if place is not None]


def parse_offsets(value: Any) -> list[tuple[TopicPartition, int]] | None:
    """A list of such objects, each with its `offset`; None for anything else."""
    places = parse_partitions(value)
    if places is None or not all(integer(each.get("offset")) for each in value):
        return None
    return [(place, each["offset"]) for place, each in zip(places, value, strict=True)]


def parse_offset_sets(value: Any) -> list[tuple[TopicPartition, list[int]]] | None:
    """A list of such objects, each with its `offsets`; None for anything else."""
    places = parse_partitions(value)
    if places is None:
        return None
    if not all(
        isinstance(each.get("offsets"), list) and all(integer(o) for o in each["offsets"]) for each in value
    ):
        return None
    return [(place, sorted(each["offsets"])) for place, each in zip(places, value, strict=True)]
