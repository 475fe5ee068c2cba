"""Places in groups whose processes come and go. Real members, with librdkafka's own mock of brokers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.librdkafka.client_setup import quiet_logger, text_of
from kaput.workload.payload import Codec
from kaput.workload.supervision.client_process import ClientProcess, Launch, MemberSlot, OnMessage
from kaput.workload.supervision.supervisor import Supervisor
from streams import rows_so_far
from waiting import eventually

RUN = uuid.UUID(int=3)
PARTITIONS = 4  # of a topic in the mock
Make = Callable[..., Supervisor]


@pytest.fixture
def supervisor_of(owner: Owner, tmp_path: Path) -> Iterator[Make]:
    """Makes supervisors without producers: one group reads 2,000 messages that are there already."""
    (tmp_path / "run").mkdir()
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = client.list_topics("orders", timeout=30).brokers.values()
    codec = Codec(RUN, 60)
    for seq in range(2000):
        client.produce("orders", codec.encode(0, seq, 5), partition=seq % PARTITIONS)
    assert client.flush(30) == 0

    def make(**group: Any) -> Supervisor:
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
        supervisor = Supervisor(
            owner, scenario, folder, RUN, f"{broker.host}:{broker.port}", [], lambda n, at_ns: None
        )
        for number in range(1, group.get("members", 1) + 1):
            supervisor.member("billing", number).start()
        return supervisor

    yield make
    del client


def rows(tmp_path: Path, table: str) -> list[dict[str, Any]]:
    """What has been flushed into the streams of a table."""
    return rows_so_far(tmp_path / "run" / "evidence" / table)


def committed(tmp_path: Path) -> dict[int, int]:
    """The last offset that the group has committed, by partition."""
    events = [row for row in rows(tmp_path, "group_events") if row["kind"] == "committed"]
    return {row["partition"]: row["offset"] for row in sorted(events, key=lambda row: int(row["at_ns"]))}


def held(supervisor: Supervisor) -> list[int]:
    """The group's committed offsets as the broker has them."""
    spec = json.loads(next(supervisor.members[0].client.stderr.parent.glob("*member*.json")).read_text())
    servers = spec["config"]["bootstrap.servers"]
    reader = Consumer({"bootstrap.servers": servers, "group.id": "billing"}, logger=quiet_logger())
    places = reader.committed([TopicPartition("orders", n) for n in range(PARTITIONS)], timeout=30)
    reader.close()
    return [max(place.offset, 0) for place in places]


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


def test_killed_member_is_recorded_and_replaced(supervisor_of: Make, tmp_path: Path) -> None:
    """`killed` at its end; the next process is a member of its own, with the same number."""
    slot = supervisor_of(config={"session.timeout.ms": 6000}).member("billing", 1)
    assert eventually(lambda: slot.ready and len(slot.owns()) == PARTITIONS)
    first, at_ns = slot.pid, slot.kill()
    assert not slot.running and slot.owns() == frozenset() and slot.unexpected_ends() == []
    slot.start()
    assert slot.running and slot.pid != first
    assert eventually(lambda: slot.ready)
    events = [(row["kind"], row["member"], row["at_ns"]) for row in rows(tmp_path, "group_events")]
    assert ("killed", "member-1", at_ns) in events
    joined = {member: at_ns for kind, member, at_ns in events if kind == "joined"}
    assert set(joined) == {"member-1", "member-1.2"} and slot.joined_ns == joined["member-1.2"]
    assert slot.terminate(20) and slot.owns() == frozenset() and slot.unexpected_ends() == []
    assert [kind for kind, member, _ in events if member == "member-1"][-1] != "left"
    assert "left" in [row["kind"] for row in rows(tmp_path, "group_events") if row["member"] == "member-1.2"]


def test_unexpected_end_is_reported_after_a_restart(supervisor_of: Make) -> None:
    slot = supervisor_of().member("billing", 1)
    assert eventually(lambda: slot.ready)
    slot.process.kill()
    slot.last_error = "GROUP_MAX_SIZE_REACHED: Broker: the group is full"
    slot.start()
    assert slot.last_error == ""  # of the process before
    said = ["billing-member-1 ended on its own (killed by SIGKILL): no error output"]
    assert slot.unexpected_ends() == said == slot.unexpected_ends()


def _printing(owner: Owner, folder: Path, lines: str, on_message: OnMessage) -> Launch:
    """Launches a process that prints these lines, and ends."""

    def launch(_number: int, name: str, _on_message: OnMessage) -> ClientProcess:
        command = [sys.executable, "-c", f"print({lines!r})"]
        client = ClientProcess(name, owner.spawn(command, name=name, stdout=subprocess.PIPE), folder / "err")
        client.stderr.touch()
        threading.Thread(target=client.listen, args=(on_message,), daemon=True).start()
        return client

    return launch


@pytest.mark.parametrize("code", [82, 111])
@pytest.mark.parametrize("why", ["member 2 has the same group.instance.id", ""])
def test_member_that_is_fenced_is_no_trouble_if_the_scenario_asks_for_it(
    owner: Owner, tmp_path: Path, code: int, why: str
) -> None:
    """Two members have the same group.instance.id: that one of them ends is what the run shows."""
    fenced = text_of(
        KafkaError(KafkaError._FATAL, f"Fatal error: {KafkaError(code).str()}: OffsetCommit failed: x")
    )
    assert fenced.startswith(f"{KafkaError(code).name()}: Broker: ")
    lines = json.dumps({"kind": "trouble", "message": fenced}) + '\n{"kind": "done"}'
    launch = _printing(owner, tmp_path, lines, lambda _: None)
    slot = MemberSlot(
        tmp_path, "billing", 1, launch, why_fenced=lambda error: why * (error == KafkaError(code).name())
    )
    slot.start()
    assert eventually(lambda: not slot.running)
    ended = f"member-1 ended on its own (exit status 0): {fenced}"
    noted = f"member 1 of billing was {'fenced' if code == 82 else 'refused'}: {why}"
    if why:
        slot.await_ready(0)
        assert (slot.unexpected_ends(), slot.fencings, slot.fenced) == ([], [noted], noted)
    else:
        with pytest.raises(LabError, match="ended on its own"):
            slot.await_ready(0)
        assert (slot.unexpected_ends(), slot.fencings, slot.fenced) == ([ended], [], "")


