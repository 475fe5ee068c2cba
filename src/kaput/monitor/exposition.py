"""Series as Prometheus reads them: its text format, and OpenMetrics for who asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kaput.monitor.series import BUCKETS_S, Histogram, Labels, SeriesTable
from kaput.monitor.signals import SIGNALS, Sample


class Exposition(Collector):
    """What a scrape of these series answers. `before`: gauges that are looked up at each scrape."""

    def __init__(self, series: SeriesTable, before: Callable[[], Iterable[Sample]] = lambda: ()) -> None:
        self._series, self._before = series, before
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the library would scrape to find out."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families of all signals that have series, in the order of SIGNALS."""
        self._series.add(self._before())
        found = self._series.copied()
        for name in SIGNALS:
            if name in found:
                yield self._family(name, found[name])

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """The answer and its content type, in the format that the Accept header asks for."""
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind

    def _family(self, name: str, series: Mapping[Labels, float | Histogram]) -> Metric:
        signal, labels = SIGNALS[name], self._series.label_names(name)
        family: GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily
        match signal.kind:
            case "gauge":
                family = GaugeMetricFamily(name, signal.help, labels=labels)
            case "counter":
                family = CounterMetricFamily(name.removesuffix("_total"), signal.help, labels=labels)
            case "histogram":
                family = HistogramMetricFamily(name, signal.help, labels=labels)
        for values, value in sorted(series.items(), key=lambda item: item[0]):
            if isinstance(family, HistogramMetricFamily):
                assert isinstance(value, Histogram)
                family.add_metric(values, _buckets(value), value.sum_s)
            else:
                assert isinstance(value, float)
                family.add_metric(values, value)
        return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    borders = [*map(str, BUCKETS_S), "+Inf"]
    return list(zip(borders, map(float, accumulate(histogram.counts)), strict=True))
