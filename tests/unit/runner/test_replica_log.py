"""What leaders have in their logs while faults hit them: followed from before, and no row twice."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from fakes.cluster import FakeAdmin, FakeNode
from fakes.segments import append, batch, compressed, write_segment
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.runner.replica_log import ReplicaLog
from kaput.workload.payload import Codec
from waiting import wait_for

CODEC = Codec(uuid.UUID(int=7), 60)
LEADER = 2


def messages(base: int, count: int, epoch: int = 0) -> bytes:
    """A batch of producer 3's messages, whose seq is their offset."""
    return batch(base, [CODEC.encode(3, base + n, 1) for n in range(count)], epoch)


class Lab:
    """Three brokers that are nothing but their files; broker 2 leads orders/0."""

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, list[str]()
        self.nodes = {i: FakeNode(i, folder=path / "brokers" / str(i)) for i in (1, 2, 3)}

    def replica(self, broker: int) -> Path:
        return self.nodes[broker].layout.data / "orders-0"

    @contextmanager
    def following(self, admin: FakeAdmin | None = None, after_heal_s: float = 30) -> Iterator[ReplicaLog]:
        with (
            Recorder(self.path, "replica_log", "kaput") as recorder,
            ReplicaLog(
                self.nodes,  # type: ignore[arg-type]
                admin or FakeAdmin(),  # type: ignore[arg-type]
                ["orders"],
                CODEC,
                recorder,
                self.notes.append,
                after_heal_s=after_heal_s,
            ) as witness,
        ):
            yield witness

    def seen(self) -> int:
        """How many bytes of rows are on disk already."""
        return (self.path / "evidence" / "replica_log" / "kaput.arrows").stat().st_size

    def rows(self) -> list[dict[str, Any]]:
        seal(RunFolder(self.path))
        (path,) = (self.path / "evidence" / "replica_log").glob("*.parquet")
        return list(pq.read_table(path).to_pylist())

    def offsets(self) -> list[tuple[int, int]]:
        """Epoch and offset of each row."""
        return [(row["leader_epoch"], row["offset"]) for row in self.rows()]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Everything up to offset 10 is on all three, up to 20 on broker 1, up to 30 on the leader alone."""
    made = Lab(tmp_path)
    for broker, ends in [(1, 20), (2, 30), (3, 10)]:
        write_segment(made.replica(broker), 0, *(messages(base, 10) for base in range(0, ends, 10)))
    return made


def test_unreplicated_and_later_records_are_recorded(lab: Lab) -> None:
    """From the shortest follower's end on, with who each message is and when it was seen."""
    began = time.time_ns()
    with lab.following() as witness:
        witness.before("1-isolate", [LEADER])
        later = batch(33, [b"somebody else's", None, CODEC.encode(3, 35, 1)[:-1] + b"\1"])
        append(lab.replica(LEADER) / f"{0:020d}.log", compressed(messages(30, 3), "zstd"), later)
    rows = lab.rows()
    assert [row["offset"] for row in rows] == list(range(10, 36))
    assert {(row["broker"], row["topic"], row["partition"], row["leader_epoch"]) for row in rows} == {
        (LEADER, "orders", 0, 0)
    }
    assert [(row["producer"], row["seq"]) for row in rows[:23]] == [(3, n) for n in range(10, 33)]
    assert [(row["producer"], row["seq"]) for row in rows[23:]] == [(None, None)] * 3
    assert all(began <= row["seen_ns"] <= time.time_ns() for row in rows)
    assert lab.notes == []


def test_following_ends_at_the_truncation(lab: Lab) -> None:
    """What the deposed leader throws away is there; what it takes from its successor is not its own."""
    segment = lab.replica(LEADER) / f"{0:020d}.log"
    with lab.following() as witness:
        empty = lab.seen()
        witness.before("1-isolate", [LEADER])
        append(segment, messages(30, 10))
        wait_for(lambda: lab.seen() > empty, "a row")
        write_segment(lab.replica(LEADER), 0, *(messages(base, 10) for base in (0, 10)))
        append(segment, messages(20, 50, epoch=1))
        witness.after("1-isolate")
    assert lab.offsets() == [(0, offset) for offset in range(10, 40)]


