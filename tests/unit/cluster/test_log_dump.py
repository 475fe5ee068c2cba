"""What Kafka's dump tool prints is taken for all there is only where it is: cut anywhere, it is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.metadata_log import Image, log_progress, missing_part, parse, read_snapshot
from kaput.errors import UnknownFormat

ID = "bQX0QAWcTBKpvom9jlOb6g"


def batch(base: int, count: int, position: int, size: int, valid: bool = True, control: bool = False) -> str:
    """A batch's header as the tool prints it."""
    return (
        f"baseOffset: {base} lastOffset: {base + count - 1} count: {count} baseSequence: -1 lastSequence: -1 "
        "producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false "
        f"isControl: {str(control).lower()} deleteHorizonMs: OptionalLong.empty position: {position} "
        f"CreateTime: 1795304343450 size: {size} "
        f"magic: 2 compresscodec: none crc: 1606945267 isvalid: {str(valid).lower()}"
    )


def record(offset: int, kind: str = "NO_OP_RECORD", **data: Any) -> str:
    """A record as the tool prints it."""
    payload = json.dumps({"type": kind, "version": 0, "data": data}, separators=(",", ":"))
    return (
        f"| offset: {offset} CreateTime: {1_000 + offset} keySize: -1 valueSize: 9 sequence: -1 "
        f"headerKeys: [] payload: {payload}"
    )


PRINT = [
    "Dumping /data/0.log",
    "Log starting offset: 0",
    batch(0, 1, 0, 91, control=True),
    "| offset: 0 CreateTime: 1 keySize: 4 valueSize: 19 sequence: -1 headerKeys: [] LeaderChange: {}",
    batch(1, 3, 91, 300),
    record(1),
    record(2),
    record(3),
    "Dumping /data/4.log",
    "Log starting offset: 4",
    batch(4, 2, 0, 120),
    record(4),
    record(5),
]
SIZES = {"/data/0.log": 391, "/data/4.log": 120}


def test_complete_dump_has_no_missing_part() -> None:
    """Also where the controller has written on meanwhile, and where nothing was printed of nothing."""
    assert missing_part(PRINT, SIZES) is None
    assert missing_part(PRINT, {"/data/0.log": 391, "/data/4.log": 100}) is None
    assert missing_part([], {}) is None


def test_control_record_format_of_kafka_3_7_is_accepted() -> None:
    """Its line ends with the kind; cut, it is noticed as others are."""
    control = PRINT[3].replace("LeaderChange: {}", "controlType: LEADER_CHANGE(2)")
    assert missing_part([*PRINT[:3], control, *PRINT[4:]], SIZES) is None
    for end in range(1, len(control)):
        assert missing_part([*PRINT[:3], control[:end], *PRINT[4:]], SIZES) is not None, control[:end]


def test_dump_cut_after_any_line_is_detected() -> None:
    """Also between two batches, and between two files, where every line is whole."""
    for end in range(len(PRINT)):
        assert missing_part(PRINT[:end], SIZES) is not None, PRINT[:end]


def test_dump_cut_within_a_record_is_detected() -> None:
    """The last line of a tool that was killed is half a line."""
    last = PRINT[-1]
    for end in range(1, len(last)):
        assert missing_part([*PRINT[:-1], last[:end]], SIZES) is not None, last[:end]


@pytest.mark.parametrize(
    ("lines", "sizes", "why"),
    [
        (PRINT, SIZES | {"/data/4.log": 121}, "it printed 120 of the 121 bytes of /data/4.log"),
        (PRINT[:8] + PRINT[9:10] + [batch(5, 1, 0, 120), record(5)], {"/data/0.log": 999}, "391 of the 999"),
        ([*PRINT[:4], *PRINT[8:]], SIZES, "91 of the 391 bytes"),
        ([*PRINT[:10], batch(4, 2, 0, 120, valid=False), *PRINT[11:]], SIZES, "0 of the 120 bytes"),
        ([*PRINT[:5], *PRINT[6:]], SIZES, "batch of /data/4.log is not whole|bytes of"),
    ],
)
def test_missing_part_of_a_dump_is_named(lines: list[str], sizes: dict[str, int], why: str) -> None:
    """A tail, a hole between batches, a wrong checksum, a record."""
    missing = missing_part(lines, sizes)
    assert missing is not None
    assert any(part in missing for part in why.split("|")), missing


