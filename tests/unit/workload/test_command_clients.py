"""Programs of others as clients: what they say is recorded, and what they do wrong is a sentence about them.

Real processes; where a cluster is needed, librdkafka's own mock of brokers.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from supervised_clients import SupervisedClients

from kaput.errors import LabError
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.command.program import ClientProgram
from kaput.workload.librdkafka.client_setup import quiet_logger
from streams import rows_so_far
from waiting import PATIENCE_S, eventually

EXAMPLE = Path(__file__).parents[3] / "examples" / "clients" / "python" / "client.py"
MESSAGES = 200
START = "import json, sys, time\ntold = json.loads(sys.stdin.readline())\n"
SAY = "def say(**line):\n    print(json.dumps(line), flush=True)\n"
READY = START + SAY + "say(ready=True)\n"


def scenario(produce: str, consume: str = "", patience: str = "20s", **more: Any) -> Scenario:
    """One producer that is a program, and perhaps a member that is another."""
    sends = {"topic": "orders", "messages": MESSAGES, "client": "command", "command": produce, **more}
    group = {"id": "billing", "topics": ["orders"], "client": "command", "command": consume}
    group["config"] = {"session.timeout.ms": 6000}  # until then the mock keeps the place of a killed member
    workload = {"producers": [{**sends, "patience": patience}], "groups": [group] if consume else []}
    topics = [{"name": "orders", "replication-factor": 1}]
    return Scenario.model_validate({"version": 1, "title": "t", "topics": topics, "workload": workload})


class Play(SupervisedClients):
    """Clients that run to their end."""

    def program(self, text: str) -> str:
        """The command line of a Python program."""
        path = self._path / f"program-{len(list(self._path.iterdir()))}.py"
        path.write_text(text)
        return f"{sys.executable} {path}"

    def __call__(self, of: Scenario, servers: str = "nobody:1", read: bool = False) -> list[str]:
        supervisor = self.supervisor_of(of, servers)
        supervisor.start()
        supervisor.go()
        assert eventually(lambda: supervisor.all_reported("done"))
        if read:
            assert eventually(lambda: self.count("deliveries") >= MESSAGES)
        supervisor.stop_members()
        for slot in supervisor.members:
            assert slot.process.wait(PATIENCE_S) is not None
        troubles = supervisor.troubles()
        supervisor.tidy()
        seal(self.folder)
        return troubles

    def count(self, table: str) -> int:
        """How many rows a stream has so far."""
        return len(rows_so_far(self.folder.table(table)))


SHELL = "sh -c '{} {}; exit $?'"  # the program is a child of a shell, as it is of npm or go run


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """With an owner that has a registry of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Owner() as owner:
        yield Play(owner, tmp_path)


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Where the mock listens, which lives as long as the client that made it; it has the topic."""
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = client.list_topics("orders", timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del client


def test_the_python_example_sends_and_reads(play: Play, brokers: str) -> None:
    """Everything acknowledged where it is stored, delivered once, committed behind its delivery."""
    example = f"{sys.executable} {EXAMPLE}"
    assert play(scenario(f"{example} produce", f"{example} consume"), brokers, read=True) == []
    assert play.outcomes() == {"acked": MESSAGES} and play.thresholds == [50]
    sends = {(row["seq"], row["partition"], row["offset"]) for row in play.rows("sends")}
    delivered = [(row["seq"], row["partition"], row["offset"]) for row in play.rows("deliveries")]
    assert sorted(delivered) == sorted(sends) and all(row["intact"] for row in play.rows("deliveries"))
    events = Counter(row["kind"] for row in play.rows("group_events"))
    assert events["joined"] == events["left"] == 1 and events["assigned"] >= 1 and events["committed"] >= 1
    ends = [row for row in play.rows("group_events") if row["kind"] == "committed"]
    for row in ends:
        before = [d for d in play.rows("deliveries") if d["polled_ns"] <= row["at_ns"]]
        assert row["offset"] <= sum(d["partition"] == row["partition"] for d in before)


def test_reported_outcomes_are_recorded(play: Play) -> None:
    """Every outcome, with what it says of place and reason."""
    text = READY + (
        "for text in sys.stdin:\n"
        "    seq = json.loads(text)['seq']\n"
        "    if seq % 4 == 0: say(seq=seq, outcome='acked', partition=3, offset=seq * 2)\n"
        "    if seq % 4 == 1: say(seq=seq, outcome='acked')\n"
        "    if seq % 4 == 2: say(seq=seq, outcome='failed', error='too large')\n"
        "    if seq % 4 == 3: say(seq=seq, outcome='unknown')\n"
    )
    assert play(scenario(play.program(text))) == []
    rows = {row["seq"]: row for row in play.rows("sends")}
    wanted = ("partition", "offset", "outcome", "error")
    assert [tuple(rows[seq][name] for name in wanted) for seq in range(4, 8)] == [
        (3, 8, "acked", None),
        (0, None, "acked", None),
        (0, None, "failed", "too large"),
        (0, None, "unknown", None),
    ]
    assert all(row["done_ns"] >= row["attempt_ns"] for row in rows.values()) and len(rows) == MESSAGES


TRANSACTIONS = {"size": 60, "abort": "50%"}  # of 200 messages: the 2nd and the 4th are aborted
ENDED = "say(transaction={'commit': 'committed', 'abort': 'aborted'}[line['end']])"


def transactional(end: str, refused: int = -1) -> str:
    """A program. `end`: how it ends the transaction that is its `nth`; `refused`: a message that fails."""
    return READY + (
        "nth = 0\n"
        "for line in map(json.loads, sys.stdin):\n"
        "    seq = line.get('seq')\n"
        f"    if 'end' in line:\n        nth += 1\n        {end}\n"
        f"    elif seq == {refused}: say(seq=seq, outcome='failed', error='no')\n"
        "    elif seq is not None: say(seq=seq, outcome='acked', partition=0, offset=seq)\n"
    )


def test_transactions_of_a_program(play: Play) -> None:
    """Each begins before its first message, and ends as it was asked, once all its messages are known; a
    message that fails breaks its transaction.
    """
    of = scenario(play.program(transactional(ENDED, refused=130)), transactions=TRANSACTIONS)
    assert play(of) == [] and play.outcomes() == {"acked": MESSAGES - 1, "failed": 1}
    rows = sorted(play.rows("transactions"), key=lambda row: row["transaction"])
    assert [(row["first_seq"], row["outcome"]) for row in rows[:3]] == [
        (0, "committed"), (60, "aborted"), (120, "aborted"),
    ]  # fmt: skip
    assert [row["error"] for row in rows[:3]] == [None, None, "no"]
    # They follow each other without a gap, and hold all messages.
    assert [row["first_seq"] for row in rows[1:]] == [row["last_seq"] + 1 for row in rows[:-1]]
    assert rows[-1]["last_seq"] == MESSAGES - 1
    sends = {row["seq"]: row for row in play.rows("sends")}
    for row in rows:
        assert row["transactional_id"] == "kaput-producer-0"
        assert row["begin_ns"] < sends[row["first_seq"]]["attempt_ns"]
        assert (
            max(sends[seq]["done_ns"] for seq in range(row["first_seq"], row["last_seq"] + 1)) < row["end_ns"]
        )


@pytest.mark.parametrize(
    ("answer", "patience", "said"),
    [
        ("sys.exit(3)", "300s", "it ended on its own (exit status 3)"),
        ("time.sleep(600)", "10s", "it hangs: it has printed nothing for 10 s (patience)"),
        ("say(transaction='perhaps')", "10s", "(transaction is one of committed, aborted, unknown)"),
    ],
)
def test_transaction_without_a_reported_end_is_unknown(
    answer: str, patience: str, said: str, play: Play
) -> None:
    """The one that was open; those before it keep their outcome."""
    program = play.program(transactional(f"{ENDED} if nth == 1 else {answer}"))
    troubles = play(scenario(program, patience=patience, transactions={"size": 50}))
    assert any(said in trouble for trouble in troubles), troubles
    rows = sorted(play.rows("transactions"), key=lambda row: row["transaction"])
    assert [(row["outcome"], row["end_ns"] is None) for row in rows] == [
        ("committed", False),
        ("unknown", True),
    ]


def test_messages_pending_in_a_dead_program_are_unknown(play: Play) -> None:
    """The run goes on; its last words are in the sentence."""
    text = READY + (
        "for text in sys.stdin:\n"
        "    seq = json.loads(text)['seq']\n"
        "    if seq == 70: raise SystemExit('out of cheese')\n"
        "    say(seq=seq, outcome='acked')\n"
    )
    (trouble,) = play(scenario(play.program(text)))
    assert trouble == "producer-0: its command: it ended on its own (exit status 1): out of cheese"
    outcomes = play.outcomes()
    assert outcomes["acked"] == 70 and outcomes["unknown"] >= 1 and sum(outcomes.values()) <= MESSAGES


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.stdin.read()\ntime.sleep(600)\n", "it hangs: it has neither printed anything nor ended"),
        (
            "for text in sys.stdin: pass\n",
            "it ended without reporting the outcome of 200 messages (the first is",
        ),
    ],
)
def test_silent_program_leaves_all_messages_unknown(text: str, said: str, play: Play) -> None:
    """It hangs, or ends as if it had done its work: in either case nothing is known of its messages."""
    (trouble,) = play(scenario(play.program(READY + text), patience="1s"))
    assert said in trouble and "Traceback" not in trouble
    assert play.outcomes() == {"unknown": MESSAGES}


def test_program_that_reads_no_input_is_hanging(play: Play) -> None:
    """As soon as the pipe is full; what was not handed over was not sent."""
    of = scenario(play.program(READY + "time.sleep(600)\n"), patience="1s")
    of.workload.producers[0].__dict__.update(payload_bytes=4000)
    (trouble,) = play(of)
    assert "it hangs: it has read no input for 1 s (patience)" in trouble
    assert 1 <= play.outcomes()["unknown"] < MESSAGES


_IDLE = (False, "read no input"), (True, "neither printed anything nor")
_LINES = "x" * 80, '{"seq": 0, "outcome": "acked"}', '{"ready": true}'


@pytest.mark.parametrize(
    ("takes", "said", "line"),
    [
        pytest.param(*idle, line, marks=[] if i == j else pytest.mark.long)
        for i, idle in enumerate(_IDLE)
        for j, line in enumerate(_LINES)
    ],
)
def test_program_with_endless_output_is_hanging(takes: bool, said: str, line: str, play: Play) -> None:
    """What means nothing, or was said before, is no sign of work: neither early nor late."""
    text = READY + (
        "import threading\n"
        + ("threading.Thread(target=sys.stdin.read, daemon=True).start()\n" if takes else "")
        + f"while True: sys.stdout.write({line!r} + chr(10)); time.sleep(0.001)\n"
    )
    of = scenario(play.program(text), patience="1s")
    of.workload.producers[0].__dict__.update(payload_bytes=4000)
    troubles = play(of)
    assert any(f"it hangs: it has {said}" in trouble for trouble in troubles), troubles
    assert any("lines that the protocol does not have" in trouble for trouble in troubles)


def test_endless_stderr_is_truncated(play: Play) -> None:
    """The end of what it printed to stderr is kept, and its last words are in the sentence."""
    text = READY + (
        "for number in range(400): sys.stderr.write('x' * 65_535 + chr(10))\n"
        "raise SystemExit('out of cheese')\n"
    )
    (trouble,) = play(scenario(play.program(text)))
    assert trouble.startswith("producer-0: its command: it ended on its own (exit status 1): ")
    assert trouble.endswith("\nout of cheese") and len(trouble) < 2000
    (kept,) = play.folder.path.glob("clients/*.command.err")
    assert kept.stat().st_size < 5_000_000


def test_malformed_output_lines_are_counted_and_shown(play: Play) -> None:
    """Each line of the wrong kind; what is right in between counts."""
    text = READY + (
        "print('hello', flush=True)\n"
        "print('[' * 100000)\n"
        "say(seq=999999, outcome='acked')\n"
        "say(seq='x', outcome='acked')\n"
        "for text in sys.stdin:\n"
        "    seq = json.loads(text)['seq']\n"
        "    if seq == 3: say(seq=3, outcome='fine')\n"
        "    say(seq=seq, outcome='acked')\n"
        "    if seq == 5: say(seq=5, outcome='failed')\n"
        "    if seq == 6: say(seq=6, outcome='acked', offset=-1)\n"
    )
    (trouble,) = play(scenario(play.program(text)))
    assert trouble == (
        "producer-0: its command: it printed 7 lines that the protocol does not have; "
        "the first: 'hello' (not JSON)"
    )
    assert play.outcomes() == {"acked": MESSAGES}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program-at-all", "no-such-program-at-all cannot be started: No such file"),
        (f"{sys.executable} -c 'raise SystemExit(\"no\")'", r"it ended on its own \(exit status 1\): no"),
    ],
)
def test_program_that_is_never_ready_ends_the_run(command: str, said: str, play: Play) -> None:
    """There is nothing to judge."""
    with pytest.raises(LabError, match=f"producer-0 ended on its own .*its command: {said}"):
        play.supervisor_of(scenario(command)).start()


MEMBER = (
    READY
    + "say(assigned=[['orders', 0]])\nfor n in range(3):\n    say(topic='orders', partition=0, offset=n)\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MEMBER + "raise SystemExit('bye')\n", r"it ended on its own \(exit status 1\): bye"),
        (MEMBER, "before its input did"),
        (MEMBER + "say(committed=5)\nsys.stdin.read()\n", "a line that the protocol does not have"),
    ],
)
def test_misbehaving_member_is_reported(text: str, said: str, play: Play) -> None:
    """What it was delivered before is on record: records without a payload are others'."""
    good = play.program(READY + "for t in sys.stdin: say(seq=json.loads(t)['seq'], outcome='acked')\n")
    supervisor = play.supervisor_of(scenario(good, play.program(text)))
    supervisor.start()
    supervisor.go()
    assert eventually(lambda: supervisor.all_reported("done"))
    assert eventually(lambda: play.count("deliveries") == 3)
    if not text.endswith("sys.stdin.read()\n"):  # it ends on its own: first that is seen
        assert eventually(lambda: not supervisor.members[0].running)
    supervisor.stop_members()
    assert supervisor.members[0].process.wait(PATIENCE_S) is not None
    (trouble,) = supervisor.troubles()
    assert trouble.startswith("billing-member-1") and "its command: " in trouble
    assert re.search(said, trouble)
    seal(play.folder)
    assert [(row["offset"], row["seq"]) for row in play.rows("deliveries")] == [(n, None) for n in range(3)]


