"""What is committed, and when; what becomes of commits that are refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition

from kaput.workload.client_spec import MemberSpec
from kaput.workload.librdkafka.deliveries import COMMIT_S, UNANSWERED_S, CommitRecorder
from kaput.workload.librdkafka.member_process import Pace

ORDERS = ("orders", 0)


class Client:
    """Notes what it is asked to commit, and to store; may refuse."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[tuple[str, int], int], bool]] = []
        self.refuses = False
        self.deleted = ""  # a topic
        self.stored: list[int] = []
        self.refused: list[int] = []  # offsets that the member was told are not committed

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self.asked.append(({(at.topic, at.partition): at.offset for at in offsets}, asynchronous))
        if self.refuses or self.deleted in {at.topic for at in offsets}:
            raise KafkaException("refused")
        return offsets

    def store_offsets(self, offsets: list[TopicPartition]) -> None:
        self.stored += [at.offset for at in offsets]


def made(
    clock: Callable[[], float] = time.monotonic, **spec: Any
) -> tuple[CommitRecorder, Client, list[int]]:
    """Commits, the client behind them, and the offsets that were committed."""
    arrived: list[int] = []
    client = Client()
    commits = CommitRecorder(
        MemberSpec("f", "r", "billing", "member-1", ["orders"], {}, **spec),
        lambda at: arrived.append(at.offset),
        lambda at: client.refused.append(at.offset),
        clock,
    )
    commits.client = client  # type: ignore[assignment]
    return commits, client, arrived


def answer(offset: int, partition: int = 0) -> list[TopicPartition]:
    """What the client says of one partition."""
    return [TopicPartition("orders", partition, offset)]


def test_time_based_commit_is_immediate_when_idle() -> None:
    """A busy one every half second; without anything to commit never."""
    now = [100.0]
    commits, _, _ = made(lambda: now[0])
    assert not commits.due(idle=True)
    commits.note({ORDERS: 5}, 5)
    assert commits.due(idle=True) and not commits.due(idle=False)
    now[0] += COMMIT_S
    assert commits.due(idle=False)


def test_commit_every_n_records_ignores_time() -> None:
    """After so many records, and when idle; `room` says how many are left until then."""
    commits, _, _ = made(commit_every=3)
    assert commits.records_left() == 3
    commits.note({ORDERS: 2}, 2)
    assert not commits.due(idle=False) and commits.due(idle=True) and commits.records_left() == 1
    commits.note({ORDERS: 3}, 1)
    assert commits.due(idle=False)
    commits.now(wait=False)
    assert commits.records_left() == 3 and not commits.due(idle=True)


def test_rejected_commit_is_retried_unless_superseded() -> None:
    """Reported by the client later (async), or at once (sync)."""
    commits, client, arrived = made()
    commits.note({ORDERS: 5}, 5)
    commits.now(wait=False)
    commits.answered("error", answer(5))
    commits.now(wait=False)
    assert [offsets for offsets, _ in client.asked] == [{ORDERS: 5}, {ORDERS: 5}]
    commits.note({ORDERS: 9}, 4)
    commits.answered("error", answer(5))
    client.refuses = True
    commits.now(wait=True)
    client.refuses = False
    commits.now(wait=True)
    assert client.asked[2:] == [({ORDERS: 9}, False), ({ORDERS: 9}, False)]
    assert arrived == [9] and client.refused == [5, 5, 9]


def test_commit_that_is_never_answered_is_made_again_when_idle() -> None:
    """The newest of the partition, once a minute; one that was answered is not."""
    now = [100.0]
    commits, client, arrived = made(lambda: now[0])
    commits.note({ORDERS: 5}, 5)
    commits.now(wait=False)
    now[0] += UNANSWERED_S - 1
    assert not commits.due(idle=True)
    now[0] += 1
    assert not commits.due(idle=False) and commits.due(idle=True)
    commits.now(wait=False)
    commits.answered(None, answer(5))
    now[0] += UNANSWERED_S
    assert not commits.due(idle=True)
    assert [offsets for offsets, _ in client.asked] == [{ORDERS: 5}, {ORDERS: 5}] and arrived == [5]


def test_commit_that_arrives_after_newer_ones_is_repaired() -> None:
    """librdkafka retries what timed out; a seek back, whose commit is the newest, is no such case."""
    commits, client, arrived = made()
    for offset in (5, 9):
        commits.note({ORDERS: offset}, 4)
        commits.now(wait=False)
    commits.answered(None, answer(9))
    assert not commits.due(idle=True)
    commits.answered(None, answer(5))
    assert arrived == [9, 5] and commits.due(idle=True)
    commits.now(wait=False)
    assert client.asked[-1][0] == {ORDERS: 9}
    commits.answered(None, answer(9))
    commits.note({ORDERS: 2}, 1)
    commits.now(wait=True)
    assert arrived[-1] == 2 and not commits.due(idle=True)


