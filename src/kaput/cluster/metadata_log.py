"""Reads the cluster's own record of leader epochs, ISR changes and fencing: the KRaft metadata log.

Kafka's own dump tool decodes the log's files, whether their controller runs or was killed; the records'
timestamps are the controller's, in ms. If the beginning of the log was replaced by a snapshot, the state of
the cluster then comes from the snapshot. Its place: mode.py reads it after a run, so that the verdict needs
no Kafka.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import NO_MAIN_CLASS, Distribution, java_command
from kaput.cluster.kafka_cluster import METADATA_SNAPSHOT, ClusterEvent, CollectedEvents
from kaput.cluster.record_batches import StoredBatch, decode
from kaput.cluster.segments import segments
from kaput.errors import UnknownFormat
from kaput.java import Java

# Up to Kafka 4.1 it is in another package.
_TOOL, _OLDER_TOOL = "org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"
_TIMEOUT_S = 60
_SHOWN = 200  # characters of a line
_RETRY_AFTER_S = 0.5  # enough for the controller to finish its current write
_FILE = re.compile(r"Dumping (.+)$")
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* isControl: (\w+) .*"
    r"position: (\d+) .* size: (\d+) .* isvalid: (\w+)$"
)
# Kafka 3.7 only prints the type of control records, later versions their contents.
_CONTROL = re.compile(r"\| offset: \d+ (?:.*\}|.* controlType: \w+\(\d+\))$")
RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? payload: (\{.*\})$")


class Dump(NamedTuple):
    """The tool's output; `problem`: why it is incomplete (None: it is complete)."""

    lines: list[str]
    problem: str | None


def dump(distribution: Distribution, java: Java, files: Sequence[Path]) -> Dump:
    """The tool's output for `files`; runs it again if the first output was incomplete."""
    first = _run(distribution, java, files)
    if first.problem is None:
        return first
    time.sleep(_RETRY_AFTER_S)
    again = _run(distribution, java, files)
    return again if again.problem is None or len(again.lines) >= len(first.lines) else first


def dump_tool_class(distribution: Distribution) -> str:
    return _TOOL if distribution.has_class(_TOOL) else _OLDER_TOOL


def _run(distribution: Distribution, java: Java, files: Sequence[Path]) -> Dump:
    command = java_command(
        java,
        distribution,
        dump_tool_class(distribution),
        ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))],
        archive=find_archive(distribution, java),
        heap=("-Xms64m", "-Xmx512m"),
    )
    try:
        sizes = {str(file): file.stat().st_size for file in files}
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Dump([], f"it took longer than {_TIMEOUT_S} s")
    except OSError as error:
        return Dump([], str(error))
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no output"]
        why = next((line for line in output if "Exception" in line or "Error" in line), output[-1])
        if NO_MAIN_CLASS in why:
            why = str(UnknownFormat(f"Kafka {distribution.version} has it in another place"))
        return Dump(lines, f"it ended with status {done.returncode}: {why.strip()[:300]}")
    return Dump(lines, missing_part(lines, sizes))


def missing_part(lines: Sequence[str], sizes: dict[str, int]) -> str | None:
    """What the output for consecutive files lacks; None if nothing. `sizes`: of the files, in bytes."""
    printed_bytes: dict[str, int] = {}
    file, records_due, next_offset, control = "", 0, None, False
    for line in lines:
        if file_line := _FILE.match(line):
            file = file_line[1]
            printed_bytes[file] = 0
        elif batch := _BATCH.match(line):
            base, last, count = map(int, batch.groups()[:3])
            if records_due or batch[7] != "true" or next_offset not in (None, base):
                break
            records_due, next_offset, control = count, last + 1, batch[4] == "true"
            printed_bytes[file] = int(batch[5]) + int(batch[6])
        elif (_CONTROL if control else RECORD).match(line) and _is_complete(line):
            records_due -= 1
        elif line.startswith("|") and line is not lines[-1]:  # the last one may be cut
            return str(UnknownFormat(f"it printed {line[:_SHOWN]!r}"))
    if records_due > 0:
        return f"a batch of {file} is not whole"
    if next_offset is None and any(sizes.values()) and len(lines) > 1:
        return str(UnknownFormat(f"it printed {lines[-1][:_SHOWN]!r}"))
    for name, size in sizes.items():
        if printed_bytes.get(name, 0) < size:
            return f"it printed {printed_bytes.get(name, 0)} of the {size} bytes of {name}"
    return None


