"""Kafka's Java clients as clients of a run: what they print is recorded, what goes wrong is a finding.

Programs in Python stand in for the JVM and print as it does; the real ones: tests/functional.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from supervised_clients import RUN, SupervisedClients

from kaput.errors import LabError
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Group, Scenario
from kaput.workload.java.command_lines import JavaTools
from kaput.workload.payload import Codec
from kaput.workload.supervision.supervisor import Supervisor
from waiting import PATIENCE_S, eventually

MESSAGES = 200
PAYLOADS = [Codec(RUN, text=True).encode(0, n, 1).decode() for n in range(5)]
SAY = """
import json, os, signal, sys, time
def say(name, **line):
    print(json.dumps(dict(timestamp=int(time.time() * 1000), name=name, **line)), flush=True)
"""
BEGIN = """
import json, os, sys, time
told = json.loads(sys.stdin.readline())
def say(**line): print(json.dumps(line), flush=True)
say(ready=True)
"""
GOOD = BEGIN + (
    "for n in map(json.loads, sys.stdin): say(seq=n['seq'], outcome='acked', partition=0, offset=n['seq'])\n"
)
READ = SAY + (
    "def leave(*_):\n    say('partitions_revoked', partitions=[dict(topic='orders', partition=0)])\n"
    "    say('shutdown_complete')\n    sys.exit(143)\n"
    "signal.signal(signal.SIGTERM, leave)\n"
    "say('startup_complete')\nsay('partitions_assigned', partitions=[dict(topic='orders', partition=0)])\n"
)
HAND = (
    f"for n, value in enumerate({PAYLOADS}):\n"
    "    say('record_data', key=None, value=value, topic='orders', partition=0, offset=n)\n"
    "say('records_consumed', count=5, partitions=[])\n"
    "say('offsets_committed', success=True, offsets=[dict(topic='orders', partition=0, offset=5)])\n"
    "print('WARN handed', file=sys.stderr, flush=True)\n"
)
STAY = "while True: time.sleep(1)\n"


class Stands(JavaTools):
    """Programs in place of JVMs."""

    def __init__(self, folder: Path, produce: str, consume: str) -> None:
        self.made = {"produce.py": produce, "consume.py": consume}
        self._folder = folder

    def producer(self, version: str | None) -> list[str]:
        return self._words("produce.py")

    def member(self, name: str, servers: str, member: str, group: Group) -> list[str]:
        return self._words("consume.py")

    share_member = member

    def _words(self, name: str) -> list[str]:
        (self._folder / name).write_text(self.made[name])
        return [sys.executable, str(self._folder / name)]


class Play(SupervisedClients):
    """A supervisor with such programs."""

    def supervisor(self, produce: str, consume: str = "", **more: Any) -> Supervisor:
        """One producer, and perhaps a member."""
        sends = {"topic": "orders", "messages": MESSAGES, "client": "java", **more.pop("sends", {})}
        group = {"id": "billing", "topics": ["orders"], "client": "java", **more.pop("reads", {})}
        workload = {"producers": [sends], "groups": [group] if consume else []}
        topics = [{"name": "orders", "replication-factor": 1}]
        of = Scenario.model_validate({"version": 1, "title": "t", "topics": topics, "workload": workload})
        supervisor = self.supervisor_of(of)
        supervisor._plan = replace(supervisor._plan, java=Stands(self._path, produce, consume))
        return supervisor

    def __call__(self, produce: str, **more: Any) -> list[str]:
        """Plays a producer to its end; the troubles."""
        supervisor = self.supervisor(produce, **more)
        supervisor.start()
        supervisor.go()
        assert eventually(lambda: supervisor.all_reported("done"))
        troubles = supervisor.troubles()
        supervisor.tidy()
        seal(self.folder)
        return troubles


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """With an owner that has a registry of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Owner() as owner:
        yield Play(owner, tmp_path)


