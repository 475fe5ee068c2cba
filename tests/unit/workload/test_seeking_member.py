"""Where a member of kaput's goes when it seeks, what it records of it, and what it does about errors of its
client, of which there is a double.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

import kaput.core
from kaput.evidence.folder import RunFolder
from kaput.scenario.values import END, Goal
from kaput.workload.client_spec import MemberSpec
from kaput.workload.librdkafka.member import GroupMember
from kaput.workload.moving import Hold
from streams import rows_so_far

ONE, TWO = kaput.core.TopicPartition("orders", 0), kaput.core.TopicPartition("orders", 1)


class Client:
    """Of a group that committed 40 in partition 0 and nothing in partition 1; both have 10 to 120."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self.refuses_seeks = False
        self.polled: KafkaException | Message | None = None
        self.time_error: KafkaError | None = None
        self.on_disk: list[list[str]] = []  # the kinds of the recorded events, at each seek

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(at.topic, at.partition, -1001 if at.partition else 40) for at in places]

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        return 10, 120

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[Any]:
        return [_Answer(at, self.time_error) for at in asked]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        return offsets

    def seek(self, at: TopicPartition) -> None:
        self.on_disk.append([row["kind"] for row in rows_so_far(self._table)])
        if self.refuses_seeks:
            raise KafkaException("erroneous state")

    def pause(self, places: list[TopicPartition]) -> None:
        """Does nothing."""

    resume = pause

    def poll(self, timeout: float) -> Message | None:
        if isinstance(self.polled, KafkaException):
            raise self.polled
        return self.polled

    def consume(self, count: int, timeout: float) -> list[Message]:
        return []

    def close(self) -> None:
        """Does nothing."""


class _Answer:
    def __init__(self, at: TopicPartition, error: KafkaError | None) -> None:
        self.topic, self.partition, self.offset, self.error = at.topic, at.partition, at.offset, error


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return RunFolder(tmp_path).table("group_events")


@pytest.fixture
def member(tmp_path: Path, table: Path) -> GroupMember:
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"}
    spec = MemberSpec(str(tmp_path), str(uuid.uuid4()), "billing", "member-1", ["orders"], config)
    made = GroupMember(spec)
    made.client.close()
    made.client = made._commits.client = Client(table)
    made._assigned = {ONE, TWO}
    return made


def rows(table: Path, kind: str) -> list[tuple[int, int | None]]:
    return [(row["partition"], row["offset"]) for row in rows_so_far(table) if row["kind"] == kind]


@pytest.mark.parametrize(
    ("goal", "moves"),
    [
        (Goal(by=100), {ONE: (40, 120), TWO: (10, 110)}),
        (Goal(to=END), {ONE: (40, 120), TWO: (10, 120)}),
        (Goal(), {ONE: (40, 10)}),
    ],
)
def test_partition_without_a_commit_begins_where_its_client_does(
    member: GroupMember, goal: Goal, moves: Any
) -> None:
    """And not at librdkafka's offset for none, -1001."""
    assert {place: (begin, to) for place, begin, to in member._goals(goal)} == moves


def test_error_of_a_time_s_offset_is_no_offset(member: GroupMember) -> None:
    member.client.time_error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    with pytest.raises(KafkaException, match="LEADER_NOT_AVAILABLE"):
        member._goals(Goal(time_ms=70))


def test_what_is_passed_over_is_recorded_before_the_first_seek(member: GroupMember, table: Path) -> None:
    """In all partitions: the commit of it is made."""
    member._seek(Goal(to=END))
    assert member.client.on_disk[0].count("skipped") == 2
    assert rows(table, "skipped") == [(0, 40), (1, 10)]


def test_member_whose_seek_fails_commits_where_it_was(
    member: GroupMember, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member.client.refuses_seeks = True
    member._seek(Goal(to=END))
    assert '"moves": []' in capsys.readouterr().out
    member._commits.now(wait=True)
    member._flush()
    assert rows(table, "committed")[-2:] == [(0, 40), (1, 10)]


_FENCED = KafkaError(KafkaError.FENCED_INSTANCE_ID, "another member", True)
_FATAL = KafkaError(KafkaError._FATAL, "another member")
_DOWN = KafkaError(KafkaError._TRANSPORT, "b1:9092/1: Connect failed (after 3ms)")


@pytest.mark.parametrize("polled", [KafkaException(_FENCED), KafkaException(_FATAL), Message(error=_FATAL)])
def test_member_ends_at_a_fatal_error_of_its_client(
    member: GroupMember, polled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one of which librdkafka says so by its code alone, and one that belongs to no message."""
    member.client.polled = polled
    assert member._receive() == [] and member.stopping.is_set()
    assert '"kind": "trouble"' in (text := capsys.readouterr().out) and "another member" in text


def test_member_ends_at_a_fatal_error_while_it_leaves(
    member: GroupMember, capsys: pytest.CaptureFixture[str]
) -> None:
    member._commits.note({ONE: 50}, 1)
    member.client.polled = KafkaException(_FENCED)
    member.leave(Hold(settle_s=5.0))
    assert member.stopping.is_set() and '"kind": "trouble"' in capsys.readouterr().out


def test_error_that_is_not_fatal_is_not_taken_for_one(member: GroupMember) -> None:
    """A call that fails in another way is a mistake of kaput's."""
    member.client.polled = KafkaException(_DOWN)
    with pytest.raises(KafkaException, match="Connect failed"):
        member._receive()
    assert not member.stopping.is_set()


def test_error_is_reported_once_in_a_row(member: GroupMember, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each broker; other times and counts in its text are no other error."""
    again = KafkaError(KafkaError._TRANSPORT, "b1:9092/1: Connect failed (after 9ms, 4 errors suppressed)")
    other = KafkaError(KafkaError._TRANSPORT, "b2:9092/2: Connect failed (after 3ms)")
    for error in (_DOWN, _DOWN, again, other):
        member.client.polled = Message(error=error)
        assert member._receive() == [] and not member.stopping.is_set()
    assert [line["message"] for line in map(json.loads, capsys.readouterr().out.splitlines())] == [
        "_TRANSPORT: b1:9092/1: Connect failed (after 3ms)",
        "_TRANSPORT: b2:9092/2: Connect failed (after 3ms)",
    ]