def _is_complete(line: str) -> bool:
    """Whether a record's line is complete; only control records have no JSON payload."""
    _, separator, payload = line.partition(" payload: ")
    try:
        return not separator or bool(json.loads(payload))
    except ValueError:
        return False


_FRAME = 1  # the only version of the frame before each record
_TOPIC, _PARTITION, _PARTITION_CHANGE = 2, 3, 5
_UUID_BYTES = 16
_ISR_TAG, _LEADER_TAG = 0, 1
_INT = struct.Struct(">i")


class MetadataRecord(NamedTuple):
    """`kind` and `data` as the dump tool prints them, but `topicId` as raw bytes."""

    kind: str
    data: dict[str, Any]
    at_ms: int


def decode_metadata(batch: StoredBatch) -> Iterator[MetadataRecord]:
    """A batch's records about topics and partitions. Raises ValueError if broken, or UnknownFormat."""
    for record in decode([batch.unpacked()]).whole():
        try:
            decoded = _decode(_RecordFields(record.value or b""))
        except (IndexError, struct.error):
            raise ValueError(f"the metadata record at offset {record.offset} is broken") from None
        if decoded is not None:
            yield MetadataRecord(*decoded, record.timestamp_ms)


class _RecordFields:
    """Kafka's flexible encoding, read field by field. Raises IndexError or struct.error at its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def int32(self) -> int:
        (value,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(value)

    def raw(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.raw(self.unsigned() - 1).decode()

    def ints(self) -> list[int]:
        return [self.int32() for _ in range(self.unsigned() - 1)]

    def tagged(self) -> dict[int, _RecordFields]:
        return {self.unsigned(): _RecordFields(self.raw(self.unsigned())) for _ in range(self.unsigned())}


def _decode(fields: _RecordFields) -> tuple[str, dict[str, Any]] | None:
    """None for records about anything else."""
    if (frame := fields.unsigned()) != _FRAME:
        raise UnknownFormat(f"the metadata log has records in frames of version {frame}")
    kind, _version = fields.unsigned(), fields.unsigned()
    if kind == _TOPIC:
        name = fields.text()
        return "TOPIC_RECORD", {"name": name, "topicId": fields.raw(_UUID_BYTES)}
    if kind not in (_PARTITION, _PARTITION_CHANGE):
        return None
    place = {"partitionId": fields.int32(), "topicId": fields.raw(_UUID_BYTES)}
    if kind == _PARTITION:
        _replicas, isr, _removing, _adding = (fields.ints() for _ in range(4))
        leader, epoch, changes = (fields.int32() for _ in range(3))
        state = {"isr": isr, "leader": leader, "leaderEpoch": epoch, "partitionEpoch": changes}
        return "PARTITION_RECORD", place | state
    changed, change = fields.tagged(), dict[str, Any]()
    if _ISR_TAG in changed:
        change["isr"] = changed[_ISR_TAG].ints()
    if _LEADER_TAG in changed:
        change["leader"] = changed[_LEADER_TAG].int32()
    return "PARTITION_CHANGE_RECORD", place | change


# In a snapshot, the records' timestamps are those of writing it; the header has the time of the last change.
_HEADER = re.compile(r"\| offset: 0 .*SnapshotHeader .*\"lastContainedLogTimestamp\":(\d+)")
_SNAPSHOT_NAME = re.compile(r"\d{20}-\d{10}\.checkpoint")
_FENCE, _UNFENCE = 1, -1


def read_cluster_events(distribution: Distribution, java: Java, metadata_log: Path) -> CollectedEvents:
    """The events in one voter's metadata log directory, in log order, and what could not be read of it."""
    files = segments(metadata_log)
    if not files:
        return CollectedEvents([], [f"{metadata_log} holds no metadata log: changes of leader are not known"])
    image, events, troubles, start = Image(), list[ClusterEvent](), list[str](), 0
    if (begin := int(files[0].stem)) > 0:
        snapshot = _first_snapshot(metadata_log, begin)
        if snapshot is not None:
            dumped = dump(distribution, java, [snapshot])
            start = _end_offset(snapshot)
            _collect(read_snapshot(dumped.lines, image), events, troubles)
            troubles += _incomplete_trouble(snapshot, dumped.problem)
        if image.moved or snapshot is None:
            troubles.append(
                f"the metadata log {metadata_log} begins at offset {max(start, begin)}: "
                "changes of leader and ISR before that are not known"
            )
    dumped = dump(distribution, java, files)
    _collect(parse(dumped.lines, image, start), events, troubles)
    return CollectedEvents(events, troubles + _incomplete_trouble(metadata_log, dumped.problem))


