"""Series in Prometheus's text format, or OpenMetrics if the scraper asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kaput.monitor.series import BUCKETS_S, Histogram, Labels, SeriesTable
from kaput.monitor.signals import SIGNALS, Signal


class Exposition(Collector):
    """Answers scrapes. `look`: called at each, returns the current tables of series, all with the same
    labels.
    """

    def __init__(self, look: Callable[[], Iterable[SeriesTable]]) -> None:
        self._look = look
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Empty: otherwise the library would scrape to find out."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families of all signals that have series, in the order of SIGNALS."""
        found: dict[str, dict[Labels, float | Histogram]] = {}
        labels: dict[str, Labels] = {}
        for table in self._look():
            for name, series in table.copied().items():
                found.setdefault(name, {}).update(series)
                labels[name] = table.label_names(name)
        for name in SIGNALS:
            if name in found:
                yield _family(SIGNALS[name], labels[name], found[name])

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """The response and its content type, in the format that the Accept header asks for."""
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind


def _family(signal: Signal, labels: Labels, series: Mapping[Labels, float | Histogram]) -> Metric:
    family: GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily
    match signal.kind:
        case "gauge":
            family = GaugeMetricFamily(signal.name, signal.help, labels=labels)
        case "counter":
            family = CounterMetricFamily(signal.name.removesuffix("_total"), signal.help, labels=labels)
        case "histogram":
            family = HistogramMetricFamily(signal.name, signal.help, labels=labels)
    for values, value in sorted(series.items(), key=lambda item: item[0]):
        if isinstance(value, Histogram):
            assert isinstance(family, HistogramMetricFamily)
            family.add_metric(values, _buckets(value), value.sum_s)
        else:
            assert not isinstance(family, HistogramMetricFamily)
            family.add_metric(values, value)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    borders = [*map(str, BUCKETS_S), "+Inf"]
    return list(zip(borders, map(float, accumulate(histogram.counts)), strict=True))
