"""Events from the metadata log: epochs, ISR, partitions without a leader, fencing; what cannot be read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from fakes.segments import batch, write_segment
from kaput.cluster import protocol
from kaput.cluster.distribution import resolve
from kaput.cluster.kafka_cluster import ClusterEvent
from kaput.cluster.message_schemas import MessageCodec
from kaput.cluster.metadata_log import (
    Image,
    MetadataDecoder,
    MetadataRecord,
    log_events,
    log_progress,
    read_cluster_events,
    read_records,
    snapshot_events,
)
from kaput.cluster.record_batches import StoredBatch, header
from kaput.core import NEWEST_KAFKA
from kaput.errors import LabError, UnknownFormat
from kaput.java import find_java

ID = b"0123456789abcdef"


def record(at_ms: int, kind: str, offset: int = 7, **data: Any) -> MetadataRecord:
    return MetadataRecord(offset, at_ms, kind, data)


def change(at_ms: int, offset: int = 7, **data: Any) -> MetadataRecord:
    """A change of partition 0."""
    return record(at_ms, "PartitionChangeRecord", offset, PartitionId=0, TopicId=ID, **data)


TOPIC = record(1, "TopicRecord", Name="orders", TopicId=ID)
PARTITION = record(
    1, "PartitionRecord", PartitionId=0, TopicId=ID, Replicas=[1, 2], Isr=[1, 2], Leader=1, LeaderEpoch=0
)


def events(*records: MetadataRecord) -> list[ClusterEvent]:
    return list(log_events(records, Image()))


def test_creation_and_election_are_leader_events() -> None:
    """A new partition is a leader event of epoch 0; naming a leader begins the next epoch."""
    assert events(TOPIC, PARTITION, change(5, Isr=[2], Leader=2, EligibleLeaderReplicas=[1])) == [
        ClusterEvent("leader", None, "orders", 0, 1, 0, [1, 2], 1_000_000, elr=[]),
        ClusterEvent("leader", None, "orders", 0, 2, 1, [2], 5_000_000, elr=[1]),
    ]


def test_an_isr_change_keeps_leader_and_epoch() -> None:
    """Without a leader in the record, the current one is filled in."""
    *_, last = events(TOPIC, PARTITION, change(3, Isr=[1]))
    assert last == ClusterEvent("isr", None, "orders", 0, 1, 0, [1], 3_000_000, elr=[])


def test_the_same_leader_named_again_is_a_new_epoch() -> None:
    """Kafka bumps the epoch whenever a record names a leader."""
    *_, last = events(TOPIC, PARTITION, change(3, Leader=1))
    assert (last.kind, last.leader, last.leader_epoch, last.isr) == ("leader", 1, 1, [1, 2])


def test_partition_without_a_leader() -> None:
    """Leader -1 stays -1, with an empty ISR and whoever may still lead."""
    *_, last = events(TOPIC, PARTITION, change(3, Isr=[], Leader=-1, EligibleLeaderReplicas=[1]))
    assert (last.leader, last.leader_epoch, last.isr, last.elr) == (-1, 1, [], [1])


def test_replica_change_alone_is_no_event() -> None:
    """What leaves leader, ISR and ELR as they are is of no interest here."""
    assert len(events(TOPIC, PARTITION, change(3, AddingReplicas=[3]))) == 1


def test_fencing_events_follow_state_changes_only() -> None:
    """A broker registers fenced, is unfenced, fenced, and fenced again only if it was not."""
    broker = {"BrokerId": 2, "BrokerEpoch": 11}
    registered = {**broker, "Fenced": True}
    found = events(
        record(1, "RegisterBrokerRecord", **registered),
        record(2, "BrokerRegistrationChangeRecord", **broker, Fenced=-1),
        record(3, "BrokerRegistrationChangeRecord", **broker, CordonedLogDirs=[]),
        record(4, "BrokerRegistrationChangeRecord", **broker, Fenced=1),
        record(5, "RegisterBrokerRecord", **registered),
        record(6, "BrokerRegistrationChangeRecord", **broker, Fenced=-1),
        record(7, "RegisterBrokerRecord", **registered),
    )
    expected = [("unfenced", 2), ("fenced", 4), ("unfenced", 6), ("fenced", 7)]
    assert [(each.kind, each.broker, each.at_ns) for each in found] == [
        (kind, 2, at_ms * 1_000_000) for kind, at_ms in expected
    ]


def test_change_of_an_unknown_partition_is_ignored() -> None:
    """Its creation was in what could not be read: no event, and no KeyError."""
    assert events(change(1, Leader=1)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        record(3, "PartitionChangeRecord", Partition=0, TopicId=ID, Leader=1),
        record(3, "PartitionRecord", PartitionId=0, TopicId=b"else", Leader=1),
        record(3, "RegisterBrokerRecord", Broker=1, Fenced=True),
    ],
)
def test_metadata_record_without_its_fields_is_an_unknown_format(wrong: MetadataRecord) -> None:
    """And no KeyError, which would be a bug of kaput's."""
    with pytest.raises(UnknownFormat, match="which kaput does not know") as caught:
        events(TOPIC, wrong)
    assert wrong.kind in str(caught.value)


