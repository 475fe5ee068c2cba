"""Many experiments an hour: several on one cluster, which stays warm, each with evidence of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest
import yaml

from driving import mentions
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from kaput.runner.progress import NotesOnly
from kaput.scenario.loader import resolve
from kaput.scenario.source import parse
from kaput.trials.batch import Judged, Trial
from kaput.trials.trials import Trials
from waiting import PATIENCE_S, wait_for

SCENARIO = {
    "version": 1,
    "title": "The leader is killed",
    "cluster": {
        "brokers": 3,
        "controllers": 1,
        "proxies": "clients",
        # Longer than the pauses of a busy machine, also scaled.
        "config": {"unclean.leader.election.enable": False, "broker.session.timeout.ms": 15000},
    },
    "topics": [{"name": "orders", "assignment": [[1, 2, 3]]}],
    "workload": {
        "producers": [{"topic": "orders", "messages": 12000, "rate": 400}],
        "groups": [{"id": "billing", "topics": ["orders"]}],
        "warm-up": 0,
    },
    # What the leader acknowledges alone before it is killed, nobody else has.
    "faults": [
        {"at": "3s", "fault": "pause", "target": "followers-of orders/0", "for": "4s"},
        {"at": "4s", "fault": "kill", "target": "leader-of orders/0", "for": "20s"},
    ],
    "expect": {"lost": 0},
}
# What waits for requests and elections has the cluster to itself. The election is a session after the kill.
ALONE = """faults=[
  {at: 0s, fault: protocol, target: leader-of orders/0, api: Produce, delay: 1s, nth: 1},
  {at: 10s, fault: kill, target: leader-of orders/0, for: 20s},
  {at: {event: election, of: orders/0}, fault: pause, target: broker 3, for: 2s},
  {at: {event: request, api: Produce, after: 1s}, fault: pause, target: broker 2, for: 1s}]"""
STORE = ("stores={local: {kind: sqlite}}", "workload.producers.0.on-failure={stores: [local]}")
# What acts on requests has a cluster to itself, and one node leaves cores for others.
ONE_NODE = (
    "cluster={brokers: 1, controllers: combined, proxies: clients}",
    "topics.0={name: orders, replication-factor: 1}",
    "faults=[{at: 1s, fault: protocol, target: broker 1, api: Produce, what: delay, delay: 2s, nth: 1}]",
)
NO_FAULT = "faults=[]"
SHORT = "workload.producers.0.messages=1000"


def trial(name: str, *changes: str) -> Trial:
    scenario = resolve(parse("orders", yaml.safe_dump(SCENARIO)), list(changes))
    return Trial(name, scenario, 7, {"of": name}, scale=0.2)


@dataclass
class Played:
    """What came of all of them, by name, and what was noted."""

    runs: Path
    notes: list[str] = field(default_factory=list)
    judged: dict[str, Judged] = field(default_factory=dict)

    def take(self, found: Iterator[Judged]) -> None:
        self.judged |= {one.trial.name: one for one in found}

    def findings(self, name: str) -> Findings:
        found = self.judged[name]
        assert found.findings is not None, found.error
        return found.findings

    def rows(self, name: str, table: str) -> list[dict[str, object]]:
        folder = self.judged[name].folder
        assert folder is not None
        return list(ds.dataset(folder.table(table)).to_table().to_pylist())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Three together, and two after them on the same cluster."""
    played = Played(tmp_path_factory.mktemp("trials") / "runs")
    first = [
        trial("acks-0", "workload.producers.0.acks=0"),
        trial("acks-all", "workload.producers.0.acks=all", *STORE),
        trial("impossible", "topics.0.config={retention.ms: soon}"),
        trial("alone", ALONE, "workload.producers.0.messages=20000"),
        trial("after", NO_FAULT, SHORT),
    ]
    progress = NotesOnly(played.notes.append)
    with Trials(played.runs, progress=progress, together=3) as trials:
        played.take(trials.run(first))
    return played