def test_producer_outcomes_are_recorded(play: Play) -> None:
    """Each attempt before its acknowledgement; faults hit the JVM, not the process that listens to it."""
    supervisor = play.supervisor(GOOD)
    supervisor.start()
    client = supervisor.producers[0]
    assert client.client_pid not in (None, client.process.pid)
    supervisor.go()
    assert eventually(lambda: supervisor.all_reported("done"))
    assert supervisor.troubles() == []
    seal(play.folder)
    assert play.outcomes() == {"acked": MESSAGES} and play.thresholds == [50]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "time.sleep(0.2)\nos.kill(os.getpid(), 9)\n",
            "it ended on its own (killed by SIGKILL)",
            marks=pytest.mark.long,
        ),
        ("print('Boom\\n\\tat x.y(z:1)', file=sys.stderr)\nsys.exit(1)\n", "(exit status 1): Boom"),
    ],
)
def test_failed_producer_is_reported_without_a_stack_trace(text: str, said: str, play: Play) -> None:
    """In a sentence without a stack trace; the run goes on."""
    (trouble,) = play(BEGIN + text)
    assert trouble.startswith("producer-0: Kafka's Java producer: ") and trouble.endswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('Invalid value for acks')", "exit status 1.*Invalid value for acks"),
        pytest.param("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV", marks=pytest.mark.long),
    ],
)
def test_producer_that_never_starts_ends_the_run(text: str, said: str, play: Play) -> None:
    """There is nothing to judge."""
    with pytest.raises(LabError, match=f"producer-0 ended on its own .*Kafka's Java producer: .*{said}"):
        play.supervisor(text).start()


def handed(supervisor: Supervisor) -> None:
    """Waits until the member has printed all that it has to print."""
    said = supervisor.members[0].client.stderr.with_name("billing-member-1.command.err")
    assert eventually(lambda: "handed" in said.read_text())


def leave(play: Play, supervisor: Supervisor) -> list[str]:
    """The members leave; their troubles. The producer was never told to go."""
    supervisor.stop_members()
    supervisor.producers[0].process.kill()
    for slot in supervisor.members:
        assert slot.process.wait(PATIENCE_S) is not None
    troubles = supervisor.troubles()
    seal(play.folder)
    return troubles


def test_member_events_are_recorded(play: Play) -> None:
    """Assignments, deliveries and commits in the order of its lines, of which many have one millisecond."""
    supervisor = play.supervisor(GOOD, READ + HAND + STAY)
    supervisor.start()
    assert eventually(lambda: supervisor.members[0].owns() == {("orders", 0)})
    handed(supervisor)
    assert leave(play, supervisor) == []
    deliveries = sorted(play.rows("deliveries"), key=lambda row: row["polled_ns"])
    assert [(row["producer"], row["seq"], row["offset"]) for row in deliveries] == [
        (0, n, n) for n in range(5)
    ]
    events = sorted(play.rows("group_events"), key=lambda row: row["at_ns"])
    assert [row["kind"] for row in events] == ["joined", "assigned", "committed", "revoked", "left"]
    assert events[2]["offset"] == 5 and events[1]["at_ns"] < deliveries[0]["polled_ns"]
    assert deliveries[-1]["polled_ns"] < events[2]["at_ns"]


def test_member_without_partitions_is_ready(play: Play) -> None:
    """It is idle, and ready."""
    idle = READ.replace(
        "partitions_assigned', partitions=[dict(topic='orders', partition=0)]",
        "partitions_assigned', partitions=[]",
    )
    supervisor = play.supervisor(GOOD, idle + STAY)
    supervisor.start()
    leave(play, supervisor)
    events = [row for row in play.rows("group_events") if row["kind"] == "assigned"]
    assert [(row["topic"], row["partition"]) for row in events] == [(None, None)]


def test_output_of_a_killed_member_is_fully_recorded(play: Play) -> None:
    """SIGKILL hits the program itself; what it had printed and nopid had read yet counts."""
    many = HAND.replace(str(PAYLOADS), f"{PAYLOADS[:1]} * 3000").replace("offset=5)", "offset=3000)")
    supervisor = play.supervisor(GOOD, READ + many + STAY)
    supervisor.start()
    (slot,) = supervisor.members
    handed(supervisor)
    pid = psutil.Process(slot.pid or 0)
    at_ns = slot.kill()
    assert not pid.is_running() and not slot.running and leave(play, supervisor) == []
    deliveries, events = play.rows("deliveries"), play.rows("group_events")
    assert len(deliveries) == 3000 and max(row["polled_ns"] for row in deliveries) < at_ns
    assert [row["offset"] for row in events if row["kind"] == "committed"] == [3000]
    assert [row["at_ns"] for row in events if row["kind"] == "killed"] == [at_ns]
    assert not [row for row in events if row["kind"] == "left"]


