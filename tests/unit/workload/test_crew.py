"""Clients that die at a bad moment end in a sentence. Real clients, with librdkafka's own mock of brokers."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kaput.errors import LabError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.reading import check
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.client import Client
from kaput.workload.crew import Crew
from kaput.workload.order import file_name
from kaput.workload.quiet import quiet_logger
from waiting import eventually

DIED = r"^producer-0 ended on its own \(killed by SIGKILL\): it said nothing$"
Make = Callable[[Scenario], Crew]
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
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    """An owner with a registry of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Owner() as started:
        yield started


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Where the mock listens, which lives as long as the client that made it; it has the topic."""
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    (broker,) = client.list_topics("orders", timeout=30).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del client


@pytest.fixture
def crew_of(owner: Owner, brokers: str, tmp_path: Path) -> Callable[[Scenario], Crew]:
    """Crews that have not started yet, with the folder `run`."""
    (tmp_path / "run").mkdir()
    run = RunFolder(tmp_path / "run")
    return lambda of: Crew(owner, of, run, uuid.UUID(int=3), brokers, [], lambda n, at_ns: None)


def test_a_producer_that_dies_between_ready_and_go(crew_of: Make, tmp_path: Path) -> None:
    """Its pipe is closed when it is told to go: who died, and by what."""
    crew = crew_of(scenario())
    crew.start()
    crew.producers[0].process.kill()
    with pytest.raises(LabError, match=DIED):
        crew.go()


def test_a_producer_that_dies_before_it_is_ready(crew_of: Make, tmp_path: Path) -> None:
    """While it is waited for."""
    crew = crew_of(scenario())

    def kill() -> None:
        assert eventually(lambda: bool(crew.producers), 20)
        crew.producers[0].process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(LabError, match=DIED):
        crew.start()
    killer.join()


def test_a_producer_that_dies_while_it_sends(crew_of: Make, tmp_path: Path) -> None:
    """The run ends in a sentence, and what it had sent is evidence."""
    crew = crew_of(scenario())
    crew.start()
    crew.go()
    assert eventually(lambda: crew.count("attempted") > 10, 20)
    assert not crew.all_said("sent")
    crew.producers[0].process.kill()
    with pytest.raises(LabError, match=DIED):
        crew.all_said("sent")
    seal(RunFolder(tmp_path / "run"))


def test_a_member_that_dies_is_a_trouble_and_is_not_waited_for(crew_of: Make, tmp_path: Path) -> None:
    """The others are asked to leave, and the dead one costs no time."""
    crew = crew_of(scenario(members=2))
    crew.start()
    crew.members[0].process.kill()
    crew.go()
    began = time.monotonic()
    crew.stop_members(timeout_s=120)
    assert time.monotonic() - began < 60
    assert crew.troubles() == ["billing-member-1 ended on its own (killed by SIGKILL): it said nothing"]


def test_a_client_with_bad_settings_says_what_it_said_last(crew_of: Make, tmp_path: Path) -> None:
    """The end of its stderr is in the sentence."""
    bad = scenario()
    bad.workload.producers[0].config["no.such.setting"] = 1
    with pytest.raises(
        LabError, match=r"(?s)producer-0 ended on its own \(exit status 1\): .*no\.such\.setting"
    ):
        crew_of(bad).start()


def test_members_of_any_group_have_evidence_files_of_their_own(crew_of: Make, tmp_path: Path) -> None:
    """Slashes, dots, capitals, great length: files inside the folder, all found by who reads the evidence."""
    groups = ("a/b", "_hidden", "Sales", "sales", "x" * 300)
    crew = crew_of(scenario(members=1, groups=groups))
    crew.start()
    crew.stop_members()
    assert [client.process.wait(10) for client in crew.members] == [0] * len(groups)
    folder = RunFolder(tmp_path / "run")
    crew.producers[0].process.kill()
    seal(folder)
    folder.write_manifest(Manifest(run_id=uuid.UUID(int=3), scenario="t", state="recording"))
    assert check(folder).words["group_events", "group"] == set(groups)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "state"}


def test_names_of_files_are_safe_and_never_the_same(tmp_path: Path) -> None:
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


@pytest.mark.skipif(
    not Path("/proc/self/timers").exists(), reason="a file system without space: Linux's /proc"
)
def test_a_full_disk_is_named_where_it_took_the_last_words() -> None:
    """A client that could not write its evidence could not write its traceback either."""
    client = Client("producer-0", _Ended(), Path("/proc/self/timers"))  # type: ignore[arg-type]
    assert client.ended() == (
        "producer-0 ended on its own (exit status 1): no space is left on the disk of /proc/self"
    )