@pytest.mark.parametrize("commit", ["after", "auto"])
def test_going_back_commits_at_once_and_nothing_repairs_it(commit: str) -> None:
    """What was noted is in its place; the client's own later commits are no reason to go back again."""
    commits, client, arrived = made(commit=commit)
    commits.note({ORDERS: 9}, 9)
    commits.go_to({ORDERS: 4})
    assert (client.asked, arrived) == ([({ORDERS: 4}, False)], [4]) and not commits.outstanding
    if commit == "auto":
        assert client.stored == [4]  # else its next commit would be of what it had stored
        commits.answered(None, answer(7))
        assert arrived == [4, 7] and not commits.due(idle=True)


def test_refused_going_back_changes_nothing() -> None:
    """What was noted is still committed, and a late answer is no reason to go back."""
    commits, client, _ = made()
    commits.note({ORDERS: 100}, 1)
    commits.now(wait=False)
    commits.note({ORDERS: 110}, 1)
    client.refuses = True
    with pytest.raises(KafkaException):
        commits.go_to({ORDERS: 50})
    client.refuses = False
    commits.answered(None, answer(100))
    commits.now(wait=True)
    assert client.asked[-1][0] == {ORDERS: 110}


def test_late_answer_of_a_revoked_partition_is_not_repaired() -> None:
    commits, _, _ = made()
    for offset in (5, 9):
        commits.note({ORDERS: offset}, 4)
        commits.now(wait=False)
    commits.answered(None, answer(9))
    commits.forget(ORDERS)
    commits.answered(None, answer(5))
    assert not commits.due(idle=True)


def test_partition_without_offset_is_not_a_rejected_commit() -> None:
    """Partitions without an offset, as librdkafka names them where it had nothing to commit."""
    commits, client, arrived = made(commit="auto")
    commits.answered("no offset", answer(-1001))
    assert not client.refused and not arrived


def test_revoked_partition_is_not_committed_again() -> None:
    """A zombie's late answers must not throw the group back, also when the partition is its own again."""
    commits, client, _ = made()
    commits.note({ORDERS: 5, ("orders", 1): 7}, 12)
    commits.now(wait=False)
    commits.forget(ORDERS)
    commits.answered("error", answer(5) + answer(7, partition=1))
    commits.now(wait=False)
    assert client.asked[-1][0] == {("orders", 1): 7}
    assert client.refused == [5, 7]


def test_pace_is_measured_from_its_change() -> None:
    """Records and their real time, since each of them took so long."""
    pace = Pace(0)
    pace.change(2)
    pace.settle()
    assert pace.ms == 2 and pace.measured() == {"ms": 2, "records": 0, "spent_ns": 0}
    for _ in range(3):
        pace.work()
    told = pace.measured()
    assert told["records"] == 3 and told["spent_ns"] >= 3 * 2_000_000
    pace.change(0)
    assert pace.measured()["ms"] == 2  # until the record in hand is done
    pace.settle()
    assert pace.measured() == {"ms": 0, "records": 0, "spent_ns": 0}


def test_offsets_of_another_topic_are_committed_apart_from_refused_ones() -> None:
    """librdkafka (2.16.0) reports the error of a deleted topic for each offset of the request, though the
    coordinator took the others.
    """
    commits, client, arrived = made()
    commits.note({ORDERS: 4, ("stock", 0): 7}, 2)
    commits.now(wait=False)
    commits.answered("UNKNOWN_TOPIC_OR_PART", [TopicPartition("orders", 0, 4), TopicPartition("stock", 0, 7)])
    assert client.refused == [4, 7]
    commits.now(wait=False)
    assert [asked for asked, _ in client.asked[1:]] == [{ORDERS: 4}, {("stock", 0): 7}]
    commits.answered(None, [TopicPartition("stock", 0, 7)])
    assert arrived == [7]


def test_offsets_that_wait_for_their_commit_are_apart_from_refused_ones_too() -> None:
    """The deleted topic's error comes as an exception: of the first of them, and the others are committed."""
    commits, client, arrived = made(commit_sync=True)
    client.deleted = "orders"
    commits.note({ORDERS: 4, ("stock", 0): 7}, 2)
    commits.now(wait=True)
    assert client.refused == [4, 7] and arrived == []
    commits.now(wait=True)
    assert [asked for asked, _ in client.asked[1:]] == [{ORDERS: 4}, {("stock", 0): 7}]
    assert client.refused == [4, 7, 4] and arrived == [7]
    commits.now(wait=True)
    assert client.asked[-1][0] == {ORDERS: 4} and commits.outstanding
