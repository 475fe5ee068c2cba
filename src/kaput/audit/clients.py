"""confluent-kafka's Producer and Consumer with counting, and otherwise unchanged.

Both count in the caller's own calls, as confluent-kafka's callbacks do: call `poll` regularly, and `close`
(producers: `flush`) at the end, or the last five seconds are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, Message

from kaput.audit.counts import Counts
from kaput.audit.report import PRODUCED, TOPIC, consumed_by

OnDelivery = Callable[[KafkaError | None, Message], Any]


class Producer(confluent_kafka.Producer):
    """Counts acknowledged messages by topic and timestamp."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(dict(settings))
        self._counted = Counts(settings, PRODUCED)

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
        told = partial(self._delivered, on_delivery or callback)
        super().produce(topic, value, key, partition, on_delivery=told, **more)

    def poll(self, timeout: float = -1) -> int:
        """As confluent-kafka's."""
        events = super().poll(timeout)
        self._counted.report_if_due()
        return events

    def flush(self, timeout: float = -1) -> int:
        """As confluent-kafka's; then reports the counts."""
        left = super().flush(timeout)
        self._counted.close(timeout)
        return left

    def close(self) -> bool:
        """As confluent-kafka's."""
        closed = super().close()
        self._counted.close()
        return closed

    def produce_batch(  # type: ignore[override]
        self, topic: str, messages: list[dict[str, Any]], partition: int = -1, on_delivery: Any = None
    ) -> int:
        """As confluent-kafka's."""
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


class Consumer(confluent_kafka.Consumer):
    """Counts polled messages by topic and timestamp."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(dict(settings))
        self._counted = Counts(settings, consumed_by(settings["group.id"]))

    def poll(self, timeout: float = -1) -> Message | None:
        """As confluent-kafka's."""
        message = super().poll(timeout)
        if message is not None:
            _count(self._counted, message)
        self._counted.report_if_due()
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """As confluent-kafka's."""
        messages = super().consume(num_messages, timeout)
        for message in messages:
            _count(self._counted, message)
        self._counted.report_if_due()
        return messages

    def close(self) -> None:
        """As confluent-kafka's."""
        super().close()
        self._counted.close()


def _count(counts: Counts, message: Message) -> None:
    topic = message.topic()
    if message.error() is None and topic is not None and topic != TOPIC:
        counts.add(topic, message.timestamp()[1])
