"""What is written down of a find: a scenario that loads, a text with everything a maintainer asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fakes.histories import History, at
from fakes.trials import findings
from kaput.scenario.loader import load_file
from kaput.search.publishing import publish
from kaput.search.sequential import Rate
from kaput.search.space import Choices
from kaput.search.store import Find, SearchStore
from kaput.search.summary import lines
from unit.search.test_searching import SPACE_OF, new

STEPS = ({"fault": "stop", "target": "broker 1", "at": "1s", "for": "4s"},)
FAULT = {
    "id": "1-stop", "fault": "stop", "target": "broker 1", "brokers": [1], "bit": True,
    "proof": "SIGTERM, ended after 5 ms", "injected_ns": at(1000), "effective_ns": at(1000),
    "healed_ns": None,
}  # fmt: skip


def find(store: SearchStore) -> Find:
    """A find with the run that shows it."""
    choices = Choices(STEPS, {"cluster.config.min.insync.replicas": 1})
    run = (
        History(producers=[{"topic": "orders"}])
        .acked(0, 0, 0)
        .led(1, 0, 2000, [1, 2])
        .write(store.folder / "runs" / "x")
    )
    anomaly = {
        "name": "lost", "count": 1, "permitted": 0, "causes": {"deposed-leader": 1},
        "examples": [{"story": "producer 0's message 7 is gone"}],
    }  # fmt: skip
    found = findings("violated", anomalies=[anomaly], faults=[FAULT], reasons=["One message is lost."])
    run.findings_path.write_text(found.to_json())
    log = run.brokers / "1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "[1969-01-01 00:00:00,000] WARN too early\n[2999-01-01 00:00:00,000] WARN truncated to 0\n"
        "[2999-01-01 00:00:00,000] INFO nothing\n"
    )
    begun = store.begin("final", choices, 5, find=1)
    store.save(replace(begun, done=True, symptoms=("lost:deposed-leader",), folder="x"))
    return Find(1, "lost:deposed-leader", choices, 5, 60.0, 3, "found", "", Rate(4, 5), 2)


def test_find_is_published_as_scenario_report_and_text(tmp_path: Path) -> None:
    store = new(tmp_path)
    name = publish(SPACE_OF, store, find(store))
    folder = tmp_path / "finds" / name
    assert sorted(each.name for each in folder.iterdir()) == ["bug-report.md", "report.html", "scenario.yaml"]
    scenario = load_file(folder / "scenario.yaml")
    assert [step.fault for step in scenario.faults] == ["stop"]
    assert scenario.cluster.config["min.insync.replicas"] == 1
    head = (folder / "scenario.yaml").read_text().splitlines()[:2]
    assert head[0].endswith("Reproduces in 4 of 5 (95 % interval: 38 % to 96 %) tries.")
    assert head[1] == "# kaput run scenario.yaml --seed 5"


def test_bug_report_has_versions_steps_evidence_and_log_lines(tmp_path: Path) -> None:
    store = new(tmp_path)
    text = (tmp_path / "finds" / publish(SPACE_OF, store, find(store)) / "bug-report.md").read_text()
    for part in (
        "on Kafka 4.3.1",
        "1. At 1s: stop broker 1, for 4s.",
        "min.insync.replicas: 1",
        "- One message is lost.",
        "SIGTERM, ended after 5 ms",
        "producer 0's message 7 is gone",
        "orders/0: leader 1",
        "WARN truncated to 0",
        "kaput run scenario.yaml --seed 5",
    ):
        assert part in text
    assert "too early" not in text
    assert "INFO nothing" not in text


def test_search_status_lines(tmp_path: Path) -> None:
    store = new(tmp_path)
    store.save_find(find(store), name="1-lost")
    store.spent_s = 120
    text = "\n".join(lines(SPACE_OF, store))
    assert "2 min 0 s of search, 1 experiment" in text
    assert "1-lost: after 1 min 0 s and 3 experiments" in text
    assert "30 an hour" in text
