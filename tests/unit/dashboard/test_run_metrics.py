"""Signals of runs in progress, while the recorder's own writers write."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakes.run_folders import SECOND, Producer, judged, made, now_ns, served
from kaput.dashboard.run_metrics import FolderMetrics, MirrorLag
from kaput.dashboard.safe_files import Runs
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder

PLACE = ("orders", "0")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return made(tmp_path, "a", "recording", "isolated", started_ns=now_ns(), phase="inject")


def values(metrics: FolderMetrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.exposition.text()[0].decode())
    return {
        (
            sample.name.removeprefix("kaput_"),
            *(sample.labels[key] for key in sorted(sample.labels)),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_of_messages_by_outcome_and_latency(folder: RunFolder) -> None:
    """What is attempted and has no outcome yet is sent; each look adds what is new."""
    metrics, began = FolderMetrics(Runs(folder.path.parent)), folder.read_manifest().started_ns
    producer = Producer(folder)
    producer.send(10, began + SECOND, latency_ms=5)
    producer.send(3, began + SECOND, latency_ms=90, outcome="failed")
    producer.attempts.attempt(producer.seq, began + 2 * SECOND)
    found = values(metrics)
    assert found["messages_sent_total", "", "a", ""] == 14
    assert found["messages_acked_total", "0", "a", "orders"] == 10
    assert found["messages_failed_total", "0", "a", "orders"] == 3
    assert found["produce_latency_seconds_count", "", "a"] == 10
    assert found["produce_latency_seconds_bucket", "", "0.005", "a"] == 10
    producer.send(5, began + 3 * SECOND, latency_ms=200)
    found = values(metrics)
    assert found["messages_acked_total", "0", "a", "orders"] == 15
    assert found["produce_latency_seconds_bucket", "", "0.1", "a"] == 10
    assert found["produce_latency_seconds_count", "", "a"] == 15
    producer.close()


def test_produce_latency_is_labelled_with_the_leader(folder: RunFolder) -> None:
    with Recorder(folder.path, "samples", "leaders") as samples:
        labels = [("topic", "orders"), ("partition", "0"), ("leader_epoch", "1"), ("isr", "2")]
        samples.row(1, "kaput", "leader", labels, 2.0)
        samples.flush()
        producer = Producer(folder)
        producer.send(4, now_ns())
        found = values(FolderMetrics(Runs(folder.path.parent)))
        producer.close()
    assert found["produce_latency_seconds_count", "2", "a"] == 4


def test_metrics_of_deliveries_lag_faults_and_mirrors(folder: RunFolder) -> None:
    metrics, at = FolderMetrics(Runs(folder.path.parent)), now_ns()
    with (
        Recorder(folder.path, "deliveries", "m") as deliveries,
        Recorder(folder.path, "samples", "lag") as samples,
        Recorder(folder.path, "faults", "nemesis") as faults,
        Recorder(folder.path, "mirror", "mirrors") as mirror,
    ):
        deliveries.row("billing", "m1", "orders", 0, 0, 0, 0, True, at)
        labels = [("group", "billing"), ("topic", "orders"), ("partition", "0")]
        samples.row(at, "kaput", "lag", labels, 30.0)
        fault = ("1-kill", "kill", "leader-of orders/0", [1], at)
        faults.row(*fault, at + SECOND, None, True, "gone")
        for second, (end, lag) in enumerate([(100, 0), (200, 100), (300, 200)]):
            mirror.row("m", "lag", None, "orders", 0, end, end - lag, float(lag), at + second * SECOND)
        for table in (deliveries, samples, faults, mirror):
            table.flush()
        found = values(metrics)
        assert found["messages_delivered_total", "billing", "0", "a", "orders"] == 1
        assert found["consumer_lag_records", "billing", "0", "a", "orders"] == 30
        assert found["fault_active", "1-kill", "a"] == 1
        assert found["mirror_lag_seconds", "m", "a"] == pytest.approx(1)
        faults.row(*fault, at + SECOND, at + 2 * SECOND, True, "gone, and back")
        faults.flush()
        assert values(metrics)["fault_active", "1-kill", "a"] == 0


def test_ended_runs_keep_their_last_metrics(folder: RunFolder) -> None:
    judged(folder.path.parent, "old")
    metrics = FolderMetrics(Runs(folder.path.parent))
    producer = Producer(folder)
    producer.send(2, now_ns())
    producer.close()
    assert values(metrics)["messages_sent_total", "", "a", ""] == 2
    folder.write_manifest(folder.read_manifest().model_copy(update={"state": "sealed"}))
    for _ in range(2):
        assert values(metrics)["messages_sent_total", "", "a", ""] == 2
    assert {key[2] for key in values(metrics) if key[0] == "messages_sent_total"} == {"a"}


def test_dashboard_serves_the_metrics(folder: RunFolder) -> None:
    producer = Producer(folder)
    producer.send(3, now_ns())
    with served(folder.path.parent) as site:
        answer = site.ask("/metrics")
        assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain")
        assert 'kaput_messages_acked_total{partition="0",run="a",topic="orders"} 3.0\n' in answer.text
        opened = site.ask("/metrics", headers={"Accept": "application/openmetrics-text"})
        assert opened.headers["content-type"].startswith("application/openmetrics-text")
        assert site.ask("/metrics", host="evil.example").status == 421
    producer.close()


def test_mirror_lag_is_the_age_of_the_oldest_unmirrored_record() -> None:
    """By when the source was first seen to have it; of the partition that is furthest behind."""
    lag = MirrorLag()
    assert lag.seconds() == 0
    for second, (end, arrived) in enumerate([(10, 10), (20, 10), (20, 10), (30, 10), (30, 20), (30, 30)]):
        lag.add(PLACE, end, arrived, second * SECOND)
        assert lag.seconds() == [0, 0, 1, 2, 1, 0][second]
    lag.add(("orders", "1"), 5, 0, 7 * SECOND)
    lag.add(("orders", "1"), 5, 0, 9 * SECOND)
    assert lag.seconds() == 2
