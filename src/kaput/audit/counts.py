"""The counts of one client, reported every few seconds by a separate producer."""

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
_BUCKETS_MAX = 1_000  # older ones are dropped
_CONNECTION_PREFIXES = (
    "bootstrap.servers",
    "metadata.broker.list",
    "security.",
    "sasl.",
    "ssl.",
    "enable.ssl.",
    "oauth_cb",
)


class Counts:
    """Counts of one client, reported every 5 s. `settings`: the client's, for the connection settings."""

    def __init__(self, settings: Mapping[str, Any], stage: str) -> None:
        connection = {
            name: value for name, value in settings.items() if name.startswith(_CONNECTION_PREFIXES)
        }
        self._reports = Producer({**connection, "enable.idempotence": True})
        self._client, self._stage = uuid.uuid4().hex, stage
        self._counts: Counter[tuple[str, int]] = Counter()
        self._changed: set[tuple[str, int]] = set()
        self._reported_s = time.monotonic()

    def add(self, topic: str, at_ms: int) -> None:
        """Counts a message with this timestamp."""
        bucket = (topic, at_ms - at_ms % BUCKET_MS)
        self._counts[bucket] += 1
        self._changed.add(bucket)

    def report_if_due(self) -> None:
        """Reports if 5 s have passed. Call it often."""
        if time.monotonic() - self._reported_s >= _REPORT_S:
            self.report()

    def report(self) -> None:
        """Sends the counts that have changed, without waiting for delivery."""
        self._reported_s = time.monotonic()
        try:
            for topic, bucket_ms in sorted(self._changed):
                n = self._counts[topic, bucket_ms]
                report = Report(self._client, self._stage, topic, bucket_ms, n)
                self._reports.produce(TOPIC, report.write(), f"{self._client} {topic} {bucket_ms}")
                self._changed.discard((topic, bucket_ms))
        except (BufferError, KafkaException):
            pass  # a full queue, or no such topic (yet): the next report has the rest
        self._reports.poll(0)
        while len(self._counts) > _BUCKETS_MAX:
            oldest = min(self._counts, key=lambda each: each[1])
            del self._counts[oldest]
            self._changed.discard(oldest)

    def close(self, timeout_s: float = _FLUSH_S) -> None:
        """Reports the rest, and waits for its delivery, at most 10 s."""
        self.report()
        self._reports.flush(min(timeout_s, _FLUSH_S) if timeout_s >= 0 else _FLUSH_S)
