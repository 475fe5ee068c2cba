"""Clients that die at a bad moment end in a sentence. Real clients, with librdkafka's own mock of brokers."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow.dataset as ds
import pytest

from kaput.errors import LabError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.reading import check
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.client_spec import file_name
from kaput.workload.supervision.client_process import FENCED, UNRELEASED, ClientProcess
from kaput.workload.supervision.supervisor import Supervisor
from waiting import PATIENCE_S, eventually

DIED = r"^producer-0 ended on its own \(killed by SIGKILL\): no error output$"
Make = Callable[[Scenario], Supervisor]
STRANGE = ["a/b", "a_b", "../up", "_hidden", ".dot", "Billing", "billing", "é" * 200, "x" * 300, "nul\0", "~"]


def scenario(members: int = 0, groups: tuple[str, ...] = ("billing",), rate: int = 100) -> Scenario:
    """One producer of 10,000 messages, and groups."""
    reads = {"topics": ["orders"]}
    workload = {
        "producers": [{"topic": "orders", "messages": 10_000, "rate": rate}],
        "groups": [{"id": group, "members": members, **reads} for group in groups if members],
    }
    topics = [{"name": "orders", "replication-factor": 1}]
    return Scenario.model_validate({"version": 1, "title": "t", "topics": topics, "workload": workload})


@pytest.fixture
def supervisor_of(owner: Owner, brokers: str, tmp_path: Path) -> Callable[[Scenario], Supervisor]:
    """Supervisors that have not started yet, with the folder `run`."""
    (tmp_path / "run").mkdir()
    run = RunFolder(tmp_path / "run")
    return lambda of: Supervisor(owner, of, run, uuid.UUID(int=3), brokers, [], lambda n, at_ns: None)


def test_a_producer_that_dies_between_ready_and_go(supervisor_of: Make, tmp_path: Path) -> None:
    """Its pipe is closed when it is asked to go: who died, and by what."""
    supervisor = supervisor_of(scenario())
    supervisor.start()
    supervisor.producers[0].process.kill()
    with pytest.raises(LabError, match=DIED):
        supervisor.go()


def test_a_producer_that_dies_before_it_is_ready(supervisor_of: Make, tmp_path: Path) -> None:
    """While it is waited for."""
    supervisor = supervisor_of(scenario())

    def kill() -> None:
        assert eventually(lambda: bool(supervisor.producers))
        supervisor.producers[0].process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(LabError, match=DIED):
        supervisor.start()
    killer.join()


def test_a_producer_that_dies_while_it_sends(supervisor_of: Make, tmp_path: Path) -> None:
    """The run ends in a sentence, and what it had sent is evidence."""
    supervisor = supervisor_of(scenario())
    supervisor.start()
    supervisor.go()
    assert eventually(lambda: supervisor.count("attempted") > 10)
    assert not supervisor.all_reported("sent")
    supervisor.producers[0].process.kill()
    with pytest.raises(LabError, match=DIED):
        supervisor.all_reported("sent")
    seal(RunFolder(tmp_path / "run"))


def test_killed_producer_comes_back_with_its_next_message(supervisor_of: Make, tmp_path: Path) -> None:
    """The load is not over while it is down; each message has one row, and only one process sent it."""
    supervisor = supervisor_of(scenario(rate=2000))
    supervisor.start()
    supervisor.go()
    producer = supervisor.producer(0)
    for threshold in (100, 1500):
        assert eventually(lambda threshold=threshold: supervisor.count("acked") > threshold)
        producer.expect_return()
        producer.kill()
        assert not producer.running and not supervisor.all_reported("sent")
        producer.start()
    assert [client.name for client in supervisor.producers] == ["producer-0", "producer-0.2", "producer-0.3"]
    assert eventually(lambda: supervisor.all_reported("done"))
    folder = RunFolder(tmp_path / "run")
    assert seal(folder, killed=supervisor.killed_producers()) == []
    rows = ds.dataset(folder.table("sends")).to_table(columns=["seq", "outcome"]).to_pylist()
    assert sorted(row["seq"] for row in rows) == list(range(10_000))
    assert {row["outcome"] for row in rows} <= {"acked", "unknown"}


def test_killed_transactional_producer_comes_back_with_its_id(supervisor_of: Make, tmp_path: Path) -> None:
    """Messages of committed transactions were acknowledged, also those just before the kill. What was open
    has an unknown outcome; every message belongs to one transaction.
    """
    of = scenario(rate=200)
    producer = of.workload.producers[0].model_dump(by_alias=True, exclude_unset=True)
    producer |= {"messages": 1000, "transactions": {"size": 20}}
    document = of.model_dump(by_alias=True, exclude_unset=True)
    document["workload"]["producers"] = [producer]
    supervisor = supervisor_of(Scenario.model_validate(document))
    supervisor.start()
    supervisor.go()
    handle = supervisor.producer(0)
    assert eventually(lambda: supervisor.count("acked") > 150)
    handle.expect_return()
    handle.kill()
    handle.start()
    assert eventually(lambda: supervisor.all_reported("done"))
    folder = RunFolder(tmp_path / "run")
    seal(folder, killed=[0])
    rows = ds.dataset(folder.table("transactions")).to_table().sort_by("transaction").to_pylist()
    sends = ds.dataset(folder.table("sends")).to_table().to_pylist()
    outcomes = {row["seq"]: row["outcome"] for row in sends}
    assert len(outcomes) == len(sends) == 1000
    assert [row["transaction"] for row in rows] == list(range(len(rows)))
    assert [row["first_seq"] for row in rows] == [0, *(row["last_seq"] + 1 for row in rows[:-1])]
    assert rows[-1]["last_seq"] == 999 and {row["transactional_id"] for row in rows} == {"kaput-producer-0"}
    for row in rows:
        of_row = {outcomes[seq] for seq in range(row["first_seq"], row["last_seq"] + 1)}
        assert of_row == {"acked"} or row["outcome"] == "unknown"


def test_producer_that_cannot_come_back_ends_the_load_all_the_same(supervisor_of: Make) -> None:
    """The fault's heal says so; the run goes on, and is not waiting for it."""
    supervisor = supervisor_of(scenario())
    supervisor.start()
    supervisor.go()
    producer = supervisor.producer(0)
    producer.expect_return()
    producer.kill()
    supervisor._scenario.workload.producers[0].config["no.such.setting"] = 1
    with pytest.raises(LabError, match=r"(?s)producer-0.2 ended on its own .*no\.such\.setting"):
        producer.start()
    assert supervisor.all_reported("sent") and supervisor.all_reported("done")