def test_last_words_that_are_read_late_are_in_the_sentence(tmp_path: Path) -> None:
    """On a busy machine a program is over before the thread that reads its stderr had a turn."""
    program = ClientProgram.__new__(ClientProgram)
    program._process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    program._process.communicate()
    program._stderr = tmp_path / "stderr"
    program._errors = threading.Timer(0.5, lambda: program._stderr.write_text("bye\n"))
    program._errors.start()
    assert program.error_output() == ": bye"


def test_seeks_of_a_member_are_recorded(play: Play) -> None:
    """As what it commits is, with the offset."""
    good = play.program(READY + "for t in sys.stdin: say(seq=json.loads(t)['seq'], outcome='acked')\n")
    supervisor = play.supervisor_of(
        scenario(good, play.program(MEMBER + "say(seek=[['orders', 0, 1]])\nsys.stdin.read()\n"))
    )
    supervisor.start()
    supervisor.go()
    assert eventually(lambda: play.count("deliveries") == 3)
    supervisor.stop_members()
    assert supervisor.members[0].process.wait(PATIENCE_S) is not None
    assert supervisor.troubles() == []
    seal(play.folder)
    seeks = [row for row in play.rows("group_events") if row["kind"] == "seek"]
    assert [(row["topic"], row["partition"], row["offset"]) for row in seeks] == [("orders", 0, 1)]