def test_log_events_continue_from_the_snapshot() -> None:
    """Its state is told of the moment it knows, brokers that are in are in, and later changes build on it."""
    partition = PARTITION._replace(data=PARTITION.data | {"Leader": 2, "LeaderEpoch": 3, "PartitionEpoch": 4})
    image = Image()
    state = list(
        snapshot_events(
            [
                record(9, "SnapshotHeaderRecord", LastContainedLogTimestamp=77),
                record(10, "RegisterBrokerRecord", BrokerId=2, Fenced=False),
                record(10, "RegisterBrokerRecord", BrokerId=1, Fenced=True),
                TOPIC,
                partition,
            ],
            image,
        )
    )
    assert [(e.kind, e.broker, e.leader_epoch, e.at_ns, e.source) for e in state] == [
        ("unfenced", 2, None, 77_000_000, "metadata-snapshot"),
        ("leader", None, 3, 77_000_000, "metadata-snapshot"),
    ]
    assert image.moved
    # What the snapshot holds already is left out.
    (event,) = log_events([change(39, 39, Leader=1), change(40, 40, Leader=1, Isr=[1])], image, start=40)
    assert (event.leader, event.leader_epoch, event.isr, event.source) == (1, 4, [1], "metadata-log")


@pytest.mark.parametrize("state", ['{"epoch": 4}', "[]", '{"leaderEpoch": "4"}'])
def test_unknown_quorum_state_is_named(state: str, tmp_path: Path) -> None:
    """Which voter's log is the newest would be a guess; a missing or torn file goes by size."""
    assert log_progress(tmp_path) == (-1, 0)
    (tmp_path / "quorum-state").write_text('{"leaderEpoch": 4')
    assert log_progress(tmp_path) == (-1, 0)
    (tmp_path / "quorum-state").write_text(state)
    with pytest.raises(UnknownFormat, match=r"quorum-state has .*, which kaput does not know"):
        log_progress(tmp_path)


JARS = resolve(NEWEST_KAFKA, find_java()).jars
FILES = (
    (0, [batch(0, [b"a leader"], control=True), batch(1, [b"\1\x14\0"] * 3)]),
    (4, [batch(4, [b"\1\x14\0"])]),
)


@pytest.fixture(scope="module")
def decoder() -> MetadataDecoder:
    return MetadataDecoder(JARS)


def encoded(decoder: MetadataDecoder, key: int, version: int, data: dict[str, Any]) -> bytes:
    """A record as the controller writes it, without tagged fields."""
    schema = decoder._schemas[key]
    return bytes([1, key, version]) + MessageCodec(schema, version).write(schema["fields"], data)


def log(folder: Path, files: Any = FILES) -> list[Path]:
    return [write_segment(folder, base, *batches) for base, batches in files]


def test_each_version_of_a_record_is_decoded(decoder: MetadataDecoder, tmp_path: Path) -> None:
    """A broker's registration has more fields from version to version, before the one that counts."""
    one = {"Name": "PLAINTEXT", "Host": "h", "Port": 40_000, "SecurityProtocol": 0}
    level = {"Name": "metadata.version", "MinSupportedVersion": 1, "MaxSupportedVersion": 30}
    data = {
        "BrokerId": 3, "IsMigratingZkBroker": False, "IncarnationId": ID, "BrokerEpoch": 9,
        "EndPoints": [one], "Features": [level], "Rack": None, "Fenced": False, "InControlledShutdown": False,
    }  # fmt: skip
    values = [encoded(decoder, 0, version, data) for version in range(5)]
    read = read_records([write_segment(tmp_path, 0, batch(0, values))], decoder)
    assert read.problem is None
    assert [(each.data["BrokerId"], each.data["Fenced"]) for each in read.records] == [(3, False)] * 5
    (event,) = events(*read.records)
    assert (event.kind, event.broker) == ("unfenced", 3)


