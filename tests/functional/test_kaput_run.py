"""kaput.run on real clusters; the example notebook does what it says, one cell after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

import kaput
from fakes.notebooks import executed


@pytest.mark.alone
@pytest.mark.long
def test_the_example_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run, its report, counts, ledger, Spark and Polars frames, and the same findings a second time."""
    monkeypatch.chdir(tmp_path)
    names, values = executed("notebook")
    run, findings = names["run"], names["findings"]
    assert run.folder.parent == tmp_path / "runs"
    shown = [value._repr_html_() for value in values if isinstance(value, kaput.Run | kaput.Findings)]
    assert len(shown) == 2
    assert all("data:image/svg+xml" in html and "Fates: every message" in html for html in shown)
    assert ("held", findings.lost, {"deposed-leader": findings.lost}) in values and findings.lost > 0
    ledger = names["ledger"]
    assert ledger["messages"].sum() == findings.totals.sent
    assert names["sends"].count() == names["sends"].polars().height == findings.totals.sent
    said = capsys.readouterr().out
    assert "injected: kill" in said and "|second|count|" in said


@pytest.mark.long
def test_the_notebook_with_a_lab_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed leader, and nothing lost."""
    monkeypatch.chdir(tmp_path)
    names, values = executed("lab")
    assert names["sent"].acked == 1000 and (1000, 0) in values


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> kaput.Run:
    """A run on a cluster of kaput's, with two changes."""
    changes = {"workload.producers.1.messages": 5_000, "workload.producers.1.acks": 1}
    return kaput.run("noop", changes, runs=tmp_path_factory.mktemp("first"), page=False)


@pytest.mark.long
def test_overrides_are_applied_and_invalid_ones_are_named(first: kaput.Run, tmp_path: Path) -> None:
    """A page only if it is wanted; a change that the model refuses is named."""
    assert first.findings.verdict == "held" and first.findings.totals.sent == 15_000
    assert first.scenario.workload.producers[1].acks == "1"
    assert not (first.folder / "report.html").exists()
    with pytest.raises(kaput.UsageError, match=r"workload\.producers\.1\.acks=2"):
        kaput.run("noop", {"workload.producers.1.acks": 2}, runs=tmp_path)


@pytest.mark.long
def test_a_second_run_on_ones_own_cluster(first: kaput.Run, tmp_path: Path) -> None:
    """Packages of kaput that are loaded by then do not take the function's name. The cluster is still there
    afterwards, without the run's topics; Kafka keeps its own.
    """
    with kaput.lab(brokers=3) as lab:
        changes = {"topics.0.replication-factor": 3, "workload.producers.1.messages": 2_000}
        run = kaput.run("noop", changes, runs=tmp_path, page=False, bootstrap_servers=lab.bootstrap_servers)
        assert run.findings.verdict == "held" and run.findings.totals.sent == 12_000
        assert run.folder != first.folder
        assert {each["topic"] for each in lab.status()["partitions"]} == {"__consumer_offsets"}
