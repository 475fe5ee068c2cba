"""Places in groups whose processes come and go. Real members, with librdkafka's own mock of brokers."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kaput.evidence.folder import RunFolder
from kaput.evidence.identity import Codec
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.client import Client, OnSaid
from kaput.workload.crew import Crew
from kaput.workload.quiet import quiet_logger
from kaput.workload.seat import Seat
from streams import rows_so_far
from waiting import eventually

RUN = uuid.UUID(int=3)
PARTITIONS = 4  # of a topic in the mock
Make = Callable[..., Crew]


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """An owner with a registry of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Owner() as started:
        yield started


@pytest.fixture
def crew_of(owner: Owner, tmp_path: Path) -> Iterator[Make]:
    """Makes crews without producers: one group reads 2,000 messages that are there already."""
    (tmp_path / "run").mkdir()
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = client.list_topics("orders", timeout=30).brokers.values()
    codec = Codec(RUN, 60)
    for seq in range(2000):
        client.produce("orders", codec.encode(0, seq, 5), partition=seq % PARTITIONS)
    assert client.flush(30) == 0

    def make(**group: Any) -> Crew:
        raw = {
            "version": 1,
            "title": "t",
            "topics": [{"name": "orders", "replication-factor": 1}],
            "workload": {
                "producers": [{"topic": "orders", "messages": 1}],
                "groups": [{"id": "billing", "topics": ["orders"], **group}],
            },
        }
        scenario, folder = Scenario.model_validate(raw), RunFolder(tmp_path / "run")
        crew = Crew(owner, scenario, folder, RUN, f"{broker.host}:{broker.port}", [], lambda n, at_ns: None)
        for number in range(1, group.get("members", 1) + 1):
            crew.member("billing", number).start()
        return crew

    yield make
    del client


def rows(tmp_path: Path, table: str) -> list[dict[str, Any]]:
    """What has been flushed into the streams of a table."""
    return rows_so_far(tmp_path / "run" / "evidence" / table)


def committed(tmp_path: Path) -> dict[int, int]:
    """The last offset that the group has committed, by partition."""
    events = [row for row in rows(tmp_path, "group_events") if row["kind"] == "committed"]
    return {row["partition"]: row["offset"] for row in sorted(events, key=lambda row: int(row["at_ns"]))}


def steps(tmp_path: Path, partition: int) -> list[int]:
    """By how many records each commit of a partition went on from the one before."""
    events = [row for row in rows(tmp_path, "group_events") if row["kind"] == "committed"]
    offsets = [row["offset"] for row in events if row["partition"] == partition]
    return [after - before for before, after in pairwise([0, *offsets])]


def delivered(tmp_path: Path) -> dict[int, list[int]]:
    """The offsets that were delivered, by partition."""
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for row in rows(tmp_path, "deliveries"):
        found[row["partition"]].append(row["offset"])
    return found


def test_a_killed_member_is_on_record_and_another_takes_its_place(crew_of: Make, tmp_path: Path) -> None:
    """`killed` at its end; the next process is a member of its own, with the same number."""
    seat = crew_of(config={"session.timeout.ms": 6000}).member("billing", 1)
    assert eventually(lambda: seat.ready and len(seat.owns()) == PARTITIONS, 60)
    first, at_ns = seat.pid, seat.kill()
    assert not seat.running and seat.owns() == frozenset() and seat.told_troubles() == []
    seat.start()
    assert seat.running and seat.pid != first
    assert eventually(lambda: seat.ready, 60)
    events = [(row["kind"], row["member"], row["at_ns"]) for row in rows(tmp_path, "group_events")]
    assert ("killed", "member-1", at_ns) in events
    assert {member for kind, member, _ in events if kind == "joined"} == {"member-1", "member-1.2"}
    assert seat.terminate(20) and seat.owns() == frozenset() and seat.told_troubles() == []
    assert [kind for kind, member, _ in events if member == "member-1"][-1] != "left"
    assert "left" in [row["kind"] for row in rows(tmp_path, "group_events") if row["member"] == "member-1.2"]


def test_an_end_that_nobody_intended_is_a_trouble_also_after_a_restart(crew_of: Make) -> None:
    """Told once."""
    seat = crew_of().member("billing", 1)
    assert eventually(lambda: seat.ready, 60)
    seat.process.kill()
    seat.start()
    said = ["billing-member-1 ended on its own (killed by SIGKILL): it said nothing"]
    assert seat.told_troubles() == said == seat.told_troubles()


