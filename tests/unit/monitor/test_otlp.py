"""Series pushed to an OpenTelemetry collector, as its own protocol reads them."""

from __future__ import annotations

import gzip
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from kaput.errors import UsageError
from kaput.monitor.otlp import OtlpPush
from kaput.monitor.series import BUCKETS_S, SeriesTable
from kaput.monitor.signals import SIGNALS, Sample
from waiting import eventually


class Collector:
    """Takes what is pushed, at `url`."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        taken = self.taken

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    data = gzip.decompress(data)
                taken.append(ExportMetricsServiceRequest.FromString(data))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def metrics(self) -> dict[str, Any]:
        """Of the last push, by name."""
        (resource,) = self.taken[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def everything() -> SeriesTable:
    series = SeriesTable()
    for signal in SIGNALS.values():
        series.add([Sample(signal.name, 0.5, 0, {label: label.upper() for label in signal.labels})])
    return series


def test_every_signal_is_exported_with_type_and_labels(collector: Collector) -> None:
    series = everything()
    assert OtlpPush(collector.url, lambda: [series]).push()
    found = collector.metrics()
    for signal in SIGNALS.values():
        metric = found[signal.name.removesuffix("_total")]
        kind = {"gauge": "gauge", "counter": "sum", "histogram": "histogram"}[signal.kind]
        assert metric.WhichOneof("data") == kind and metric.description == signal.help
        (point,) = getattr(metric, kind).data_points
        labels = {pair.key: pair.value.string_value for pair in point.attributes}
        assert labels == {label: label.upper() for label in signal.labels}
    assert found["kaput_messages_acked"].sum.is_monotonic
    assert found["kaput_consumer_lag_seconds"].unit == "s"
    (point,) = found["kaput_produce_latency_seconds"].histogram.data_points
    assert tuple(point.explicit_bounds) == BUCKETS_S
    assert (point.count, point.sum, sum(point.bucket_counts)) == (1, 0.5, 1)


def test_unknown_value_has_no_data_point(collector: Collector) -> None:
    series = SeriesTable()
    for broker, value in (("1", math.nan), ("2", 1.0)):
        series.add([Sample("kaput_broker_up", value, 0, {"broker": broker})])
    OtlpPush(collector.url, lambda: [series]).push()
    (point,) = collector.metrics()["kaput_broker_up"].gauge.data_points
    assert point.attributes[0].value.string_value == "2"


def test_push_repeats_and_flushes_on_close(collector: Collector) -> None:
    series = everything()
    with OtlpPush(collector.url, lambda: [series], every_s=0.05):
        assert eventually(lambda: len(collector.taken) > 2)
    with OtlpPush(collector.url, lambda: [series], every_s=1000):
        before = len(collector.taken)
    assert len(collector.taken) == before + 1


def test_unreachable_collector_is_reported_once() -> None:
    notes: list[str] = []
    with OtlpPush("http://127.0.0.1:1/v1/metrics", lambda: [everything()], notes.append, every_s=0.01):
        assert eventually(lambda: bool(notes))
    assert notes == ["http://127.0.0.1:1/v1/metrics does not take metrics"]


def test_invalid_url_is_rejected() -> None:
    with pytest.raises(UsageError, match="write http://HOST:PORT/v1/metrics"):
        OtlpPush("collector:4318", list)