def test_followers_are_not_followed(lab: Lab) -> None:
    """A fault that hits no leader leaves no row, and an empty table can be sealed."""
    with lab.following() as witness:
        witness.before("1-pause", [1, 3])
        append(lab.replica(1) / f"{0:020d}.log", messages(20, 10))
    assert lab.rows() == []


def test_faults_on_the_same_leader_give_each_record_once(lab: Lab) -> None:
    """Overlapping, or one after the other."""
    segment = lab.replica(LEADER) / f"{0:020d}.log"
    with lab.following() as witness:
        witness.before("1-delay", [LEADER])
        witness.before("2-kill", [LEADER])
        append(segment, messages(30, 10))
        witness.after("1-delay")
        witness.after("2-kill")
        witness.before("3-kill", [LEADER])
    assert lab.offsets() == [(0, n) for n in range(10, 40)]


def test_reelected_leader_is_followed_from_its_last_offset(lab: Lab) -> None:
    """Deposed and leader again: the second look takes nothing that the first one had taken."""
    segment = lab.replica(LEADER) / f"{0:020d}.log"

    class Changing(FakeAdmin):
        """The leader of epoch 0 at first, then of epoch 2."""

        def partitions(self, topics: Any) -> Any:
            found = super().partitions(topics)
            self.__init__(leader_epoch=2)  # type: ignore[misc]
            return found

    with lab.following(Changing()) as witness:
        empty = lab.seen()
        witness.before("1-kill", [LEADER])
        wait_for(lambda: lab.seen() > empty, "a row")
        append(segment, messages(30, 5, epoch=2))
        witness.before("2-kill", [LEADER])
        append(segment, messages(35, 5, epoch=2))
    assert lab.offsets() == [*((0, n) for n in range(10, 30)), *((2, n) for n in range(30, 40))]


def test_following_stops_some_time_after_the_heal(lab: Lab) -> None:
    """Some time after the last heal its file is let go of, and what comes later is nobody's proof."""
    segment = lab.replica(LEADER) / f"{0:020d}.log"

    def held() -> bool:
        return str(segment) in [file.path for file in psutil.Process().open_files()]

    with lab.following(after_heal_s=0) as witness:
        witness.before("1-pause", [LEADER])
        witness.before("2-delay", [LEADER])
        wait_for(held, "opening the file")
        witness.after("1-pause")
        # By the third one the heal is known, and has been since a whole look at the file.
        for base in (30, 35, 40):
            empty = lab.seen()
            append(segment, messages(base, 5))
            wait_for(lambda empty=empty: lab.seen() > empty, "a row of a leader that is still paused")
        witness.after("2-delay")
        wait_for(lambda: not held(), "closing the file")
        append(segment, messages(45, 10))
    assert lab.offsets() == [(0, n) for n in range(10, 45)]


def test_unreadable_log_is_noted(lab: Lab) -> None:
    """Files that are gone, and a batch that is broken: the rows before it stay, and the run goes on."""
    broken = bytearray(messages(30, 10))
    broken[-400:] = b"\xff" * 400
    append(lab.replica(LEADER) / f"{0:020d}.log", bytes(broken))
    with lab.following() as witness:
        witness.before("1-kill", [LEADER])
    assert lab.offsets() == [(0, n) for n in range(10, 30)]
    assert len(lab.notes) == 1 and lab.notes[0].startswith(
        "what broker 2 had of orders/0 could no longer be read"
    )


def test_a_broker_without_files_is_noted(tmp_path: Path) -> None:
    """As after a disk was emptied."""
    lab = Lab(tmp_path)
    with lab.following() as witness:
        witness.before("1-kill", [LEADER])
    assert lab.rows() == []
    assert "orders/0 could no longer be read: " in lab.notes[0]
