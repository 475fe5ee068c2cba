"""Series: gauges that go with their source, counters that only go up, histograms, and a bound on all."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kaput.monitor.series import BUCKETS_S, DROPPED, Histogram, SeriesTable
from kaput.monitor.signals import Sample

ACKED, LAG, UP = "kaput_messages_acked_total", "kaput_consumer_lag_records", "kaput_broker_up"
PLACE = {"topic": "orders", "partition": "0"}
LATENCY = "kaput_produce_latency_seconds"


def up(broker: int, value: float = 1) -> Sample:
    return Sample(UP, value, 0, {"broker": str(broker)})


def acked(value: float) -> Sample:
    return Sample(ACKED, value, 0, PLACE)


def total(series: SeriesTable) -> Any:
    return series.copied()[ACKED]["orders", "0"]


def test_gauge_is_removed_when_its_source_drops_it() -> None:
    """A partition that was deleted leaves no stale value; what another source said stays."""
    series = SeriesTable()
    series.add([Sample("kaput_cluster_reachable", 1, 0)])
    series.replace("cluster", [up(1), up(2)])
    series.replace("cluster", [up(1, 0)])
    assert series.copied()[UP] == {("1",): 0.0}
    assert "kaput_cluster_reachable" in series.copied()


def test_unknown_gauge_value_is_nan() -> None:
    series = SeriesTable()
    series.replace("cluster", [up(1)])
    series.replace("cluster", [up(1, math.nan)])
    assert math.isnan(series.copied()[UP]["1",])  # type: ignore[arg-type]


def test_counter_continues_after_source_reset() -> None:
    series = SeriesTable()
    for value in (10, 15, 3, 4, math.nan, 4):
        series.add([acked(value)])
    assert total(series) == 15 + 4


def test_counter_is_kept_when_its_source_drops_it() -> None:
    series = SeriesTable()
    series.replace("run", [acked(5)])
    series.replace("run", [])
    assert total(series) == 5


def test_series_per_signal_are_bounded_and_drops_counted() -> None:
    """Those that were there stay; room is made by those that go."""
    series = SeriesTable(most=2)
    series.replace("cluster", [up(1), up(2), up(3)])
    assert set(series.copied()[UP]) == {("1",), ("2",)}
    assert series.copied()[DROPPED] == {(UP,): 1.0}
    series.replace("cluster", [up(2), up(3), up(4)])
    assert set(series.copied()[UP]) == {("2",), ("3",)}
    assert series.copied()[DROPPED] == {(UP,): 2.0}
    series.add([acked(1)])
    assert total(series) == 1, "each signal has room of its own"


def test_counter_and_histogram_series_are_bounded() -> None:
    series = SeriesTable(most=1)
    for topic in ("a", "b"):
        series.add([Sample(ACKED, 1, 0, {"topic": topic, "partition": "0"})])
        series.observe(LATENCY, {"broker": topic}, [0.1])
    found = series.copied()
    assert len(found[ACKED]) == len(found[LATENCY]) == 1
    assert found[DROPPED] == {(ACKED,): 1.0, (LATENCY,): 1.0}


def test_histogram_bucket_upper_bound_is_inclusive() -> None:
    """Prometheus's buckets are `less than or equal`."""
    histogram = Histogram()
    for value_s in (0.0, 0.001, 0.0011, 60.0, 61.0):
        histogram.observe(value_s)
    counts = dict(zip([*BUCKETS_S, math.inf], histogram.counts, strict=True))
    assert {border: n for border, n in counts.items() if n} == {0.001: 2, 0.0025: 1, 60.0: 1, math.inf: 1}
    assert histogram.sum_s == pytest.approx(121.0021)


def test_histogram_samples_are_observations() -> None:
    series = SeriesTable()
    series.add([Sample(LATENCY, 0.02, 0, {"broker": "1"}), Sample(LATENCY, 0.03, 0, {"broker": "1"})])
    found = series.copied()[LATENCY]["1",]
    assert isinstance(found, Histogram) and sum(found.counts) == 2


def test_copied_series_do_not_change() -> None:
    series = SeriesTable()
    series.observe(LATENCY, {"broker": "1"}, [0.02])
    found = series.copied()[LATENCY]["1",]
    series.observe(LATENCY, {"broker": "1"}, [0.02])
    assert isinstance(found, Histogram) and sum(found.counts) == 1


def test_unknown_signal_is_rejected() -> None:
    with pytest.raises(KeyError):
        SeriesTable().add([Sample("kaput_nonsense", 1, 0)])
