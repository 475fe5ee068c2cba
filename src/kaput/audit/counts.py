"""What one client has counted, reported every few seconds by a producer of its own."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from kaput.audit.report import BUCKET_MS, TOPIC, Report

_REPORT_S = 5.0
_FLUSH_S = 10.0
_MOST_BUCKETS = 1_000  # counts of older ones are forgotten
_CONNECTION = (
    "bootstrap.servers",
    "metadata.broker.list",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "oauth_cb",
)


class Counts:
    """Counts of one client, reported every 5 s. `settings`: the client's; its connection is used alike."""

    def __init__(self, settings: Mapping[str, Any], stage: str) -> None:
        connection = {name: value for name, value in settings.items() if name.startswith(_CONNECTION)}
        self._reports = Producer({**connection, "enable.idempotence": True})
        self._client, self._stage = uuid.uuid4().hex, stage
        self._counts: Counter[tuple[str, int]] = Counter()
        self._changed: set[tuple[str, int]] = set()
        self._reported_s = time.monotonic()

    def add(self, topic: str, at_ms: int) -> None:
        """One more message, with this timestamp."""
        bucket = (topic, at_ms - at_ms % BUCKET_MS)
        self._counts[bucket] += 1
        self._changed.add(bucket)

    def report_if_due(self) -> None:
        """To be called often."""
        if time.monotonic() - self._reported_s >= _REPORT_S:
            self.report()

    def report(self) -> None:
        """Sends what has changed; it is on its way then."""
        self._reported_s = time.monotonic()
        try:
            for topic, bucket_ms in sorted(self._changed):
                n = self._counts[topic, bucket_ms]
                report = Report(self._client, self._stage, topic, bucket_ms, n)
                self._reports.produce(TOPIC, report.write(), f"{self._client} {topic} {bucket_ms}")
                self._changed.discard((topic, bucket_ms))
        except (BufferError, KafkaException):
            pass  # too much waits, or there is no such topic (yet): the next report has the rest
        self._reports.poll(0)
        while len(self._counts) > _MOST_BUCKETS:
            oldest = min(self._counts, key=lambda each: each[1])
            del self._counts[oldest]
            self._changed.discard(oldest)

    def close(self, timeout_s: float = _FLUSH_S) -> None:
        """Reports what is left, and waits until it is delivered: 10 s at most."""
        self.report()
        self._reports.flush(min(timeout_s, _FLUSH_S) if timeout_s >= 0 else _FLUSH_S)