def test_pause_stops_the_jvm_of_a_member(play: Play) -> None:
    """The program itself, and it goes on."""
    supervisor = play.supervisor(GOOD, READ + STAY)
    supervisor.start()
    (slot,) = supervisor.members
    assert eventually(lambda: slot.cpu_seconds() > 0)
    slot.pause()
    assert eventually(slot.is_stopped) and psutil.Process(slot.process.pid).status() != "stopped"
    slot.resume()
    assert eventually(lambda: not slot.is_stopped())
    assert leave(play, supervisor) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HAND + "print('ERROR no such group', file=sys.stderr)\nsys.exit(0)\n",
            "on its own: WARN handed\nERROR no such group",
        ),
        pytest.param(
            HAND + "os.kill(os.getpid(), signal.SIGSEGV)\n", "killed by SIGSEGV", marks=pytest.mark.long
        ),
        (
            HAND + "say('offsets_committed', offsets=3)\n" + STAY,
            "it printed a line that the protocol does not",
        ),
    ],
)
def test_misbehaving_member_is_reported(text: str, said: str, play: Play) -> None:
    """What it was handed before is on record."""
    supervisor = play.supervisor(GOOD, READ + text)
    supervisor.start()
    handed(supervisor)
    if STAY not in text:
        assert eventually(lambda: not supervisor.members[0].running)
    (trouble,) = leave(play, supervisor)
    assert trouble.startswith("billing-member-1") and "Kafka's Java consumer: " in trouble and said in trouble
    assert len(play.rows("deliveries")) == 5


def test_share_group_member_events_are_recorded(play: Play) -> None:
    """What it was handed it accepts by its next poll, and a broker confirms that, or does not."""
    text = READ + (
        f"for n, value in enumerate({PAYLOADS[:3]}):\n"
        "    say('record_data', key=None, value=value, topic='orders', partition=0, offset=n)\n"
        "of = lambda *n: [dict(topic='orders', partition=0, count=len(n), offsets=list(n))]\n"
        "say('records_consumed', count=3, partitions=of(0, 1, 2))\n"
        "say('offsets_acknowledged', count=2, partitions=of(1, 0), success=True)\n"
        "say('offsets_acknowledged', count=1, partitions=of(2), success=False, error='not yours')\n"
        "print('WARN handed', file=sys.stderr, flush=True)\n"
    )
    share = text.replace("say('partitions_assigned', partitions=[dict(topic='orders', partition=0)])\n", "")
    share = share.replace("say('partitions_revoked', partitions=[dict(topic='orders', partition=0)])", "pass")
    supervisor = play.supervisor(GOOD, share + STAY, reads={"type": "share"})
    supervisor.start()
    handed(supervisor)
    assert leave(play, supervisor) == []
    rows = sorted(play.rows("share_events"), key=lambda row: row["at_ns"])
    found = {offset: [r["kind"] for r in rows if r["offset"] == offset] for offset in range(3)}
    asked = ["acquired", "accepting"]
    assert found == {0: [*asked, "accepted"], 1: [*asked, "accepted"], 2: [*asked, "failed"]}
    assert [row["error"] for row in rows if row["kind"] == "failed"] == ["not yours"]
    assert len(play.rows("deliveries")) == 3


def test_jvm_ends_with_its_adapter(play: Play) -> None:
    """Also when kaput's own process is killed, and it listens to nopid."""
    supervisor = play.supervisor(
        BEGIN + STAY, READ + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STAY
    )
    supervisor.start()
    clients = [supervisor.producers[0], supervisor.members[0].client]
    bodies = [psutil.Process(client.pid) for client in clients]
    for client in clients:
        client.process.kill()
    gone = lambda one: not one.is_running() or one.status() == psutil.STATUS_ZOMBIE  # noqa: E731
    assert eventually(lambda: all(map(gone, bodies)))