def test_complete_log_has_no_problem(decoder: MetadataDecoder, tmp_path: Path) -> None:
    """Also where there are only records of other kinds, and records of the quorum itself."""
    assert read_records(log(tmp_path), decoder) == ([], None)
    assert read_records([], decoder) == ([], None)
    assert read_cluster_events(JARS, tmp_path) == ([], [])


def test_log_that_ends_early_is_noticed(
    decoder: MetadataDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut anywhere but between two batches, or with a byte that has changed."""
    monkeypatch.setattr("kaput.cluster.metadata_log._RETRY_AFTER_S", 0)
    first, _ = files = log(tmp_path)
    whole, second = first.read_bytes(), len(FILES[0][1][0])
    epochs = {begin + at for begin in (0, second) for at in range(12, 16)}  # the checksum does not cover them
    for end in range(1, len(whole)):
        first.write_bytes(whole[:end])
        problem = read_records([first], decoder).problem
        assert (problem is None) == (end == second), end
        first.write_bytes(whole[:end] + bytes([whole[end] ^ 1]) + whole[end + 1 :])
        assert end in epochs or read_records(files, decoder).problem is not None, end


def test_records_before_a_batch_that_cannot_be_unpacked_are_read(decoder: MetadataDecoder) -> None:
    """As before one whose records are cut off."""
    topic = encoded(decoder, 2, 0, {"Name": "orders", "TopicId": ID})
    first, second = batch(0, [topic]), batch(1, [b"\1\x14\0"])
    heads = header(first), header(second)
    assert heads[0] is not None and heads[1] is not None
    stored = [StoredBatch(heads[0], first), StoredBatch(heads[1]._replace(attributes=1), second)]  # no gzip
    read = list[MetadataRecord]()
    with pytest.raises(ValueError):
        for each in decoder.decode(stored):
            read.append(each)
    assert [each.kind for each in read] == ["TopicRecord"]


def test_batch_that_was_intact_is_not_checked_again(
    decoder: MetadataDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum takes a third of a second per MB."""
    monkeypatch.setattr("kaput.cluster.metadata_log._RETRY_AFTER_S", 0)
    checked, crc = list[int](), protocol.calc_crc32c

    def noted(data: bytes) -> int:
        checked.append(len(data))
        return int(crc(data))

    monkeypatch.setattr(protocol, "calc_crc32c", noted)
    first, _ = log(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])
    assert read_records([first], decoder).problem is not None
    assert len(checked) == 1


def test_gap_between_two_batches_is_noticed(decoder: MetadataDecoder, tmp_path: Path) -> None:
    files = log(tmp_path, ((0, [batch(0, [b"\1\x14\0"]), batch(2, [b"\1\x14\0"])]),))
    size, whole = files[0].stat().st_size, len(batch(0, [b"\1\x14\0"]))
    (trouble,) = read_cluster_events(JARS, tmp_path).troubles
    assert trouble == (
        f"not all of {tmp_path} could be read ({whole} of the {size} bytes of {files[0]} are intact): "
        "changes of leader may be missing"
    )


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (b"\2\x14\0", "the metadata log has records in frames of version 2"),
        (b"\1\3\x63", "the metadata log has a PartitionRecord of version 99"),
    ],
)
def test_record_of_an_unknown_format_is_named(value: bytes, what: str, tmp_path: Path) -> None:
    """Not as a file that was cut: with what is there, and with the versions that kaput works with."""
    log(tmp_path, ((0, [batch(0, [value])]),))
    (trouble,) = read_cluster_events(JARS, tmp_path).troubles
    assert trouble.startswith(
        f"changes of leader are not known from there on: {what}, which kaput does not know"
    )


def test_jars_that_do_not_describe_the_records_are_an_error() -> None:
    with pytest.raises(LabError, match=r"there is no kafka-metadata-\*\.jar"):
        MetadataDecoder([])


def test_time_of_a_snapshot_is_in_its_header(decoder: MetadataDecoder, tmp_path: Path) -> None:
    header = batch(0, [struct.pack(">hqB", 0, 77, 0)], control=True, keys=[b"\0\0\0\3"])
    ((_, _, kind, data),) = read_records([write_segment(tmp_path, 0, header)], decoder).records
    assert (kind, data) == ("SnapshotHeaderRecord", {"LastContainedLogTimestamp": 77})