def test_dead_member_is_reported_and_not_waited_for(supervisor_of: Make, tmp_path: Path) -> None:
    """The others are asked to leave, and the dead one costs no time."""
    supervisor = supervisor_of(scenario(members=2))
    supervisor.start()
    supervisor.members[0].process.kill()
    supervisor.go()
    began = time.monotonic()
    supervisor.stop_members(timeout_s=120)
    assert time.monotonic() - began < 60
    assert supervisor.troubles() == ["billing-member-1 ended on its own (killed by SIGKILL): no error output"]


REFUSES = {"at": 60, "fault": "protocol", "what": "error", "api": "ConsumerGroupHeartbeat"}


@pytest.mark.parametrize(
    ("error", "rivals", "acted", "killed", "why"),
    [
        (FENCED, (2,), (), False, "member 2 has the same group.instance.id"),
        (UNRELEASED, (2, 3), (), False, "members 2 and 3 have the same group.instance.id"),
        (FENCED, (4,), (), False, "member 4 has the same group.instance.id"),  # a step adds it
        (FENCED, (), (), False, ""),
        (FENCED, (), ("1-protocol",), False, ""),  # it answers with another error
        (UNRELEASED, (), (), False, ""),  # the step is not due yet
        (UNRELEASED, (), ("1-protocol",), False, f"a step answered ConsumerGroupHeartbeat with {UNRELEASED}"),
        (UNRELEASED, (), (), True, "its killed process still has its group.instance.id"),
        (FENCED, (), (), True, ""),
    ],
)
def test_why_a_member_was_fenced(
    owner: Owner,
    tmp_path: Path,
    error: str,
    rivals: tuple[int, ...],
    acted: tuple[str, ...],
    killed: bool,
    why: str,
) -> None:
    """Only by what is there: a member that was started, a step that has had its effect with that error."""
    of = scenario(members=3).model_dump(by_alias=True, exclude_unset=True)
    same = {number: {"group.instance.id": "billing-member-4"} for number in (1, 2, 3)}
    of["workload"]["groups"][0] |= {"type": "consumer", "static": True, "member-config": same}
    of |= {
        "cluster": {"proxies": "clients"},
        "faults": [{**REFUSES, "target": "broker 1", "error": UNRELEASED}],
    }
    supervisor = Supervisor(
        owner, Scenario.model_validate(of), RunFolder(tmp_path), uuid.UUID(int=3), "h:1", [],
        lambda n, at_ns: None, has_acted=acted.__contains__,
    )  # fmt: skip
    group = supervisor._scenario.workload.groups[0]
    for number in (1, *((1,) if killed else ()), *rivals):
        client = SimpleNamespace(killed=killed)
        supervisor.member("billing", number)._clients.append(client)  # type: ignore[arg-type]
    assert supervisor._why_fenced(group, 1, error) == why


