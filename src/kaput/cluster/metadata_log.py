"""Reads the cluster's own record of leader epochs, ISR changes and fencing: the KRaft metadata log.

Its files are read, whether their controller runs or was killed, and records are decoded by the schemas in the
jars of the cluster's Kafka; the records' timestamps are the controller's, in ms. If the beginning of the log
was replaced by a snapshot, the state of the cluster then comes from the snapshot. Its place: mode.py reads it
after a run, so that the verdict needs no Kafka; runner/event_sources.py follows it for steps that wait.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kaput.cluster.kafka_cluster import METADATA_SNAPSHOT, ClusterEvent, CollectedEvents
from kaput.cluster.message_schemas import BytesReader, MessageCodec, read_schemas
from kaput.cluster.record_batches import Batch, BrokenBatch, LogRecord, StoredBatch, decode
from kaput.cluster.segments import headers, segments
from kaput.core import MS
from kaput.errors import UnknownFormat

_FRAME = 1  # the only version of the frame before each record
_KINDS = (
    "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "RegisterBrokerRecord",
    "BrokerRegistrationChangeRecord",
)  # fmt: skip
_SNAPSHOT_HEADER = "SnapshotHeaderRecord"
_SNAPSHOT_HEADER_KEY, _SNAPSHOT_TIME = b"\0\0\0\3", struct.Struct(">hq")  # of a control record; version, ms


class MetadataRecord(NamedTuple):
    """`kind` and the names in `data` are Kafka's; tagged fields that were left out are not there."""

    offset: int
    at_ms: int
    kind: str
    data: dict[str, Any]


class MetadataDecoder:
    """Decodes records about topics, partitions and brokers. `jars`: of the Kafka that wrote them, or of a
    newer one. Raises LabError if these do not describe them.
    """

    def __init__(self, jars: Sequence[Path]) -> None:
        self._schemas = {each["apiKey"]: each for each in read_schemas(jars, "metadata", _KINDS)}
        self._codecs: dict[tuple[int, int], MessageCodec] = {}

    def decode(self, batches: Sequence[StoredBatch]) -> Iterator[MetadataRecord]:
        """The records of batches. Raises ValueError at a broken one, or UnknownFormat."""
        unpacked: list[Batch] = []
        try:
            unpacked.extend(each.unpacked() for each in batches)
        except ValueError:
            yield from self.decode(batches[: len(unpacked)])
            raise
        # As if all had messages: decode skips control records.
        plain = [Batch(head._replace(attributes=0), body) for head, body in unpacked]
        try:
            records = decode(plain)
        except BrokenBatch as broken:
            yield from self.decode(batches[: broken.index])
            raise
        control = records.by_record([head.control for head, _ in unpacked]).tolist()
        for record, is_control in zip(records.whole(), control, strict=True):
            try:
                decoded = self._control(record) if is_control else self._decode(record)
            except (struct.error, ValueError) as error:
                if isinstance(error, UnknownFormat):
                    raise
                raise ValueError(f"the metadata record at offset {record.offset} is broken") from None
            if decoded is not None:
                yield MetadataRecord(record.offset, record.timestamp_ms, *decoded)

    def _decode(self, record: LogRecord) -> tuple[str, dict[str, Any]] | None:
        """None for records about anything else."""
        reader = BytesReader(record.value or b"")
        if (frame := reader.varint()) != _FRAME:
            raise UnknownFormat(f"the metadata log has records in frames of version {frame}")
        number, version = reader.varint(), reader.varint()
        if (schema := self._schemas.get(number)) is None:
            return None
        if (number, version) not in self._codecs:
            self._codecs[number, version] = MessageCodec(schema, version)
        codec = self._codecs[number, version]
        if not codec.known:
            raise UnknownFormat(f"the metadata log has a {schema['name']} of version {version}")
        return schema["name"], codec.read(reader)

    def _control(self, record: LogRecord) -> tuple[str, dict[str, Any]] | None:
        if record.key != _SNAPSHOT_HEADER_KEY:
            return None
        _, last_ms = _SNAPSHOT_TIME.unpack_from(record.value or b"")
        return _SNAPSHOT_HEADER, {"LastContainedLogTimestamp": last_ms}


_RETRY_AFTER_S = 0.5  # enough for the controller to finish its current write


class RecordsRead(NamedTuple):
    """The records of some files; `problem`: why not all of them (None: all)."""

    records: list[MetadataRecord]
    problem: Exception | None


