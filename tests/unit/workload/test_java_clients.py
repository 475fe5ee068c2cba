"""Kafka's Java clients as clients of a run: what they print is recorded, what goes wrong is a finding.

Programs in Python stand in for the JVM and print as Kafka's tools do; the real ones: tests/functional.
"""

from __future__ import annotations

import sys
import time
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
from kaput.scenario.model import Group, Producers, Scenario
from kaput.workload.java.command_lines import JavaTools
from kaput.workload.payload.text import prefix_of
from kaput.workload.supervision.supervisor import Supervisor
from waiting import PATIENCE_S, blocked, eventually, wait_for

MESSAGES = 200
PREFIX = prefix_of(RUN, 0)
SAY = f"""
import json, os, signal, sys, time
from datetime import datetime, timezone
def now(): return int(time.time() * 1000)
def say(name, **line): print(json.dumps(dict(timestamp=now(), name=name, **line)), flush=True)
def log(text):
    at = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    print(json.dumps(dict(name="log", at=at, text=text)), flush=True)
def attempt(n, partition=0):
    log(f"Attempting to append record ProducerRecord(topic=orders, value={PREFIX}.{{n}}, timestamp=null)"
        f" with callback x to topic orders partition {{partition}}")
def acked(n, **more):
    more = dict(dict(partition=0, offset=n), **more)
    say("producer_send_success", key=None, value=f"{PREFIX}.{{n}}", topic="orders", **more)
def failed(n, kind, message):
    say("producer_send_error", topic="orders", key=None, value=f"{PREFIX}.{{n}}",
        exception="class org.apache.kafka.common.errors." + kind, message=message)
def end(sent, acked):
    say("shutdown_complete")
    say("tool_data", sent=sent, acked=acked, target_throughput=-1, avg_throughput=1.0)
"""
BEGIN = SAY + (
    'print("DEBUG Kafka producer started", file=sys.stderr, flush=True)\n'
    'log("Kafka producer started")\nsay("startup_complete")\n'
)
GOOD = BEGIN + f"for n in range({MESSAGES}):\n    attempt(n)\n    acked(n)\nend({MESSAGES}, {MESSAGES})\n"
READ = SAY + (
    "def leave(*_):\n    say('partitions_revoked', partitions=[dict(topic='orders', partition=0)])\n"
    "    say('shutdown_complete')\n    sys.exit(143)\n"
    "signal.signal(signal.SIGTERM, leave)\n"
    "say('startup_complete')\nsay('partitions_assigned', partitions=[dict(topic='orders', partition=0)])\n"
)
HAND = (
    "for n in range(5):\n"
    f"    say('record_data', key=None, value='{PREFIX}.%d' % n, topic='orders', partition=0, offset=n)\n"
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

    def producer(self, name: str, servers: str, number: int, prefix: int, spec: Producers) -> list[str]:
        """A program that sends."""
        assert (number, prefix) == (0, PREFIX)
        return self._words("produce.py")

    def member(self, name: str, servers: str, member: str, group: Group) -> list[str]:
        """A program that reads."""
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


def test_what_it_sends_is_recorded(play: Play) -> None:
    """Each attempt before its acknowledgement, where and when; and it is told when so many are made."""
    before_ns = time.time_ns()
    assert play(GOOD) == [] and play.outcomes() == {"acked": MESSAGES} and play.thresholds == [50]
    for row in play.rows("sends"):
        assert (row["producer"], row["partition"], row["offset"]) == (0, 0, row["seq"])
        assert before_ns < row["attempt_ns"] <= row["done_ns"] <= time.time_ns()


def test_it_is_held_until_the_load_begins(play: Play) -> None:
    """It stands still as soon as its producer is there, though nothing tells it to."""
    supervisor = play.supervisor(GOOD)
    supervisor.start()
    pid = supervisor.producers[0].client_pid
    assert pid is not None
    wait_for(lambda: blocked(pid, "write"), "the standstill of the producer")
    assert supervisor.count("attempted") == 0
    went_ns = supervisor.go()
    assert eventually(lambda: supervisor.all_reported("done"))
    seal(play.folder)
    assert min(row["attempt_ns"] for row in play.rows("sends")) >= went_ns


def test_outcomes_and_what_was_never_said(play: Play) -> None:
    """Refused before it was sent, refused by a broker, told without an offset, and never answered."""
    text = BEGIN + (
        f"for n in range({MESSAGES}):\n"
        "    if n == 5: failed(5, 'TimeoutException', 'Topic orders not present in metadata after 9 ms.')\n"
        "    if n == 5: continue\n"
        "    attempt(n)\n"
        "    if n == 6: failed(6, 'NotEnoughReplicasException', 'no')\n"
        "    elif n == 7: acked(7, offset=-1)\n"
        "    elif n > 7: acked(n)\n"
        "    if n == 9: attempt(9)\n"
        f"end({MESSAGES}, {MESSAGES - 7})\n"
    )
    (trouble,) = play(text)
    assert trouble.endswith("Kafka's Java producer: it ended without reporting the outcome of 5 messages")
    rows = {row["seq"]: row for row in play.rows("sends")}
    wanted = {0: "unknown", 5: "failed", 6: "unknown", 7: "acked", 9: "acked"}
    assert {seq: rows[seq]["outcome"] for seq in wanted} == wanted
    assert rows[7]["offset"] is None and "NotEnoughReplicas" in rows[6]["error"]
    assert rows[4]["attempt_ns"] <= rows[5]["attempt_ns"] <= rows[5]["done_ns"]


def test_a_client_whose_log_is_silent(play: Play) -> None:
    """Its answers show what it has sent: nothing is missed, and whose times are not its own is said."""
    text = BEGIN + f"for n in range({MESSAGES}): acked(n)\nend({MESSAGES}, {MESSAGES})\n"
    (trouble,) = play(text)
    assert f"its log lacks {MESSAGES} attempts" in trouble
    assert play.outcomes() == {"acked": MESSAGES}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("attempt(0)\nos.kill(os.getpid(), 9)\n", "it ended on its own (killed by SIGKILL)"),
        ("attempt(0)\nacked(0)\nprint('Boom', file=sys.stderr)\nsys.exit(1)\n", "(exit status 1): Boom"),
        ("attempt(0)\nacked(0)\nend(1, 1)\n", f"it ended after 1 of {MESSAGES} messages"),
        (f"for n in range({MESSAGES}): attempt(n); acked(n)\n", "it ended without its summary"),
        (
            f"for n in range({MESSAGES}): attempt(n); acked(n)\nend({MESSAGES}, 3)\n",
            f"its summary has {MESSAGES} messages sent and 3 acknowledged",
        ),
    ],
)
def test_one_that_ends_badly_is_a_finding(text: str, said: str, play: Play) -> None:
    """In a sentence without a traceback; the run goes on."""
    (trouble,) = play(BEGIN + text)
    assert trouble.startswith("producer-0: Kafka's Java producer: ") and said in trouble
    assert "Traceback" not in trouble and sum(play.outcomes().values()) in (1, MESSAGES)


