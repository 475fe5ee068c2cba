"""Reads a partition from one replica, leader or not: the successor of Kafka's simple-consumer-shell.

The requests are those of Kafka's replica debugger. A follower shows new records a moment later (seen with
Kafka 4.3.1). If the broker is down and kaput started it, its files are read instead. Not here: printing
(cli/peek.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import requests
from kaput.cluster.record_batches import LogRecord, read_records
from kaput.cluster.segments import directory, headers, log_end, segments
from kaput.cluster.wire import REFUSALS, AccessRefused, Endpoint, Unanswered, ask, trouble
from kaput.core import TopicPartition
from kaput.errors import LabError, UsageError

_ANSWER_S = 10.0
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Peek:
    """A replica's records from `start` to `end`. `leader`: None if none; `source`: `broker`, `files`."""

    place: TopicPartition
    replica: int
    leader: int | None
    source: str
    start: int
    end: int
    records: list[LogRecord]


@dataclass(frozen=True)
class RecordRange:
    """The records to read: the first offset (from the end if negative), and the number of records."""

    offset: int
    count: int

    def first(self, start: int, end: int) -> int:
        """The offset to start at."""
        return max(start, end + self.offset if self.offset < 0 else self.offset)


def peek(
    servers: str,
    place: TopicPartition,
    replica: int,
    wanted: RecordRange,
    folder: Path | None,
    access: Access = OPEN,
) -> Peek:
    """Reads from the broker or, if it does not answer, from its files below `folder`, if given. Raises
    UsageError if the broker has no replica of the partition, LabError if both fail.
    """
    brokers, leader, replicas = _locate(servers, place, access)
    if replica not in replicas:
        known = ", ".join(map(str, replicas))
        raise UsageError(f"broker {replica} has no replica of {place}; its replicas are {known}")
    try:
        if replica not in brokers:
            raise Unanswered(f"broker {replica} is down")
        return _from_broker(brokers[replica], place, replica, leader, wanted)
    except AccessRefused:
        raise
    except Unanswered:
        data = None if folder is None else folder / str(replica) / "data"
        if data is None or not data.is_dir():
            raise
        return _from_files(data, place, replica, leader, wanted)


def _locate(
    servers: str, place: TopicPartition, access: Access
) -> tuple[dict[int, Endpoint], int | None, list[int]]:
    """The brokers that are up, the partition's leader, and its replicas."""
    why: LabError | None = None
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise UsageError(f"{server!r}: write HOST:PORT")
        try:
            answer = ask(Endpoint(host, int(port), access), requests.metadata([place[0]]), _ANSWER_S)
        except AccessRefused:
            raise
        except Unanswered as error:
            why = error
            continue
        brokers = {b.node_id: Endpoint(b.host, b.port, access) for b in answer.brokers}
        partitions = {p.partition_index: p for topic in answer.topics for p in topic.partitions}
        if place[1] not in partitions:
            for topic in answer.topics:
                if topic.error_code in REFUSALS:
                    raise trouble(f"{access.principal} may not see topic {place[0]}", topic.error_code)
            has = f"it has partitions 0 to {len(partitions) - 1}" if partitions else "no such topic"
            raise UsageError(f"{place}: {has}")
        state = partitions[place[1]]
        return brokers, state.leader_id if state.leader_id >= 0 else None, sorted(state.replica_nodes)
    raise LabError(f"no broker of {servers} answers ({why})")


def _from_broker(
    endpoint: Endpoint, place: TopicPartition, replica: int, leader: int | None, wanted: RecordRange
) -> Peek:
    start, end = (_offset(endpoint, place, of) for of in (requests.log_starts, requests.log_ends))
    at = wanted.first(start, end)
    records: list[LogRecord] = []
    while at < end and len(records) < wanted.count:
        answer = ask(endpoint, requests.fetch(place, at, _MAX_BYTES), _ANSWER_S)
        (partition_answer,) = answer.responses[0].partitions
        if partition_answer.error_code:
            raise trouble(f"{place} at broker {replica}", partition_answer.error_code)
        new = [
            record for record in read_records(bytes(partition_answer.records or b"")) if record.offset >= at
        ]
        records += new
        # Transaction markers are not records: a batch without records is skipped one offset at a time.
        at = new[-1].offset + 1 if new else at + 1
    return Peek(place, replica, leader, "broker", start, end, records[: wanted.count])


def _offset(endpoint: Endpoint, place: TopicPartition, of: Callable[[list[TopicPartition]], Any]) -> int:
    answer = ask(endpoint, of([place]), _ANSWER_S)
    (partition_answer,) = answer.topics[0].partitions
    if partition_answer.error_code:
        raise trouble(f"{place} at {endpoint.host}:{endpoint.port}", partition_answer.error_code)
    return int(partition_answer.offset)


def _from_files(
    data: Path, place: TopicPartition, replica: int, leader: int | None, wanted: RecordRange
) -> Peek:
    folder = directory(data, *place)
    try:
        files = segments(folder)
        if not files:
            raise LabError(f"broker {replica} is down and has no file for {place}")
        start, end = int(files[0].stem), log_end(folder)
        first = wanted.first(start, end)
        records: list[LogRecord] = []
        for path, following in zip(files, [*files[1:], None], strict=True):
            if len(records) < wanted.count and (following is None or int(following.stem) > first):
                whole = sum(head.size for _, head in headers(path))
                records += [r for r in read_records(path.read_bytes()[:whole]) if r.offset >= first]
    except (OSError, ValueError) as error:
        raise LabError(f"the files of broker {replica} cannot be read: {error}") from None
    return Peek(place, replica, leader, "files", start, end, records[: wanted.count])
