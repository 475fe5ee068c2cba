"""What a member was handed becomes rows, whatever it is."""

import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message, TopicPartition

from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.scenario.values import Goal
from kaput.workload.client_spec import MemberSpec
from kaput.workload.librdkafka.deliveries import DeliveryRecorder
from kaput.workload.librdkafka.member import GroupMember
from kaput.workload.payload import Codec

RUN = uuid.UUID(int=9)
CODEC = Codec(RUN, 60)


def spec(folder: Path, *topics: str) -> MemberSpec:
    """A member's order; nobody listens where it points to."""
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"}
    return MemberSpec(str(folder), str(RUN), "billing", "member-1", list(topics), config)


def handed(topic: str, partition: int, offset: int, payload: bytes | None = None) -> Message:
    """A message; its seq is its offset unless a payload is given."""
    value = CODEC.encode(partition, offset, 5) if payload is None else payload
    return Message(topic=topic, partition=partition, offset=offset, value=value)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The sealed deliveries, in the order in which they were written."""
    seal(RunFolder(folder))
    paths = sorted(RunFolder(folder).table("deliveries").glob("*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def test_deliveries_are_recorded_with_next_offsets(tmp_path: Path) -> None:
    """Partitions mixed in one batch; a foreign and a damaged record among them."""
    damaged = bytearray(CODEC.encode(0, 9, 5))
    damaged[50] ^= 1
    batch = [
        handed("orders", 0, 7),
        handed("orders", 2, 3),
        handed("orders", 0, 8, b"hello"),
        handed("orders", 0, 9, bytes(damaged)),
    ]
    with Recorder(tmp_path, "deliveries", "m") as recorder:
        deliveries = DeliveryRecorder(recorder, spec(tmp_path, "orders"), CODEC)
        assert deliveries.take(batch, 77) == {("orders", 0): 10, ("orders", 2): 4}
        assert deliveries.take([handed("orders", 0, 10)], 78) == {("orders", 0): 11}
        assert deliveries.pending == 5
        deliveries.flush()
        assert deliveries.pending == 0
    assert [tuple(row.values())[:-1] for row in rows(tmp_path)] == [
        ("billing", "member-1", "orders", 0, 7, 0, 7, True, 77),
        ("billing", "member-1", "orders", 2, 3, 2, 3, True, 77),
        ("billing", "member-1", "orders", 0, 8, None, None, True, 77),
        ("billing", "member-1", "orders", 0, 9, None, None, False, 77),
        ("billing", "member-1", "orders", 0, 10, 0, 10, True, 78),
    ]


def test_deliveries_of_several_topics_are_recorded_separately(tmp_path: Path) -> None:
    """A member of several topics, handed both in one batch."""
    with Recorder(tmp_path, "deliveries", "m") as recorder:
        deliveries = DeliveryRecorder(recorder, spec(tmp_path, "orders", "bills"), CODEC)
        batch = [handed("orders", 0, 1), handed("bills", 0, 5), handed("orders", 0, 2)]
        assert deliveries.take(batch, 77) == {("orders", 0): 3, ("bills", 0): 6}
        deliveries.flush()
    found = [(row["topic"], row["offset"], row["seq"]) for row in rows(tmp_path)]
    assert sorted(found) == [("bills", 5, 5), ("orders", 1, 1), ("orders", 2, 2)]
    assert [offset for topic, offset, _ in found if topic == "orders"] == [1, 2]


def test_offset_going_back_within_a_batch_is_a_later_poll(tmp_path: Path) -> None:
    """A client that fell back to an earlier offset: what it handed out from there on is another poll."""
    with Recorder(tmp_path, "deliveries", "m") as recorder:
        deliveries = DeliveryRecorder(recorder, spec(tmp_path, "orders"), CODEC)
        deliveries.take([handed("orders", 0, offset) for offset in (4, 5, 3, 4, 4)], 100)
        mixed = [(0, 5), (1, 9), (0, 6), (1, 9), (0, 7), (0, 2)]
        deliveries.take([handed("orders", partition, offset) for partition, offset in mixed], 200)
        deliveries.flush()
    found = [(row["partition"], row["offset"], row["polled_ns"]) for row in rows(tmp_path)]
    assert found[:5] == [(0, 4, 100), (0, 5, 100), (0, 3, 101), (0, 4, 101), (0, 4, 102)]
    assert [ns for _, _, ns in found[5:]] == [200, 200, 200, 201, 201, 202]


class Client:
    """Hands out one message by poll and others by consume; a rebalance comes between the two."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def poll(self, _timeout_s: float) -> Message:
        return handed("orders", 0, 1)

    def consume(self, _count: int, timeout: float) -> list[Message]:
        self._member._on_lost(self, [TopicPartition("orders", 0)])  # type: ignore[arg-type]
        return [handed("orders", 0, 2), handed("orders", 1, 9)]


class Committed:
    """The group has committed 300 there, and the log begins at 0."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(at.topic, at.partition, 300) for at in partitions]

    def get_watermark_offsets(self, _at: TopicPartition, _timeout_s: float) -> tuple[int, int]:
        return 10, 400

    def offsets_for_times(self, partitions: list[TopicPartition], _timeout_s: float) -> list[TopicPartition]:
        found = [at.offset + 200 if at.offset < 200 else -1 for at in partitions]
        return [TopicPartition(at.topic, at.partition, to) for at, to in zip(partitions, found, strict=True)]


def test_member_goes_back_from_where_the_group_is_after_a_rebalance(tmp_path: Path) -> None:
    """Another member has read on meanwhile; of what it has read itself it knows better than the group."""
    member = GroupMember(spec(tmp_path, "orders"))
    place = TopicPartition("orders", 0)
    member._on_assign(member.client, [place])
    member.delivered([handed("orders", 0, 99)], 1)
    client, member.client = member.client, Committed()
    assert member._goals(Goal(by=-50)) == [(("orders", 0), 100, 50)]
    member.client = client
    member._on_lost(client, [place])
    member._on_assign(client, [place])
    member.client = Committed()
    assert member._goals(Goal(by=-50)) == [(("orders", 0), 300, 250)]


@pytest.mark.parametrize(
    ("goal", "to"),
    [
        (Goal(), 10), (Goal(to="end"), 400), (Goal(by=60), 360), (Goal(by=600), 400), (Goal(to=320), 320),
        (Goal(to=5), 10), (Goal(time_ms=7), 207), (Goal(time_ms=1000), 400), (Goal(to=300), None),
    ],
)  # fmt: skip
def test_member_goes_within_the_log(goal: Goal, to: int | None, tmp_path: Path) -> None:
    """A time later than every record is the end, as with Kafka's own tool; where it is already it stays."""
    member = GroupMember(spec(tmp_path, "orders"))
    member._on_assign(member.client, [TopicPartition("orders", 0)])
    member.client = Committed()
    assert member._goals(goal) == ([] if to is None else [(("orders", 0), 300, to)])


def test_records_of_a_revoked_partition_are_not_delivered(tmp_path: Path) -> None:
    """A rebalance inside a call of the client: of the lost partition nothing is recorded or committed."""
    member = GroupMember(spec(tmp_path, "orders"))
    member._on_assign(member.client, [TopicPartition("orders", 0), TopicPartition("orders", 1)])
    member.client = Client(member)  # type: ignore[assignment]
    messages = member._receive()
    assert [(message.partition(), message.offset()) for message in messages] == [(1, 9)]