def test_one_that_hangs(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, and what it held is unknown."""
    sends = {"patience": "3s", "config": {"delivery.timeout.ms": 1}}
    monkeypatch.setattr("kaput.workload.java.command_lines._SLACK_MS", 0)
    (trouble,) = play(BEGIN + "attempt(0)\nattempt(1)\n" + STAY, sends=sends)
    assert "it hangs: it has printed nothing for 3 s" in trouble
    assert play.outcomes() == {"unknown": 2}


def test_rubbish_is_counted_and_shown(play: Play) -> None:
    """Lines that were cut, that are no JSON, of other producers, twice, beyond the last message."""
    text = GOOD.replace("attempt(n)\n", "attempt(n)\n    bad(n)\n", 1)
    bad = (
        "def bad(n):\n"
        '    if n == 3: print(\'{"timestamp": 179, "na\', flush=True)\n'
        "    if n == 4: print('[1]', flush=True)\n"
        "    if n == 5: say('producer_send_success', value='1.5', partition=0, offset=1)\n"
        "    if n == 6: say('producer_send_success', value=7)\n"
        "    if n == 7: acked(6)\n"
        "    if n == 8: acked(4000000)\n"
        "    if n == 9: say('made_tea')\n"
        "    if n == 10: log('of something else')\n"
        "    if n == 11: say('tool_data', sent='x')\n"
    )
    (trouble,) = play(bad + text)
    assert (
        'it printed 9 lines that the protocol does not have; the first: \'{"timestamp": 179, "na\'' in trouble
    )
    assert play.outcomes() == {"acked": MESSAGES}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('Invalid value for acks')", "exit status 1.*Invalid value for acks"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    ],
)
def test_one_that_never_starts_ends_the_run_in_a_sentence(text: str, said: str, play: Play) -> None:
    """There is nothing to judge."""
    with pytest.raises(LabError, match=f"producer-0 ended on its own .*Kafka's Java producer: .*{said}"):
        play.supervisor(text).start()


def test_a_duration_ends_it_in_good_order(play: Play) -> None:
    """By SIGTERM, at which it flushes; what it tries behind its summary was not sent."""
    text = BEGIN + (
        "going = True\n"
        "def stop(*_):\n    global going\n    going = False\n"
        "signal.signal(signal.SIGTERM, stop)\nn = 0\n"
        "while going:\n    attempt(n)\n    acked(n)\n    n += 1\n    time.sleep(0.01)\n"
        "end(n, n)\nfailed(n, 'IllegalStateException', 'closed')\nsys.exit(143)\n"
    )
    assert play(text, sends={"messages": None, "duration": "1s"}) == []
    outcomes = play.outcomes()
    assert outcomes["failed"] == 1 and outcomes["acked"] > 10 and set(outcomes) == {"acked", "failed"}


def handed(supervisor: Supervisor) -> None:
    """Waits until the member has printed all that it has to print."""
    said = supervisor.members[0].client.stderr.with_name("billing-member-1.java.err")
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


def test_a_member_is_recorded(play: Play) -> None:
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


def test_a_member_without_partitions(play: Play) -> None:
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


def test_a_killed_member_has_all_that_it_had_said_on_record(play: Play) -> None:
    """SIGKILL hits the program itself; what it had printed and nopid had read yet counts."""
    many = HAND.replace("range(5)", "range(3000)").replace("offset=5)", "offset=3000)")
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


def test_a_paused_member_stands_still(play: Play) -> None:
    """The program itself, and it goes on."""
    supervisor = play.supervisor(GOOD, READ + STAY)
    supervisor.start()
    (slot,) = supervisor.members
    slot.pause()
    assert eventually(slot.is_stopped) and psutil.Process(slot.process.pid).status() != "stopped"
    assert slot.cpu_seconds() > 0
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
        (HAND + "os.kill(os.getpid(), signal.SIGSEGV)\n", "killed by SIGSEGV"),
        (
            HAND + "say('offsets_committed', offsets=3)\n" + STAY,
            "it printed a line that the protocol does not",
        ),
    ],
)
def test_a_member_that_goes_wrong_is_a_trouble(text: str, said: str, play: Play) -> None:
    """What it was handed before is on record."""
    supervisor = play.supervisor(GOOD, READ + text)
    supervisor.start()
    handed(supervisor)
    if STAY not in text:
        assert eventually(lambda: not supervisor.members[0].running)
    (trouble,) = leave(play, supervisor)
    assert trouble.startswith("billing-member-1") and "Kafka's Java consumer: " in trouble and said in trouble
    assert len(play.rows("deliveries")) == 5


def test_a_member_of_a_share_group(play: Play) -> None:
    """What it was handed it accepts by its next poll, and a broker confirms that, or does not."""
    text = READ + (
        "for n in range(3):\n"
        f"    say('record_data', key=None, value='{PREFIX}.%d' % n, topic='orders', partition=0, offset=n)\n"
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


def test_nothing_of_a_jvm_is_left(play: Play) -> None:
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