def test_program_ends_with_its_adapter(play: Play) -> None:
    """Also of one that listens to nobody, and when kaput's own process is killed."""
    supervisor = play.supervisor_of(scenario(play.program(READY + "time.sleep(600)\n")))
    supervisor.start()
    adapter = supervisor.producers[0].process
    (program,) = psutil.Process(adapter.pid).children()
    adapter.kill()
    assert eventually(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def test_killed_programs_come_back(play: Play, brokers: str) -> None:
    """Also those below a shell; a producer goes on with its next message, a member has a new name, and that a
    fault ended them is no mistake of theirs.
    """
    command = f"{sys.executable} {EXAMPLE}"
    # Eight seconds of load: on a busy machine one of two was over before the producer was paused.
    of = scenario(SHELL.format(command, "produce"), SHELL.format(command, "consume"), rate=25)
    supervisor = play.supervisor_of(of, brokers)
    supervisor.start()
    supervisor.go()
    producer, member = supervisor.producer(0), supervisor.member("billing", 1)
    assert eventually(lambda: supervisor.count("acked") > 20)
    producer.pause()
    hit = [*supervisor.producers[0].pids, *member.client.pids]
    assert len(hit) == 4
    assert eventually(producer.is_stopped)
    producer.expect_return()
    producer.kill()
    member.kill()
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in hit)
    producer.start()
    member.start()
    assert eventually(
        lambda: supervisor.troubles() != [] or (supervisor.all_reported("done") and member.ready)
    )
    supervisor.stop_members()
    assert member.process.wait(PATIENCE_S) == 0 and member.member == "member-1.2"
    assert supervisor.troubles() == []
    seal(play.folder, killed=supervisor.killed_producers())
    sends = {row["seq"]: row["outcome"] for row in play.rows("sends")}
    assert len(sends) == len(play.rows("sends")) == MESSAGES and sends[MESSAGES - 1] == "acked"
    kinds = {(row["member"], row["kind"]) for row in play.rows("group_events")}
    assert {("member-1", "killed"), ("member-1.2", "joined"), ("member-1.2", "left")} <= kinds