def _collect(new_events: Iterator[ClusterEvent], events: list[ClusterEvent], troubles: list[str]) -> None:
    """Adds the events up to the first record that kaput does not know, if there is one."""
    try:
        events.extend(new_events)
    except UnknownFormat as error:
        troubles.append(f"changes of leader are not known from there on: {error}")


def _incomplete_trouble(path: Path, problem: str | None) -> list[str]:
    if problem is None:
        return []
    return [f"Kafka's dump tool did not print all of {path} ({problem}): changes of leader may be missing"]


def _first_snapshot(metadata_log: Path, begin: int) -> Path | None:
    snapshots = (path for path in metadata_log.iterdir() if _SNAPSHOT_NAME.fullmatch(path.name))
    reaching = sorted(path for path in snapshots if _end_offset(path) >= begin)
    return reaching[0] if reaching else None


def _end_offset(snapshot: Path) -> int:
    """The offset of the first record of the log that is not in the snapshot."""
    return int(snapshot.stem.partition("-")[0])


def parse(lines: Iterable[str], image: Image | None = None, start: int = 0) -> Iterator[ClusterEvent]:
    """Events in the dump tool's output from `start` on, given the state before. Raises UnknownFormat."""
    image = image or Image()
    for line in lines:
        match = RECORD.match(line)
        if match is not None and int(match[1]) >= start and (record := _parse_record(match[3])):
            yield from image.apply(record["type"], record["data"], int(match[2]) * 1_000_000)


def read_snapshot(lines: Iterable[str], image: Image) -> Iterator[ClusterEvent]:
    """The cluster's state in a snapshot, as events at the snapshot's last timestamp. Raises UnknownFormat."""
    at_ms: int | None = None
    for line in lines:
        if header := _HEADER.match(line):
            at_ms = int(header[1])
        elif (match := RECORD.match(line)) and (record := _parse_record(match[3])):
            at_ns = (int(match[2]) if at_ms is None else at_ms) * 1_000_000
            for event in image.apply(record["type"], record["data"], at_ns):
                yield event._replace(source=METADATA_SNAPSHOT)


def _parse_record(payload: str) -> dict[str, Any] | None:
    """The record; None for a torn one, which `dump` reports."""
    try:
        record: dict[str, Any] = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(record.get("type"), str) or not isinstance(record.get("data"), dict):
        raise UnknownFormat(f"the metadata log has {payload[:200]}")
    return record


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

    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], _Partition] = field(default_factory=dict)
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
            case "TOPIC_RECORD":
                self.topics[data["topicId"]] = data["name"]
            case "PARTITION_RECORD":
                state = _Partition(
                    data["leader"], data["leaderEpoch"], data["isr"], data.get("eligibleLeaderReplicas") or []
                )
                self.partitions[(data["topicId"], data["partitionId"])] = state
                self.moved = self.moved or data.get("partitionEpoch", 0) > 0
                yield self._event("leader", data, state, at_ns)
            case "PARTITION_CHANGE_RECORD":
                yield from self._partition_change(data, at_ns)
            case "REGISTER_BROKER_RECORD":
                # A broker that comes back is fenced until it has caught up; in a snapshot it may be unfenced
                # already.
                yield from self._fencing(data["brokerId"], data.get("fenced") is False, at_ns)
            case "BROKER_REGISTRATION_CHANGE_RECORD" if data.get("fenced", 0) in (_FENCE, _UNFENCE):
                yield from self._fencing(data["brokerId"], data["fenced"] == _UNFENCE, at_ns)
            case _:
                return

    def _partition_change(self, data: dict[str, Any], at_ns: int) -> Iterator[ClusterEvent]:
        """A change record has only changed fields; one with a leader, even the same, starts an epoch."""
        state = self.partitions.get((data["topicId"], data["partitionId"]))
        if state is None:
            return  # its creation could not be read, which is reported already
        before = (state.isr, state.elr)
        state.isr = _value_or(data.get("isr"), state.isr)
        state.elr = _value_or(data.get("eligibleLeaderReplicas"), state.elr)
        if "leader" in data:
            state.leader, state.leader_epoch = data["leader"], state.leader_epoch + 1
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
            self.topics[data["topicId"]],
            data["partitionId"],
            state.leader,
            state.leader_epoch,
            list(state.isr),
            at_ns,
            elr=list(state.elr),
        )


def _value_or(value: list[int] | None, otherwise: list[int]) -> list[int]:
    return otherwise if value is None else value
