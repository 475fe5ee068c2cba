"""What a scrape is answered, in both formats, as prometheus-client's own parsers read it."""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from kaput.monitor.metrics_server import Exposition
from kaput.monitor.series import BUCKETS_S, SeriesTable
from kaput.monitor.signals import SIGNALS, Sample

STRANGE = 'a"b\\c\nd'


def everything(run: str | None = None) -> SeriesTable:
    """A sample of every signal."""
    series = SeriesTable(more_labels=() if run is None else ("run",))
    for signal in SIGNALS.values():
        labels = {label: f"{label} {STRANGE}" for label in signal.labels}
        series.add([Sample(signal.name, 0.5, 0, labels if run is None else {**labels, "run": run})])
    return series


@pytest.mark.parametrize(
    ("accept", "kind", "parse"),
    [
        ("", "text/plain", prometheus),
        ("application/openmetrics-text", "application/openmetrics-text", open_metrics),
    ],
)
def test_every_signal_is_exposed_with_type_help_and_labels(accept: str, kind: str, parse: object) -> None:
    series = everything()
    data, content_type = Exposition(lambda: [series]).text(accept)
    assert content_type.startswith(kind)
    families = {family.name: family for family in parse(data.decode())}  # type: ignore[operator]
    for signal in SIGNALS.values():
        family = families[signal.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (signal.kind, signal.help)
        labels = set(family.samples[0].labels) - {"le"}
        assert labels == set(signal.labels)
        assert all(family.samples[0].labels[label] == f"{label} {STRANGE}" for label in signal.labels)


def test_histogram_buckets_are_cumulative() -> None:
    series = SeriesTable()
    series.observe("kaput_produce_latency_seconds", {"broker": "1"}, [0.002, 0.2, 100.0])
    text = Exposition(lambda: [series]).text()[0].decode()
    (family,) = prometheus(text)
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert len(buckets) == len(BUCKETS_S) + 1
    assert (buckets["0.001"], buckets["0.0025"], buckets["0.25"], buckets["+Inf"]) == (0, 1, 2, 3)
    values = {s.name: s.value for s in family.samples if not s.name.endswith("_bucket")}
    assert values["kaput_produce_latency_seconds_count"] == 3
    assert values["kaput_produce_latency_seconds_sum"] == pytest.approx(100.202)


def test_unknown_value_is_nan() -> None:
    series = SeriesTable()
    series.add([Sample("kaput_offline_partitions", math.nan, 0)])
    assert b"kaput_offline_partitions NaN\n" in Exposition(lambda: [series]).text()[0]


def test_series_of_several_tables_share_one_family() -> None:
    """As of runs: a family that was written twice would be refused."""
    tables = [everything("one"), everything("two")]
    data, _ = Exposition(lambda: tables).text("application/openmetrics-text")
    families = list(open_metrics(data.decode()))
    assert len(families) == len({family.name for family in families})
    (acked,) = [family for family in families if family.name == "kaput_messages_acked"]
    assert {sample.labels["run"] for sample in acked.samples} == {"one", "two"}


def test_empty_table_gives_empty_exposition() -> None:
    assert Exposition(lambda: [SeriesTable()]).text()[0] == b""
