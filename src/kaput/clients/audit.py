"""Clients that count for `kaput watch --audit`: confluent-kafka's own, which also report how many messages
were acknowledged or polled, per topic and ten seconds of message time. Use them in place of its classes:

    from kaput.clients.audit import CountingConsumer, CountingProducer

Both count in the caller's own calls, as confluent-kafka's callbacks do: call `poll` regularly, and `close`
(producers: `flush`) at the end, or the last five seconds are not reported. The format of the reports is in
audit_reports.py; not here: comparing counts (analysis/streaming/audit.py).
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message

from kaput.clients.audit_reports import BUCKET_MS, PRODUCED, TOPIC, CountReport, consumed_by

OnDelivery = Callable[[KafkaError | None, Message], Any]
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


class CountingProducer(confluent_kafka.Producer):
    """Counts acknowledged messages by topic and timestamp."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(dict(settings))
        self._counted = _ClientCounts(settings, PRODUCED)

    def produce(  # type: ignore[override]
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        **more: Any,
    ) -> None:
        """As confluent-kafka's; `timestamp` and `headers` must be keywords."""
        counting = partial(self._delivered, on_delivery or callback)
        super().produce(topic, value, key, partition, on_delivery=counting, **more)

    def poll(self, timeout: float = -1) -> int:
        events = super().poll(timeout)
        self._counted.report_if_due()
        return events

    def flush(self, timeout: float = -1) -> int:
        """As confluent-kafka's; then reports the counts."""
        left = super().flush(timeout)
        self._counted.close(timeout)
        return left

    def close(self) -> bool:
        closed = super().close()
        self._counted.close()
        return closed

    def produce_batch(  # type: ignore[override]
        self, topic: str, messages: list[dict[str, Any]], partition: int = -1, on_delivery: Any = None
    ) -> int:
        counted = [
            {**each, "callback": partial(self._delivered, each.get("callback", on_delivery))}
            for each in messages
        ]
        queued = super().produce_batch(topic, counted, partition)
        for each, ours in zip(messages, counted, strict=True):
            if "_error" in ours:
                each["_error"] = ours["_error"]
        return queued

    def _delivered(self, then: OnDelivery | None, error: KafkaError | None, message: Message) -> None:
        if error is None:
            _count(self._counted, message)
        if then is not None:
            then(error, message)


class CountingConsumer(confluent_kafka.Consumer):
    """Counts polled messages by topic and timestamp."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(dict(settings))
        self._counted = _ClientCounts(settings, consumed_by(settings["group.id"]))

    def poll(self, timeout: float = -1) -> Message | None:
        message = super().poll(timeout)
        if message is not None:
            _count(self._counted, message)
        self._counted.report_if_due()
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        messages = super().consume(num_messages, timeout)
        for message in messages:
            _count(self._counted, message)
        self._counted.report_if_due()
        return messages

    def close(self) -> None:
        super().close()
        self._counted.close()


def _count(counts: _ClientCounts, message: Message) -> None:
    topic = message.topic()
    if message.error() is None and topic is not None and topic != TOPIC:
        counts.add(topic, message.timestamp()[1])


class _ClientCounts:
    """Counts of one client, reported every 5 s. `settings`: the client's, for the connection settings."""

    def __init__(self, settings: Mapping[str, Any], stage: str) -> None:
        connection = {
            name: value for name, value in settings.items() if name.startswith(_CONNECTION_PREFIXES)
        }
        self._reports = confluent_kafka.Producer({**connection, "enable.idempotence": True})
        self._client, self._stage = uuid.uuid4().hex, stage
        self._counts: Counter[tuple[str, int]] = Counter()
        self._changed: set[tuple[str, int]] = set()
        self._reported_s = time.monotonic()

    def add(self, topic: str, at_ms: int) -> None:
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
                report = CountReport(self._client, self._stage, topic, bucket_ms, n)
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