@pytest.mark.parametrize(
    "lines",
    [
        ["Dumping /data/0.log", "batch 0 to 3, 391 bytes", "record 0"],
        [*PRINT[:5], PRINT[5].replace("payload: ", "record: "), *PRINT[6:]],
        [*PRINT[:5], f"| {PRINT[5][2:].replace('offset', 'at')}", *PRINT[6:]],
        [line.replace("baseOffset", "firstOffset") for line in PRINT],
    ],
)
def test_output_of_an_unknown_format_is_named(lines: list[str]) -> None:
    """Not as a file that was cut: with what was printed, and with the versions that kaput works with."""
    missing = missing_part(lines, SIZES)
    assert missing is not None and "which kaput does not know: it works with Kafka 3.7.0 to" in missing


@pytest.mark.parametrize(
    ("record_", "what"),
    [
        (record(3, "PARTITION_CHANGE_RECORD", partition=0, topicId=ID, leader=1), "PARTITION_CHANGE_RECORD"),
        (record(3, "PARTITION_RECORD", partitionId=0, topicId="else", leader=1), "PARTITION_RECORD"),
        (record(3, "REGISTER_BROKER_RECORD", broker=1, fenced=True), "REGISTER_BROKER_RECORD"),
        (record(3).replace('"type"', '"kind"'), '{"kind":"NO_OP_RECORD"'),
    ],
)
def test_metadata_record_without_its_fields_is_an_unknown_format(record_: str, what: str) -> None:
    """And no KeyError, which would be a bug of kaput's."""
    with pytest.raises(UnknownFormat, match="which kaput does not know") as caught:
        list(parse([record(1, "TOPIC_RECORD", name="orders", topicId=ID), record_]))
    assert what in str(caught.value)


@pytest.mark.parametrize("state", ['{"epoch": 4}', "[]", '{"leaderEpoch": "4"}'])
def test_unknown_quorum_state_is_named(state: str, tmp_path: Path) -> None:
    """Which voter's log is the newest would be a guess; a missing or torn file goes by size."""
    assert log_progress(tmp_path) == (-1, 0)
    (tmp_path / "quorum-state").write_text('{"leaderEpoch": 4')
    assert log_progress(tmp_path) == (-1, 0)
    (tmp_path / "quorum-state").write_text(state)
    with pytest.raises(UnknownFormat, match=r"quorum-state has .*, which kaput does not know"):
        log_progress(tmp_path)


def partition(epoch: int, changes: int) -> str:
    """orders/0 as a snapshot has it."""
    return record(
        2, "PARTITION_RECORD", partitionId=0, topicId=ID, replicas=[1, 2], isr=[2], leader=2,
        leaderEpoch=epoch, partitionEpoch=changes,
    )  # fmt: skip


def test_log_events_continue_from_the_snapshot() -> None:
    """Its state is told of the moment it knows, brokers that are in are in, and later changes build on it."""
    header = "| offset: 0 CreateTime: 9 keySize: 4 valueSize: 11 sequence: -1 headerKeys: [] SnapshotHeader "
    lines = [
        header + '{"version":0,"lastContainedLogTimestamp":77}',
        record(1, "REGISTER_BROKER_RECORD", brokerId=2, fenced=False),
        record(2, "REGISTER_BROKER_RECORD", brokerId=1, fenced=True),
        record(3, "TOPIC_RECORD", name="orders", topicId=ID),
        partition(3, 4),
    ]
    image = Image()
    state = list(read_snapshot(lines, image))
    assert [(e.kind, e.broker, e.leader_epoch, e.at_ns, e.source) for e in state] == [
        ("unfenced", 2, None, 77_000_000, "metadata-snapshot"),
        ("leader", None, 3, 77_000_000, "metadata-snapshot"),
    ]
    assert image.moved
    change = record(40, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=ID, leader=1, isr=[1])
    earlier = record(39, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=ID, leader=1)
    (event,) = parse([earlier, change], image, start=40)  # what the snapshot holds already is left out
    assert (event.leader, event.leader_epoch, event.isr, event.source) == (1, 4, [1], "metadata-log")


def test_change_of_an_unknown_partition_is_ignored() -> None:
    """Its creation was in what could not be read: no event, and no KeyError."""
    assert list(parse([record(1, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=ID, leader=1)])) == []
