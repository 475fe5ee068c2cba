"""What notices events: each source reads files as Kafka and the members write them."""

from __future__ import annotations

import json
import struct
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from fakes.cluster import FakeAdmin, FakeNode
from fakes.segments import batch, write_segment
from kaput.cluster.admin import PartitionState
from kaput.cluster.distribution import resolve
from kaput.cluster.frames.frame_proxy import FrameRule, SeenFrame
from kaput.cluster.message_schemas import MessageCodec, read_schemas
from kaput.cluster.segments import FollowedLog
from kaput.core import NEWEST_KAFKA, TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.faults.event_triggers import Occurrence
from kaput.java import find_java
from kaput.runner.event_sources import (
    FrameEvents,
    MemberEvents,
    MetadataEvents,
    PolledEvents,
    TransactionEvents,
    producers_by_id,
)
from kaput.scenario.loader import load_builtin
from kaput.scenario.producers import partition_of

_KINDS = (
    "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "RegisterBrokerRecord",
    "BrokerRegistrationChangeRecord",
)  # fmt: skip
ID, OTHER = b"a" * 16, b"b" * 16
AT_MS = 1_700_000_000_000


def ints(*values: int) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


def tagged(**fields: bytes) -> bytes:
    """Tagged fields, by `tN`."""
    parts = [bytes([int(name[1:]), len(data)]) + data for name, data in fields.items()]
    return bytes([len(parts)]) + b"".join(parts)


def topic(name: str, uuid: bytes) -> bytes:
    return bytes([1, 2, 0, len(name) + 1]) + name.encode() + uuid + tagged()


def created(uuid: bytes, *isr: int) -> bytes:
    """Partition 0; a directory for each replica, as version 1 of the record has it."""
    directories = bytes([len(isr) + 1]) + b"d" * 16 * len(isr)
    state = struct.pack(">iii", isr[0], 0, 0)
    return (
        bytes([1, 3, 1])
        + struct.pack(">i", 0)
        + uuid
        + ints(*isr) * 2
        + ints() * 2
        + state
        + directories
        + tagged()
    )


def changed(uuid: bytes, **fields: bytes) -> bytes:
    return bytes([1, 5, 2]) + struct.pack(">i", 0) + uuid + tagged(**fields)


def names(found: list[Occurrence]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(each.event, each.of, each.details) for each in found]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A metadata log in which orders and another topic were created."""
    records = [topic("orders", ID), topic("other", OTHER), created(ID, 1, 2, 3), created(OTHER, 1, 2)]
    records.insert(0, bytes([1, 20, 1]) + b"about something else")
    return write_segment(tmp_path / "log", 0, batch(0, [b"leader change"], control=True), batch(1, records))


def jars() -> Sequence[Path]:
    return resolve(NEWEST_KAFKA, find_java()).jars


def test_elections_and_changes_of_the_isr_are_read_from_the_metadata_log(log: Path) -> None:
    """Creations are none, nor are other topics' changes; an epoch without a leader is no election."""
    source = MetadataEvents([log.parent], {"orders": ["dc1:orders", "orders"]}, jars)
    assert source.take() == []
    fenced = [changed(OTHER, t1=struct.pack(">i", 2)), changed(ID, t0=ints(2, 3), t1=struct.pack(">i", 2))]
    with log.open("ab") as more:
        more.write(batch(6, fenced, times_ms=[AT_MS, AT_MS + 1]))
        more.write(batch(8, [changed(ID, t0=ints(2, 3, 1), t6=ints())]))
        more.write(batch(9, [changed(ID, t0=ints(2), t1=struct.pack(">i", -1))]))
    found = source.take()
    of = ("dc1:orders/0", "orders/0", "dc1:orders", "orders")
    assert names(found) == [
        ("election", of, "leader 2, leader epoch 1"),
        ("isr-shrink", of, "broker 1"),
        ("isr-expand", of, "broker 1"),
        ("isr-shrink", of, "broker 1, 3"),
    ]
    assert found[0].at_ns == (AT_MS + 1) * 1_000_000 and found[0].epoch == 1
    assert found[0].place == TopicPartition("orders", 0) and found[0].noticed_ns <= time.time_ns()
    assert source.take() == []
    source.close()


@pytest.mark.parametrize("record", [changed(ID, t0=ints(1))[:-2], bytes([2, 5, 0]), b""])
def test_malformed_metadata_record_is_an_error(log: Path, record: bytes) -> None:
    """And not an event that never comes without a reason."""
    source = MetadataEvents([log.parent], {"orders": ["orders"]}, jars)
    with log.open("ab") as more:
        more.write(batch(6, [record]))
    with pytest.raises(ValueError, match=r"metadata record|the metadata log has"):
        source.take()
    source.close()