def read_records(files: Sequence[Path], decoder: MetadataDecoder) -> RecordsRead:
    """The records of consecutive files; reads them again if they were incomplete."""
    checked: dict[tuple[Path, int], bytes] = {}
    first = _read(files, decoder, checked)
    if first.problem is None or isinstance(first.problem, UnknownFormat):
        return first
    time.sleep(_RETRY_AFTER_S)
    again = _read(files, decoder, checked)
    return again if again.problem is None or len(again.records) >= len(first.records) else first


def _read(
    files: Sequence[Path], decoder: MetadataDecoder, checked: dict[tuple[Path, int], bytes]
) -> RecordsRead:
    batches, records, problem = list[StoredBatch](), list[MetadataRecord](), None
    try:
        batches.extend(_intact_batches(files, checked))
    except (OSError, ValueError) as error:
        problem = error
    try:
        records.extend(decoder.decode(batches))
    except ValueError as error:
        problem = error
    return RecordsRead(records, problem)


def _intact_batches(files: Sequence[Path], checked: dict[tuple[Path, int], bytes]) -> Iterator[StoredBatch]:
    """Batches without a gap between them. Raises ValueError if they end before the files do; OSError.
    `checked`: by file and position, those known to be intact, as a checksum takes 0.3 s per MB; adds to them.
    """
    next_offset: int | None = None
    for path in files:
        size, end = path.stat().st_size, 0
        with path.open("rb") as file:
            for position, head in headers(path):
                file.seek(position)
                batch = StoredBatch(head, file.read(head.size))
                if next_offset not in (None, head.base_offset):
                    break
                if checked.get((path, position)) != batch.data and not batch.intact:
                    break
                checked[path, position] = batch.data
                yield batch
                next_offset, end = head.last_offset + 1, position + head.size
        if end < size:
            raise ValueError(f"{end} of the {size} bytes of {path} are intact")


_SNAPSHOT_NAME = re.compile(r"\d{20}-\d{10}\.checkpoint")
_FENCE, _UNFENCE = 1, -1


def read_cluster_events(jars: Sequence[Path], metadata_log: Path) -> CollectedEvents:
    """The events in one voter's metadata log directory, in log order, and what could not be read of it.
    `jars`: Kafka's. Raises LabError if these do not describe its records.
    """
    files = segments(metadata_log)
    if not files:
        return CollectedEvents([], [f"{metadata_log} holds no metadata log: changes of leader are not known"])
    decoder = MetadataDecoder(jars)
    image, events, troubles, start = Image(), list[ClusterEvent](), list[str](), 0
    if (begin := int(files[0].stem)) > 0:
        snapshot = _first_snapshot(metadata_log, begin)
        if snapshot is not None:
            start = _end_offset(snapshot)
            read = read_records([snapshot], decoder)
            troubles += _collect(snapshot_events(read.records, image), events, snapshot, read.problem)
        if image.moved or snapshot is None:
            troubles.append(
                f"the metadata log {metadata_log} begins at offset {max(start, begin)}: "
                "changes of leader and ISR before that are not known"
            )
    read = read_records(files, decoder)
    troubles += _collect(log_events(read.records, image, start), events, metadata_log, read.problem)
    return CollectedEvents(events, troubles)


def _collect(
    found: Iterator[ClusterEvent], events: list[ClusterEvent], path: Path, problem: Exception | None
) -> list[str]:
    """Adds the events up to the first record that kaput does not know; returns what is missing of `path`."""
    try:
        events.extend(found)
    except UnknownFormat as error:
        problem = error
    if isinstance(problem, UnknownFormat):
        return [f"changes of leader are not known from there on: {problem}"]
    return (
        [f"not all of {path} could be read ({problem}): changes of leader may be missing"] if problem else []
    )


def _first_snapshot(metadata_log: Path, begin: int) -> Path | None:
    snapshots = (path for path in metadata_log.iterdir() if _SNAPSHOT_NAME.fullmatch(path.name))
    reaching = sorted(path for path in snapshots if _end_offset(path) >= begin)
    return reaching[0] if reaching else None


def _end_offset(snapshot: Path) -> int:
    """The offset of the first record of the log that is not in the snapshot."""
    return int(snapshot.stem.partition("-")[0])


def log_events(records: Iterable[MetadataRecord], image: Image, start: int = 0) -> Iterator[ClusterEvent]:
    """Events of the records from `start` on, given the state before. Raises UnknownFormat."""
    for record in records:
        if record.offset >= start:
            yield from image.apply(record.kind, record.data, record.at_ms * MS)