def test_output_read_after_the_process_end_counts(owner: Owner, tmp_path: Path) -> None:
    """A busy machine reads a member's last line when its process has ended long since: that is no trouble."""
    ended = threading.Event()
    lines = '{"kind": "slow"}\n{"kind": "done"}'
    launch = _printing(owner, tmp_path, lines, lambda _: ended.wait(30))
    slot = MemberSlot(tmp_path, "billing", 1, launch)
    slot.start()
    assert eventually(lambda: not slot.running)
    threading.Timer(0.2, ended.set).start()
    assert slot.unexpected_ends() == []


def test_members_without_partitions_are_ready(supervisor_of: Make, tmp_path: Path) -> None:
    """Two more than there are partitions: they have joined, and own nothing."""
    supervisor = supervisor_of(members=PARTITIONS + 2, config={"session.timeout.ms": 6000})
    slots = supervisor.members_of("billing")
    assert eventually(lambda: all(slot.ready for slot in slots))
    assert eventually(lambda: sum(not slot.owns() for slot in slots) == 2)
    idle = {f"member-{slot.id}" for slot in slots if not slot.owns()}
    events = rows(tmp_path, "group_events")
    assert idle <= {row["member"] for row in events if row["kind"] == "joined"}
    assert idle <= {row["member"] for row in events if row["kind"] == "assigned" and row["partition"] is None}


def test_commit_before_processing_loses_records_on_sigkill(supervisor_of: Make, tmp_path: Path) -> None:
    """Deliveries are those before the kill, in order; the rest of the batch is committed and nowhere."""
    supervisor = supervisor_of(
        commit="before", **{"commit-mode": "sync", "commit-every": 100, "processing": "20ms"}
    )
    slot = supervisor.member("billing", 1)

    def in_hand() -> int:
        return sum(committed(tmp_path).values()) - sum(map(len, delivered(tmp_path).values()))

    assert eventually(lambda: in_hand() >= 50 and any(delivered(tmp_path).values()))
    slot.kill()
    found, reached = delivered(tmp_path), committed(tmp_path)
    assert all(offsets == list(range(len(offsets))) for offsets in found.values())
    assert all(len(offsets) <= reached.get(partition, 0) for partition, offsets in found.items())
    assert 0 < in_hand() <= 100


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_commit_after_processing_covers_only_delivered_records(
    supervisor_of: Make, tmp_path: Path, mode: str
) -> None:
    """At a SIGKILL every offset below the committed ones has been delivered; ten records are a commit."""
    supervisor = supervisor_of(**{"commit-mode": mode, "commit-every": 10, "processing": "2ms"})
    slot = supervisor.member("billing", 1)
    assert eventually(lambda: sum(committed(tmp_path).values()) >= 30)
    slot.kill()
    found, reached = delivered(tmp_path), committed(tmp_path)
    assert all(set(range(offset)) <= set(found[partition]) for partition, offset in reached.items())
    # Of commits that nobody waits for the answers are seen later, with the next poll: but all of them.
    assert all(0 < step <= 10 for partition in reached for step in steps(tmp_path, partition))
    if mode == "sync":
        # By the broker: the kill may have come between deliveries and their commit on disk.
        assert sum(map(len, found.values())) - sum(held(supervisor)) <= 10


def test_record_is_handed_over_when_the_one_before_is_processed(supervisor_of: Make, tmp_path: Path) -> None:
    """Polled together, processed one at a time: what waits in the member has not been delivered yet."""
    slot = supervisor_of(**{"commit-every": 10, "processing": "5ms"}).member("billing", 1)
    assert eventually(lambda: len(rows(tmp_path, "deliveries")) >= 30)
    slot.kill()
    times = sorted(row["polled_ns"] for row in rows(tmp_path, "deliveries"))
    assert all(later - one >= 5_000_000 for one, later in pairwise(times))


def test_a_group_without_members_is_not_waited_for(supervisor_of: Make) -> None:
    """Its last one has left; in the other place nobody ever was."""
    supervisor = supervisor_of()
    assert eventually(lambda: supervisor.member("billing", 1).ready)
    assert supervisor.has_members("billing") and not supervisor.member("billing", 2).running
    assert supervisor.member("billing", 1).terminate(20)
    assert not supervisor.has_members("billing") and supervisor.troubles() == []


def test_pace_can_be_changed_and_is_reported(supervisor_of: Make) -> None:
    """What each record takes from then on, as the member itself measured it."""
    slot = supervisor_of(processing="1ms").member("billing", 1)
    assert eventually(lambda: slot.ready)

    def pace_report(ms: int) -> bool:
        slot.work(None)
        return slot.pace_report is not None and slot.pace_report.ms == ms and slot.pace_report.records > 2

    slot.work(30)
    assert eventually(lambda: pace_report(30))
    assert slot.pace_report is not None and slot.pace_report.spent_ns >= slot.pace_report.records * 30_000_000
    slot.work(1)
    assert eventually(lambda: pace_report(1))