def test_events_before_and_after_an_unreadable_record_are_noticed(log: Path) -> None:
    """What was wrong with it stays the reason why another event may not have been."""
    source = MetadataEvents([log.parent], {"orders": ["orders"]}, jars)
    elected = [changed(ID, t1=struct.pack(">i", 2)), bytes([2, 5, 0])]
    with log.open("ab") as more:
        more.write(batch(6, elected))
    assert [each.details for each in source.take()] == ["leader 2, leader epoch 1"]
    with pytest.raises(ValueError, match="the metadata log has records in frames of version 2"):
        source.take()
    with log.open("ab") as more:
        more.write(batch(8, [changed(ID, t1=struct.pack(">i", 3))]))
    assert [each.details for each in source.take()] == ["leader 3, leader epoch 2"]
    with pytest.raises(ValueError, match="the metadata log has records in frames of version 2"):
        source.take()
    source.close()


def test_records_of_the_version_after_an_upgrade_are_read(log: Path, tmp_path: Path) -> None:
    """The upgraded brokers register with a version of the record that the first Kafka did not have."""
    old = tmp_path / "kafka-metadata-old.jar"
    with zipfile.ZipFile(old, "w") as archive:
        for schema in read_schemas(jars(), "metadata", _KINDS):
            older = {"validVersions": "0-3"} if schema["name"] == "RegisterBrokerRecord" else {}
            archive.writestr(f"common/metadata/{schema['name']}.json", json.dumps({**schema, **older}))
    newest: list[Sequence[Path]] = [[old]]
    source = MetadataEvents([log.parent], {"orders": ["orders"]}, lambda: newest[-1])
    assert source.take() == []
    newest.append(jars())
    (schema,) = read_schemas(jars(), "metadata", ["RegisterBrokerRecord"])
    data = {
        "BrokerId": 2, "IsMigratingZkBroker": False, "IncarnationId": ID, "BrokerEpoch": 9, "EndPoints": [],
        "Features": [], "Rack": None, "Fenced": True, "InControlledShutdown": False,
    }  # fmt: skip
    registered = bytes([1, schema["apiKey"], 4]) + MessageCodec(schema, 4).write(schema["fields"], data)
    with log.open("ab") as more:
        more.write(batch(6, [registered, changed(ID, t1=struct.pack(">i", 2))]))
    assert [each.event for each in source.take()] == ["election"]
    source.close()


def test_uncommitted_metadata_records_are_not_events(tmp_path: Path) -> None:
    """A deposed controller truncates what only it had, and reads as it is from then on."""
    replicas = [tmp_path / f"log{number}" for number in (1, 2, 3)]
    log = FollowedLog(replicas, enough=2)
    assert log.take() == []  # none is there yet
    first, alone = batch(0, [b"first"], epoch=1), batch(1, [b"only the old leader has this"], epoch=1)
    kept, last = batch(1, [b"kept"], epoch=2), batch(2, [b"last"], epoch=2)
    write_segment(replicas[0], 0, first, alone)
    write_segment(replicas[1], 0, first)
    assert [each.data for each in log.take()] == [first]
    write_segment(replicas[1], 0, first, kept)
    assert log.take() == []
    write_segment(replicas[2], 0, first, kept)
    assert [each.data for each in log.take()] == [kept]
    write_segment(replicas[0], 0, first)  # truncated, and then it follows the new leader
    assert log.take() == []
    write_segment(replicas[0], 0, first, kept, last)
    write_segment(replicas[2], 0, first, kept, last)
    assert [each.data for each in log.take()] == [last] and log.take() == []
    log.close()


def test_without_metadata_logs_brokers_are_polled() -> None:
    """The event's own time is not known then."""
    before, after = PartitionState(1, [1, 2], [1, 2], 0), PartitionState(2, [1, 2], [2], 1)
    admin = FakeAdmin(views=[before, before, after, after])
    source = PolledEvents(admin, {"orders": ["orders"]})  # type: ignore[arg-type]
    assert source.take() == [] and source.take() == []
    found = source.take()
    assert [each.event for each in found] == ["election", "isr-shrink"]
    assert found[0].at_ns is None and source.take() == []


def states(base: int, *changes: tuple[str, int]) -> bytes:
    """A batch of the coordinator's log: states of transactions, by transactional id."""
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    for name, state in changes:
        key = struct.pack(">hh", 0, len(name)) + name.encode()
        value = struct.pack(">hqhib", 1, 4000, 3, 60_000, state) + b"partitions"
        builder.append(timestamp=AT_MS, key=key, value=value, headers=[])
    builder.close()
    return struct.pack(">q", base) + bytes(builder.buffer())[8:]


