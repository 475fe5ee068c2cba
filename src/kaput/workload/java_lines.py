"""What Kafka's Verifiable tools print, one JSON object a line, as values. No files, no processes.

VerifiableProducer says what became of each message, and through its log (java-log4j2.xml) when each was
handed to its buffer. All times are whole milliseconds of its clock: what was begun counts from the beginning
of its millisecond, what was over from the end, so that nothing is taken for shorter than it was.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kaput.core import MS, SECOND, TopicPartition
from kaput.scenario.vocabulary import Outcome
from kaput.workload.commanded import Line, integer

_APPEND = re.compile(r"Attempting to append record .*, value=([^,]*), timestamp=.* partition (\d+)")
_LATEST_MS = 2**43  # the year 2248

# What Java's client says of a message that it never sent.
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
# What a broker says before it appends anything; whether an earlier try was written it does not say.
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


class Appended(NamedTuple):
    """A message that is about to go into the producer's buffer."""

    value: str
    partition: int
    at_ns: int


class Answered(NamedTuple):
    """What became of a message."""

    value: str
    at_ns: int
    outcome: Outcome
    partition: int | None = None
    offset: int | None = None
    error: str | None = None


def begun_ns(line: Line) -> int | None:
    """A line's time as that of a beginning; None where it has none."""
    stamp = line.get("timestamp")
    return stamp * MS if integer(stamp) and stamp < _LATEST_MS else None


def over_ns(line: Line, now_ns: int) -> int:
    """A line's time as that of an end; `now_ns`, when it was read, is later in any case."""
    begun = begun_ns(line)
    return now_ns if begun is None else min(begun + MS - 1, now_ns)


class LogTimes:
    """Times in logs. Those of one second are looked up."""

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


def appended(line: Line, times: LogTimes) -> Appended | None:
    """A line of the log that tells of an attempt; None for any other."""
    text, at = line.get("text"), line.get("at")
    if not isinstance(text, str) or not isinstance(at, str):
        return None
    found = _APPEND.search(text)
    if found is None:
        return None
    try:
        return Appended(found[1], int(found[2]), times.ns(at))
    except ValueError:
        return None


def answered(line: Line, now_ns: int, retries_disabled: bool) -> Answered | None:
    """A line that tells what became of a message; None for one that does so badly."""
    value, at_ns = line.get("value"), over_ns(line, now_ns)
    if not isinstance(value, str):
        return None
    if line["name"] == "producer_send_error":
        kind, message = line.get("exception"), line.get("message")
        if not isinstance(kind, str):
            return None
        kind = kind.rpartition(".")[2]
        outcome = outcome_of(kind, message if isinstance(message, str) else "", retries_disabled)
        return Answered(value, at_ns, outcome, error=f"{kind}: {message}"[:500])
    partition, offset = line.get("partition"), line.get("offset")
    if not integer(partition) or partition >= 2**31 or not integer(offset, least=-1):
        return None
    # With acks=0, and of a duplicate that an idempotent producer sent, it is told no offset.
    return Answered(value, at_ns, "acked", partition, offset if offset >= 0 else None)


def outcome_of(kind: str, message: str, retries_disabled: bool) -> Outcome:
    """What an exception of Java's producer proves (docs/GLOSSARY.md)."""
    if kind in _NEVER_SENT or _NOT_TAKEN.search(message):
        return "failed"
    if retries_disabled and kind in _REFUSED:
        return "failed"
    return "unknown"


def place_of(value: Any) -> TopicPartition | None:
    """`{"topic": ..., "partition": ...}`; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    topic, partition = value.get("topic"), value.get("partition")
    if not isinstance(topic, str) or not integer(partition) or partition >= 2**31:
        return None
    return TopicPartition(topic, partition)


def places_of(value: Any) -> list[TopicPartition] | None:
    """A list of those; None for anything else."""
    found = [place_of(each) for each in value] if isinstance(value, list) else [None]
    return None if None in found else [place for place in found if place is not None]


def offsets_of(value: Any) -> list[tuple[TopicPartition, int]] | None:
    """A list of those, each with its `offset`; None for anything else."""
    places = places_of(value)
    if places is None or not all(integer(each.get("offset")) for each in value):
        return None
    return [(place, each["offset"]) for place, each in zip(places, value, strict=True)]


def sets_of(value: Any) -> list[tuple[TopicPartition, list[int]]] | None:
    """A list of those, each with its `offsets`; None for anything else."""
    places = places_of(value)
    if places is None:
        return None
    if not all(
        isinstance(each.get("offsets"), list) and all(integer(o) for o in each["offsets"]) for each in value
    ):
        return None
    return [(place, sorted(each["offsets"])) for place, each in zip(places, value, strict=True)]
