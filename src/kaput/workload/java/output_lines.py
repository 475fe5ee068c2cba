"""The output lines of Kafka's Verifiable tools, one JSON object each, as values. No files, no processes.

VerifiableProducer prints the outcome of each message, and its log (log4j2.xml) has the time at which each
entered its buffer. All times are whole milliseconds: starts count from the beginning of their millisecond,
ends to its end, so that nothing looks shorter than it was.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaput.core import MS, SECOND, TopicPartition
from kaput.scenario.vocabulary import Outcome
from kaput.workload.command.program import Line, integer

_APPEND = re.compile(r"Attempting to append record .*, value=([^,]*), timestamp=.* partition (\d+)")
_LATEST_MS = 2**43  # the year 2248

# Exceptions of Java's client for messages it never sent.
_NEVER_SENT = frozenset(
    {
        "BufferExhaustedException",
        "InterruptException",
        "InvalidTopicException",
        "SerializationException",
        "IllegalStateException",
    }
)
_NOT_TAKEN = re.compile(r"not present in metadata after \d+ ms|bytes when serialized which is larger than")
# Errors a broker returns before it appends anything; an earlier try may have been written all the same.
_REFUSED = frozenset(
    {
        "ClusterAuthorizationException",
        "InvalidRecordException",
        "InvalidRequiredAcksException",
        "NotEnoughReplicasException",
        "RecordTooLargeException",
        "TopicAuthorizationException",
    }
)


class AppendLine(NamedTuple):
    """A message about to enter the producer's buffer."""

    value: str
    partition: int
    at_ns: int


class OutcomeLine(NamedTuple):
    """The outcome of a message."""

    value: str
    at_ns: int
    outcome: Outcome
    partition: int | None = None
    offset: int | None = None
    error: str | None = None


def start_ns(line: Line) -> int | None:
    """A line's time as a start; None if it has none."""
    stamp = line.get("timestamp")
    return stamp * MS if integer(stamp) and stamp < _LATEST_MS else None


def end_ns(line: Line, now_ns: int) -> int:
    """A line's time as an end; never later than `now_ns`, when it was read."""
    begun = start_ns(line)
    return now_ns if begun is None else min(begun + MS - 1, now_ns)


class LogTimes:
    """Parses times in logs; caches the current second."""

    def __init__(self) -> None:
        self._second, self._second_ns = "", 0

    def ns(self, text: str) -> int:
        """`2026-01-02 03:04:05,678` (UTC) since the epoch. Raises ValueError."""
        second, comma, ms = text.partition(",")
        if second != self._second:
            self._second_ns = calendar.timegm(time.strptime(second, "%Y-%m-%d %H:%M:%S")) * SECOND
            self._second = second
        if not comma or len(ms) != 3 or not ms.isdigit():
            raise ValueError(text)
        return self._second_ns + int(ms) * MS


def parse_append(line: Line, times: LogTimes) -> AppendLine | None:
    """The attempt in a log line; None for any other line."""
    text, at = line.get("text"), line.get("at")
    if not isinstance(text, str) or not isinstance(at, str):
        return None
    found = _APPEND.search(text)
    if found is None:
        return None
    try:
        return AppendLine(found[1], int(found[2]), times.ns(at))
    except ValueError:
        return None


def parse_outcome(line: Line, now_ns: int, retries_disabled: bool) -> OutcomeLine | None:
    """The outcome in a line; None if the line is malformed."""
    value, at_ns = line.get("value"), end_ns(line, now_ns)
    if not isinstance(value, str):
        return None
    if line["name"] == "producer_send_error":
        kind, message = line.get("exception"), line.get("message")
        if not isinstance(kind, str):
            return None
        kind = kind.rpartition(".")[2]
        outcome = outcome_of(kind, message if isinstance(message, str) else "", retries_disabled)
        return OutcomeLine(value, at_ns, outcome, error=f"{kind}: {message}"[:500])
    partition, offset = line.get("partition"), line.get("offset")
    if not integer(partition) or partition >= 2**31 or not integer(offset, least=-1):
        return None
    # No offset with acks=0, and for duplicates of an idempotent producer.
    return OutcomeLine(value, at_ns, "acked", partition, offset if offset >= 0 else None)


def outcome_of(kind: str, message: str, retries_disabled: bool) -> Outcome:
    """What an exception of Java's producer proves (docs/GLOSSARY.md)."""
    if kind in _NEVER_SENT or _NOT_TAKEN.search(message):
        return "failed"
    if retries_disabled and kind in _REFUSED:
        return "failed"
    return "unknown"


def parse_partition(value: Any) -> TopicPartition | None:
    """`{"topic": ..., "partition": ...}`; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    topic, partition = value.get("topic"), value.get("partition")
    if not isinstance(topic, str) or not integer(partition) or partition >= 2**31:
        return None
    return TopicPartition(topic, partition)


def parse_partitions(value: Any) -> list[TopicPartition] | None:
    """A list of those; None for anything else."""
    found = [parse_partition(each) for each in value] if isinstance(value, list) else [None]
    return None if None in found else [place for place in found if place is not None]


def parse_offsets(value: Any) -> list[tuple[TopicPartition, int]] | None:
    """A list of those, each with its `offset`; None for anything else."""
    places = parse_partitions(value)
    if places is None or not all(integer(each.get("offset")) for each in value):
        return None
    return [(place, each["offset"]) for place, each in zip(places, value, strict=True)]


def parse_offset_sets(value: Any) -> list[tuple[TopicPartition, list[int]]] | None:
    """A list of those, each with its `offsets`; None for anything else."""
    places = parse_partitions(value)
    if places is None:
        return None
    if not all(
        isinstance(each.get("offsets"), list) and all(integer(o) for o in each["offsets"]) for each in value
    ):
        return None
    return [(place, sorted(each["offsets"])) for place, each in zip(places, value, strict=True)]