def test_what_was_said_before_the_end_counts_when_it_is_read_after_it(owner: Owner, tmp_path: Path) -> None:
    """A busy machine reads a member's last line when its process has ended long since: that is no trouble."""
    ended = threading.Event()

    def launch(_number: int, name: str, _on_said: OnSaid) -> Client:
        command = [sys.executable, "-c", 'print(\'{"kind": "slow"}\\n{"kind": "done"}\')']
        client = Client(name, owner.spawn(command, name=name, stdout=subprocess.PIPE), tmp_path / "err")
        client.stderr.touch()
        threading.Thread(target=client.listen, args=(lambda _: ended.wait(30),), daemon=True).start()
        return client

    seat = Seat(tmp_path, "billing", 1, launch)
    seat.start()
    assert eventually(lambda: not seat.running, 30)
    threading.Timer(0.2, ended.set).start()
    assert seat.told_troubles() == []


def test_members_without_partitions_are_ready(crew_of: Make, tmp_path: Path) -> None:
    """Two more than there are partitions: they have joined, and own nothing."""
    crew = crew_of(members=PARTITIONS + 2, config={"session.timeout.ms": 6000})
    seats = crew.members_of("billing")
    assert eventually(lambda: all(seat.ready for seat in seats), 180)
    assert eventually(lambda: sum(not seat.owns() for seat in seats) == 2, 60)
    idle = {f"member-{seat.id}" for seat in seats if not seat.owns()}
    events = rows(tmp_path, "group_events")
    assert idle <= {row["member"] for row in events if row["kind"] == "joined"}
    assert idle <= {row["member"] for row in events if row["kind"] == "assigned" and row["partition"] is None}


def test_what_is_committed_before_it_is_processed_is_swallowed_by_sigkill(
    crew_of: Make, tmp_path: Path
) -> None:
    """Deliveries are those before the kill, in order; the rest of the batch is committed and nowhere."""
    crew = crew_of(commit="before", **{"commit-mode": "sync", "commit-every": 100, "processing": "20ms"})
    seat = crew.member("billing", 1)

    def in_hand() -> int:
        return sum(committed(tmp_path).values()) - sum(map(len, delivered(tmp_path).values()))

    assert eventually(lambda: in_hand() >= 50 and any(delivered(tmp_path).values()), 60)
    seat.kill()
    found, reached = delivered(tmp_path), committed(tmp_path)
    assert all(offsets == list(range(len(offsets))) for offsets in found.values())
    assert all(len(offsets) <= reached.get(partition, 0) for partition, offsets in found.items())
    assert 0 < in_hand() <= 100


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_is_committed_after_it_is_processed_is_on_record(
    crew_of: Make, tmp_path: Path, mode: str
) -> None:
    """At a SIGKILL every offset below the committed ones has been delivered; ten records are a commit."""
    crew = crew_of(**{"commit-mode": mode, "commit-every": 10, "processing": "2ms"})
    seat = crew.member("billing", 1)
    assert eventually(lambda: sum(committed(tmp_path).values()) >= 30, 60)
    seat.kill()
    found, reached = delivered(tmp_path), committed(tmp_path)
    assert all(set(range(offset)) <= set(found[partition]) for partition, offset in reached.items())
    # Of commits that nobody waits for the answers are seen later, with the next poll: but all of them.
    assert all(0 < step <= 10 for partition in reached for step in steps(tmp_path, partition))
    if mode == "sync":
        assert sum(map(len, found.values())) - sum(reached.values()) <= 10


def test_a_group_without_members_is_not_waited_for(crew_of: Make) -> None:
    """Its last one has left; in the other place nobody ever was."""
    crew = crew_of()
    assert eventually(lambda: crew.member("billing", 1).ready, 60)
    assert crew.has_members("billing") and not crew.member("billing", 2).running
    assert crew.member("billing", 1).terminate(20)
    assert not crew.has_members("billing") and crew.troubles() == []


def test_a_pace_is_changed_and_told(crew_of: Make) -> None:
    """What each record takes from then on, as the member itself measured it."""
    seat = crew_of(processing="1ms").member("billing", 1)
    assert eventually(lambda: seat.ready, 60)

    def worked(ms: int) -> bool:
        seat.work(None)
        return seat.worked is not None and seat.worked.ms == ms and seat.worked.records > 2

    seat.work(30)
    assert eventually(lambda: worked(30), 60)
    assert seat.worked is not None and seat.worked.spent_ns >= seat.worked.records * 30_000_000
    seat.work(1)
    assert eventually(lambda: worked(1), 60)