def test_notes_of_all_clients_are_kept(supervisor_of: Make, tmp_path: Path) -> None:
    """Of each producer of a process, also of one that was killed later; none is why it ended."""
    supervisor = supervisor_of(scenario())
    lines = "".join(json.dumps({"kind": "note", "message": text}) + "\n" for text in ("one", "two"))
    process = SimpleNamespace(popen=SimpleNamespace(stdout=lines.splitlines()), returncode=1)
    (tmp_path / "err").write_text("Segmentation fault")
    client = ClientProcess("producer-0", process, tmp_path / "err", killed=True)  # type: ignore[arg-type]
    client.listen(lambda message: None)
    supervisor.producers.append(client)
    assert supervisor.notes() == ["one", "two"] and client.ended().endswith(
        "(exit status 1): Segmentation fault"
    )


def test_client_with_bad_settings_is_reported_with_its_stderr(supervisor_of: Make, tmp_path: Path) -> None:
    """The end of its stderr is in the sentence."""
    bad = scenario()
    bad.workload.producers[0].config["no.such.setting"] = 1
    with pytest.raises(
        LabError, match=r"(?s)producer-0 ended on its own \(exit status 1\): .*no\.such\.setting"
    ):
        supervisor_of(bad).start()


def test_client_that_is_not_let_in_is_reported_at_once(supervisor_of: Make) -> None:
    """By its own sentence, without a traceback. The mock lets nobody sign in."""
    denied = scenario()
    signs_in = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    denied.workload.producers[0].config.update(
        {**signs_in, "sasl.username": "nobody", "sasl.password": "hush"}
    )
    why = r"^producer-0 ended on its own \(exit status 1\): User:nobody cannot authenticate: [^\n]*SASL.*$"
    with pytest.raises(LabError, match=why):
        supervisor_of(denied).start()


def test_groups_with_unusual_names_have_separate_evidence_files(supervisor_of: Make, tmp_path: Path) -> None:
    """Slashes, dots, capitals, great length: files inside the folder, all found by who reads the evidence."""
    groups = ("a/b", "_hidden", "Sales", "sales", "x" * 300)
    supervisor = supervisor_of(scenario(members=1, groups=groups))
    supervisor.start()
    supervisor.stop_members()
    assert [client.process.wait(PATIENCE_S) for client in supervisor.members] == [0] * len(groups)
    folder = RunFolder(tmp_path / "run")
    supervisor.producers[0].process.kill()
    seal(folder)
    folder.write_manifest(Manifest(run_id=uuid.UUID(int=3), scenario="t", state="recording"))
    assert check(folder).words["group_events", "group"] == set(groups)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "state"}


def test_file_names_are_safe_and_unique(tmp_path: Path) -> None:
    """Also on file systems that see no capitals; a plain name stays as it is."""
    names = [file_name(f"{group}-member-1") for group in [*STRANGE, "a/b~c", file_name("a/b-member-1")[:-9]]]
    assert len({name.lower() for name in names}) == len(names)
    assert file_name("billing-member-1") == "billing-member-1"
    for name in names:
        Recorder(tmp_path, "deliveries", name).close()
        assert (tmp_path / "evidence" / "deliveries" / f"{name}.arrows").exists()
        assert name[0] not in "._"


class _Ended:
    """A process that has ended."""

    returncode = 1


@pytest.mark.skipif(not Path("/proc/self/timers").exists(), reason="needs Linux's /proc, which has no space")
def test_full_disk_is_named_when_stderr_is_empty() -> None:
    """A client that could not write its evidence could not write its traceback either."""
    client = ClientProcess("producer-0", _Ended(), Path("/proc/self/timers"))  # type: ignore[arg-type]
    assert client.ended() == (
        "producer-0 ended on its own (exit status 1): no space is left on the disk of /proc/self"
    )