def test_trials_sharing_a_cluster_have_separate_verdicts(played: Played) -> None:
    assert played.findings("acks-0").lost > 0
    assert played.findings("acks-all").lost == 0
    assert played.findings("acks-0").kept is None
    assert played.findings("acks-all").kept is not None
    assert played.findings("acks-0").totals.sent == played.findings("acks-all").totals.sent == 2400


def test_shared_fault_is_recorded_in_each_trial_with_its_own_leader(played: Played) -> None:
    killed = set()
    for name in ("acks-0", "acks-all"):
        _, fault = played.findings(name).faults
        topic = played.rows(name, "sends")[0]["topic"]
        assert fault.target == f"leader-of {topic}/0"
        assert fault.bit
        assert fault.election_ms is not None
        killed.add(tuple(fault.brokers))
    assert len(killed) == 1
    assert played.rows("acks-0", "sends")[0]["topic"] != played.rows("acks-all", "sends")[0]["topic"]


def test_analyzing_a_trial_again_gives_the_same_findings(played: Played) -> None:
    for name in ("acks-0", "acks-all", "after"):
        folder = played.judged[name].folder
        assert folder is not None
        assert analyse(check(folder), InProcess()) == played.findings(name)


def test_manifest_has_scale_and_concurrent_trials(played: Played) -> None:
    one, other = played.judged["acks-0"].folder, played.judged["acks-all"].folder
    assert one is not None
    assert other is not None
    manifest = one.read_manifest()
    assert manifest.scale == 0.2
    assert other.name in manifest.shares_cluster_with
    assert manifest.varied == {"of": "acks-0"}


def test_impossible_trial_is_reported_and_others_go_on(played: Played) -> None:
    error = played.judged["impossible"].error
    assert error is not None
    assert "retention.ms" in error


def test_triggers_match_only_the_trials_own_requests_and_events(played: Played) -> None:
    findings = played.findings("alone")
    topic = str(played.rows("alone", "sends")[0]["topic"])
    held_up, killed, paused, asked = sorted(findings.faults, key=lambda fault: fault.id)
    assert all(fault.bit for fault in findings.faults)
    assert held_up.target == f"leader-of {topic}/0" and "1 delayed by 200ms" in held_up.proof
    [client] = {row["client_id"] for row in played.rows("alone", "frames")}
    assert client in {row["client_id"] for row in played.rows("alone", "requests")}
    [election] = [row for row in played.rows("alone", "cluster_events") if row["leader_epoch"] == 1
                  and row["topic"] == topic and row["kind"] == "leader" and row["leader"] != -1]  # fmt: skip
    assert killed.injected_ns < int(str(election["at_ns"])) < paused.injected_ns
    assert asked.injected_ns < killed.injected_ns


def test_next_trial_reuses_the_cluster_without_earlier_evidence(played: Played) -> None:
    folder = played.judged["after"].folder
    assert folder is not None
    logs = [path.read_text() for path in folder.brokers.glob("*/server.log")]
    assert len(logs) == 4
    assert not any("Kafka Server started" in log for log in logs)
    events = played.rows("after", "cluster_events")
    (own,) = {str(row["topic"]) for row in played.rows("after", "sends")}
    topics = {row["topic"] for row in events if row["topic"] is not None}
    assert {topic for topic in topics if not str(topic).startswith("__")} == {own}
    # A busy machine may fence a broker of its own accord, but nothing is from before.
    earlier = played.judged["alone"].folder
    assert earlier is not None
    assert min(row["at_ns"] for row in events) > earlier.read_manifest().ended_ns
    assert not [row for row in events if row["kind"] == "stopped"]
    assert min(row["leader_epoch"] for row in events if row["topic"] == own) == 0
    assert played.findings("after").verdict == "held"


