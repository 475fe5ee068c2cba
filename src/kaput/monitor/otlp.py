"""Pushes series to an OpenTelemetry collector, as OTLP over HTTP: needs kaput[otel].

Leaves out values that could not be observed (NaN), which OTLP expresses as no value. Names are those of
Prometheus without `_total`, which a collector adds.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from kaput.errors import UsageError, package_with
from kaput.monitor.series import BUCKETS_S, Histogram, Labels, SeriesTable, Value, merged
from kaput.monitor.signals import Signal

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData

PUSH_S = 10.0
_ANSWER_S = 3.0
_UNITS = (("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1"))


class OtlpPush:
    """Pushes inside its `with` block, and once more at its end. `look` returns the current tables of series.
    `note` gets a sentence when the collector starts to refuse metrics.
    """

    def __init__(
        self,
        url: str,
        look: Callable[[], Iterable[SeriesTable]],
        note: Callable[[str], None] = lambda text: None,
        every_s: float = PUSH_S,
    ) -> None:
        """Raises UsageError if the libraries are missing or the URL is invalid."""
        self._url, self._look, self._note, self._every_s = url, look, note, every_s
        self._exporter = _exporter(url)
        self._began_ns = time.time_ns()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._failure_reported = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(2 * _ANSWER_S + 1)
        self._exporter.shutdown(timeout_millis=1000)

    def push(self) -> bool:
        """Pushes now; returns whether the collector accepted it."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        data = metrics_data(self._look(), self._began_ns, time.time_ns())
        answer = self._exporter.export(data, timeout_millis=_ANSWER_S * 1000)
        return bool(answer is MetricExportResult.SUCCESS)

    def _work(self) -> None:
        while True:
            last = self._stopping.wait(self._every_s)
            taken = self.push()
            if not taken and not self._failure_reported:
                self._note(f"{self._url} does not take metrics")
            self._failure_reported = not taken
            if last:
                return


def metrics_data(tables: Iterable[SeriesTable], began_ns: int, at_ns: int) -> MetricsData:
    """Everything in these tables now, in the types of OpenTelemetry's SDK."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    metrics = [_metric(*series, began_ns, at_ns) for series in merged(tables)]
    scope = ScopeMetrics(InstrumentationScope("kaput"), metrics, "")
    return MetricsData([ResourceMetrics(Resource({"service.name": "kaput"}), [scope], "")])


def _metric(
    signal: Signal, names: Labels, series: Mapping[Labels, Value], began_ns: int, at_ns: int
) -> Metric:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, Sum
    from opentelemetry.sdk.metrics.export import Histogram as Histograms

    since_begin = AggregationTemporality.CUMULATIVE
    points = list(_points(names, series, began_ns, at_ns))
    data: Any
    match signal.kind:
        case "gauge":
            data = Gauge(points)
        case "counter":
            data = Sum(points, since_begin, is_monotonic=True)
        case "histogram":
            data = Histograms(points, since_begin)
    unit = next((unit for end, unit in _UNITS if signal.name.endswith(end)), "1")
    return Metric(signal.name.removesuffix("_total"), signal.help, unit, data)


def _points(names: Labels, series: Mapping[Labels, Value], began_ns: int, at_ns: int) -> Iterator[Any]:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint

    for values, value in series.items():
        attributes = {name: label for name, label in zip(names, values, strict=True) if label}
        about = attributes, began_ns, at_ns
        if isinstance(value, Histogram):
            # Minimum and maximum are not recorded: NaN.
            ends = math.nan, math.nan
            total = sum(value.counts)
            yield HistogramDataPoint(*about, total, value.sum_s, value.counts, BUCKETS_S, *ends)
        elif not math.isnan(value):
            yield NumberDataPoint(*about, value)


def _exporter(url: str) -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError:
        raise UsageError(
            f"--otlp needs OpenTelemetry's exporter: pip install '{package_with('otel')}'"
        ) from None
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--otlp {url}: write http://HOST:PORT/v1/metrics")
    # Failures are reported once, through `note`.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False
    return OTLPMetricExporter(endpoint=url, timeout=_ANSWER_S)