def snapshot_events(records: Iterable[MetadataRecord], image: Image) -> Iterator[ClusterEvent]:
    """The cluster's state in a snapshot, as events at the time of the last change in it: the records have the
    time at which it was written. Raises UnknownFormat.
    """
    at_ms: int | None = None
    for record in records:
        if record.kind == _SNAPSHOT_HEADER:
            at_ms = record.data["LastContainedLogTimestamp"]
        at_ns = (record.at_ms if at_ms is None else at_ms) * MS
        for event in image.apply(record.kind, record.data, at_ns):
            yield event._replace(source=METADATA_SNAPSHOT)


def log_progress(metadata_log: Path) -> tuple[int, int]:
    """How up to date a voter's log is: its epoch first, then its length. Raises UnknownFormat."""
    path = metadata_log / "quorum-state"
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError):
        state = {"leaderEpoch": -1}  # a full disk, or a node that never started
    epoch = state.get("leaderEpoch") if isinstance(state, dict) else None
    if not isinstance(epoch, int):
        raise UnknownFormat(f"{path} has {json.dumps(state)[:200]}")
    return epoch, sum(segment.stat().st_size for segment in metadata_log.glob("*.log"))


@dataclass
class _Partition:
    leader: int
    leader_epoch: int
    isr: list[int]
    elr: list[int]


@dataclass
class Image:
    """The cluster's state after the last record; the next one is relative to it."""

    topics: dict[bytes, str] = field(default_factory=dict)
    partitions: dict[tuple[bytes, int], _Partition] = field(default_factory=dict)
    alive: dict[int, bool] = field(default_factory=dict)
    moved: bool = False  # whether a partition had changed between its creation and its first record read here

    def apply(self, kind: str, data: dict[str, Any], at_ns: int) -> Iterator[ClusterEvent]:
        """The events of one record. Raises UnknownFormat."""
        try:
            yield from self._apply(kind, data, at_ns)
        except (KeyError, TypeError, ValueError) as error:
            raise UnknownFormat(
                f"the metadata log has a {kind} without what it should have ({error})"
            ) from None

    def _apply(self, kind: str, data: dict[str, Any], at_ns: int) -> Iterator[ClusterEvent]:
        match kind:
            case "TopicRecord":
                self.topics[data["TopicId"]] = data["Name"]
            case "PartitionRecord":
                state = _Partition(
                    data["Leader"], data["LeaderEpoch"], data["Isr"], data.get("EligibleLeaderReplicas") or []
                )
                self.partitions[(data["TopicId"], data["PartitionId"])] = state
                self.moved = self.moved or data.get("PartitionEpoch", 0) > 0
                yield self._event("leader", data, state, at_ns)
            case "PartitionChangeRecord":
                yield from self._partition_change(data, at_ns)
            case "RegisterBrokerRecord":
                # A broker that comes back is fenced until it has caught up; in a snapshot it may be unfenced
                # already.
                yield from self._fencing(data["BrokerId"], data.get("Fenced") is False, at_ns)
            case "BrokerRegistrationChangeRecord" if data.get("Fenced", 0) in (_FENCE, _UNFENCE):
                yield from self._fencing(data["BrokerId"], data["Fenced"] == _UNFENCE, at_ns)
            case _:
                return

    def _partition_change(self, data: dict[str, Any], at_ns: int) -> Iterator[ClusterEvent]:
        """A change record has only changed fields; one with a leader, even the same, starts an epoch."""
        state = self.partitions.get((data["TopicId"], data["PartitionId"]))
        if state is None:
            return  # its creation could not be read, which is reported already
        before = (state.isr, state.elr)
        state.isr = _value_or(data.get("Isr"), state.isr)
        state.elr = _value_or(data.get("EligibleLeaderReplicas"), state.elr)
        if "Leader" in data:
            state.leader, state.leader_epoch = data["Leader"], state.leader_epoch + 1
            yield self._event("leader", data, state, at_ns)
        elif before != (state.isr, state.elr):
            yield self._event("isr", data, state, at_ns)

    def _fencing(self, broker: int, alive: bool, at_ns: int) -> Iterator[ClusterEvent]:
        if self.alive.get(broker, False) != alive:
            self.alive[broker] = alive
            kind = "unfenced" if alive else "fenced"
            yield ClusterEvent(kind, broker, None, None, None, None, None, at_ns)

    def _event(self, kind: str, data: dict[str, Any], state: _Partition, at_ns: int) -> ClusterEvent:
        return ClusterEvent(
            kind,
            None,
            self.topics[data["TopicId"]],
            data["PartitionId"],
            state.leader,
            state.leader_epoch,
            list(state.isr),
            at_ns,
            elr=list(state.elr),
        )


def _value_or(value: list[int] | None, otherwise: list[int]) -> list[int]:
    return otherwise if value is None else value