@pytest.mark.long
@pytest.mark.parametrize(("busy", "side_by_side"), [(0, True), (100, False)])
def test_trials_side_by_side_have_evidence_of_their_own(
    tmp_path: Path, busy: int, side_by_side: bool
) -> None:
    """Where no core is idle, they are played one at a time."""
    played = Played(tmp_path / "runs")
    loads = (8000, 1200, 1000)  # messages, as scaled: the first is played until others have a cluster
    wanted = [trial(f"of-{load}", *ONE_NODE, f"workload.producers.0.messages={5 * load}") for load in loads]
    with Trials(played.runs, together=4, side_by_side=True, busy_percent=lambda: busy) as trials:
        played.take(trials.run(wanted))
    spans = []
    for load in loads:
        folder, findings = played.judged[f"of-{load}"].folder, played.findings(f"of-{load}")
        assert folder is not None
        assert (findings.verdict, findings.totals.sent, findings.totals.log_records) == ("held", load, load)
        [own] = {row["topic"] for row in played.rows(f"of-{load}", "sends")}
        topics = {str(row["topic"]) for row in played.rows(f"of-{load}", "cluster_events") if row["topic"]}
        assert {topic for topic in topics if not topic.startswith("__")} == {own}
        clients = {row["client_id"] for row in played.rows(f"of-{load}", "frames")}
        assert len([client for client in clients if "producer" in str(client)]) == 1, clients
        manifest = folder.read_manifest()
        assert manifest.shares_cluster_with == []
        spans.append((manifest.started_ns, manifest.ended_ns))
    spans.sort()
    assert any(later[0] < earlier[1] for earlier, later in pairwise(spans)) is side_by_side
    assert not list(played.runs.glob(".cluster-*"))


@pytest.mark.long
def test_a_damaged_cluster_is_replaced(tmp_path: Path) -> None:
    """A broker died between two trials: the second one has another cluster."""
    played = Played(tmp_path / "runs")
    with Trials(played.runs, progress=NotesOnly(played.notes.append)) as trials:
        played.take(trials.run([trial("first", NO_FAULT, SHORT)]))
        brokers = [p for p in psutil.Process().children() if ".cluster-" in " ".join(p.cmdline())]
        assert brokers, (played.notes, played.judged)
        brokers[0].kill()
        wait_for(lambda: not brokers[0].is_running() or brokers[0].status() == "zombie", "a broker's death")
        played.take(trials.run([trial("replaced", NO_FAULT, SHORT)]))
    (note,) = [note for note in played.notes if note.startswith("starting another cluster")]
    assert "ended on its own" in note
    assert played.findings("replaced").verdict == "held"
    assert not list(played.runs.glob(".cluster-*"))


@pytest.mark.long  # its sibling: network/test_network_runs.py, where a run with namespaces is killed
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_ends_leaves_no_process_and_no_data(tmp_path: Path, number: signal.Signals) -> None:
    """Of two clusters side by side."""
    script = (
        "import sys; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "from test_trials import ONE_NODE, trial\nfrom kaput.trials.trials import Trials\n"
        "long = *ONE_NODE, 'workload.producers.0.messages=60000'\n"
        "alone = {'side_by_side': True, 'busy_percent': lambda: 0}\n"
        "with Trials(Path(sys.argv[1]), together=2, **alone) as trials:\n"
        "    both = trials.run([trial('one', *long), trial('other', *long)])\n"
        "    print('ended early:', [each.error for each in both])\n"
    )
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "runs"), str(here), str(here.parent)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    sends = "runs/*/evidence/sends/*.arrows"
    wait_for(lambda: len(list(tmp_path.glob(sends))) == 2 or process.poll() is not None, "both producers")
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    process.wait(PATIENCE_S)
    wait_for(lambda: not mentions(tmp_path), "the end of every process")
    wait_for(lambda: not list(tmp_path.glob("runs/.cluster-*")), "the removal of the cluster's data")
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 1)