def test_prepared_transaction_is_a_pending_marker_event(tmp_path: Path) -> None:
    """Not if they were written by the time of the look; each replica's copy of it is the same event."""
    ids = {f"kaput-producer-{number}": f"producer {number}" for number in (0, 1)}
    source = TransactionEvents(lambda: [tmp_path / "1", tmp_path / "2"], ids)
    assert source.take() == []
    places = {name: partition_of(name, 3) for name in ids}
    for broker in "12":
        for number in range(3):
            write_segment(tmp_path / broker / f"__transaction_state-{number}", 0)
    assert source.take() == []

    def happens(base: int, *changes: tuple[str, int]) -> list[Any]:
        for broker in "12":
            path = tmp_path / broker / f"__transaction_state-{places[changes[0][0]]}" / f"{0:020d}.log"
            path.write_bytes(path.read_bytes() + states(base, *changes))
        return [(each.of, each.details, each.at_ns) for each in source.take()]

    first, second = ids
    assert happens(0, (first, 1), (first, 2)) == [(("producer 0",), "PrepareCommit", AT_MS * 1_000_000)]
    assert happens(2, (first, 4), (first, 1), (first, 2), (first, 4)) == []
    assert happens(0 if places[first] != places[second] else 6, (second, 3)) == [
        (("producer 1",), "PrepareAbort", AT_MS * 1_000_000)
    ]
    source.close()


def test_producers_are_identified_by_transactional_id() -> None:
    """Also where these begin with something else than usual."""
    ids = producers_by_id(
        load_builtin("hanging-transaction", ["workload.producers.0.transactions.id-prefix=ours"]), None
    )
    assert ids == {"ours-0": "producer 0"}


def test_request_events_come_from_the_proxies() -> None:
    """Each once, in the order of their times; a node without a proxy, or one that is added, is no trouble."""

    class Proxy:
        """Takes rules, as the real one does."""

        def __init__(self) -> None:
            self.rules: dict[int, Any] = {}

        def put(self, rule: FrameRule, on_frame: Any) -> None:
            assert rule.what == "observe" and rule.api not in self.rules
            self.rules[rule.api] = on_frame

        def end(self, rule: str) -> None:
            assert rule == "event-EndTxn"
            del self.rules[26]

    class Proxied(FakeNode):
        proxy: Any = None

    nodes: Any = {1: Proxied(1), 2: Proxied(2)}
    nodes[2].proxy = Proxy()
    source = FrameEvents(nodes, ["EndTxn"])
    assert source.take() == [] and nodes[2].proxy.rules.keys() == {26}
    nodes[3] = Proxied(3)
    nodes[3].proxy = Proxy()
    assert source.take() == []
    for node, at_ns in ((3, 8), (2, 7)):
        nodes[node].proxy.rules[26](SeenFrame(at_ns, False, 4, 31, "kaput", "127.0.0.1:5"))
    found = source.take()
    assert names(found) == [
        ("request", ("EndTxn",), f"broker {node}, client kaput, correlation id 31") for node in (2, 3)
    ]
    assert [each.at_ns for each in found] == [7, 8] and source.take() == []
    source.close()
    assert not any(nodes[node].proxy.rules for node in (2, 3))  # a warm cluster goes on with them


def test_rebalance_is_one_event_per_member(tmp_path: Path) -> None:
    """However many partitions it is called with, also of members that start later; other rows are none."""
    source = MemberEvents(tmp_path / "evidence" / "group_events")
    assert source.take() == []
    with Recorder(tmp_path, "group_events", "m1") as one:
        one.row("billing", "m1", "joined", None, None, None, 3)
        for partition in (0, 1):
            one.row("billing", "m1", "assigned", "orders", partition, 5, 4 + partition)
        one.flush()
        found = source.take()
        assert names(found) == [("partitions-assigned", ("billing",), "m1")] and found[0].at_ns == 4
        with Recorder(tmp_path, "group_events", "m2") as two:
            two.row("billing", "m2", "lost", "orders", 0, None, 7)
            two.flush()
            one.row("billing", "m1", "revoked", "orders", 0, None, 8)
            one.flush()
            assert sorted(names(source.take())) == [
                ("partitions-lost", ("billing",), "m2"),
                ("partitions-revoked", ("billing",), "m1"),
            ]
    assert source.take() == []
    source.close()
