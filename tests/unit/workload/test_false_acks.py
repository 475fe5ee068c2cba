"""A program that acknowledges before it sends is caught: what it did not send is lost, and unexplained.

Real clients with librdkafka's own mock of brokers, and the analysis in this process.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from fakes.judging import findings_in
from fakes.liar import liar
from kaput.evidence.findings import Findings
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.drain import LogReader
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.supervision.supervisor import Supervisor
from waiting import eventually

EXAMPLE = Path(__file__).parents[3] / "examples" / "clients" / "python" / "client.py"
MESSAGES, EACH = 500, 50


def judged(command: str, topic: str, tmp_path: Path) -> Findings:
    """The findings of a run of that one producer."""
    client = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1}, logger=quiet_logger())
    metadata = client.list_topics(topic, timeout=30)
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
    partitions = len(metadata.topics[topic].partitions)
    sends = {"topic": topic, "messages": MESSAGES, "client": "command", "command": command}
    document = {
        "version": 1,
        "title": "t",
        "cluster": {"brokers": 1},
        "topics": [{"name": topic, "partitions": partitions, "replication-factor": 1}],
        "workload": {"producers": [sends]},
    }
    folder, run_id = RunFolder(tmp_path / "run"), uuid.uuid4()
    folder.path.mkdir()
    folder.scenario_path.write_text(yaml.safe_dump(document))
    with Owner() as owner:
        scenario = Scenario.model_validate(document)
        supervisor = Supervisor(owner, scenario, folder, run_id, servers, [], lambda n, at_ns: None)
        supervisor.start()
        supervisor.go()
        assert eventually(lambda: supervisor.all_reported("done"))
        assert supervisor.troubles() == []
        supervisor.tidy()
    reader = Consumer({"bootstrap.servers": servers, "group.id": "ends"}, logger=quiet_logger())
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    ends = {(topic, at.partition): reader.get_watermark_offsets(at, timeout=30)[1] for at in places}
    reader.close()
    assert LogReader(folder, run_id, servers).read(ends, 60, lambda done, total: None) == []
    seal(folder)
    folder.write_manifest(Manifest(run_id=run_id, scenario="t", state="sealed", ended_ns=2**62))
    return findings_in(folder)


@pytest.fixture(autouse=True)
def _registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes, one of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_messages_acked_but_not_sent_are_lost_and_unexplained(tmp_path: Path) -> None:
    """Exactly that, and the run is violated."""
    program = tmp_path / "liar.py"
    program.write_text(liar(EACH))
    findings = judged(f"{sys.executable} {program}", "lies", tmp_path)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.permitted) == (MESSAGES // EACH, 0)
    assert {cause: n for cause, n in lost.causes.items() if n} == {"unexplained": MESSAGES // EACH}
    assert sorted(example.seq for example in lost.examples) == list(range(37, MESSAGES, EACH))
    assert findings.verdict == "violated"


def test_an_honest_client_holds(tmp_path: Path) -> None:
    findings = judged(f"{sys.executable} {EXAMPLE} produce", "truths", tmp_path)
    assert {anomaly.name: anomaly.count for anomaly in findings.anomalies if anomaly.count} == {}
    assert (findings.verdict, findings.totals.acked) == ("held", MESSAGES), findings.reasons
