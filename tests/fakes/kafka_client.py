"""confluent-kafka's Producer without a broker: what is delivered, and what fails, is the test's choice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
PURGED = KafkaError(KafkaError._PURGE_INFLIGHT)
Sent = tuple[str | None, bytes | None, bytes | None]


class FakeClient:
    """Takes `room` messages; each poll reports all that it has: stored, or failed while Kafka is `away`; what
    was purged in any case.
    """

    def __init__(self, room: int = 1_000) -> None:
        self.room, self.away = room, False
        self.stuck = False  # there are no reports at all
        self.stored: list[Sent] = []
        self.refuses: KafkaError | None = None  # at once
        self.breaks: KafkaError | None = None  # at the next poll, amid its reports; then it refuses
        self.fails: dict[bytes | None, KafkaError] = {}  # by value, once
        self.settings: dict[str, Any] = {}
        self._queue: deque[tuple[Message, Callable[..., None]]] = deque()
        self._purged: deque[tuple[Message, Callable[..., None]]] = deque()

    def __call__(self, settings: dict[str, Any]) -> FakeClient:
        """As the class is called."""
        self.settings = settings
        return self

    def produce(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int,
        on_delivery: Any,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        if self.refuses is not None:
            raise KafkaException(self.refuses)
        if len(self._queue) >= self.room:
            raise BufferError("Local: Queue full")
        value, key = (given.encode() if isinstance(given, str) else given for given in (value, key))
        message = Message(
            topic=topic, value=value, key=key, partition=max(partition, 0), timestamp=(1, timestamp or 1)
        )
        self._queue.append((message, on_delivery))

    def poll(self, timeout: float = 0) -> int:
        served = 0
        for _ in range(len(self._purged) if self.stuck else len(self)):
            purged = bool(self._purged)
            message, report = (self._purged or self._queue).popleft()
            failure = PURGED if purged else TIMED_OUT if self.away else self.fails.pop(message.value(), None)
            if failure is None:
                self.stored.append((message.topic(), message.value(), message.key()))
            report(failure, message)
            served += 1
            if self.breaks is not None:
                error, self.breaks, self.refuses = self.breaks, None, KafkaError(KafkaError._FATAL, "fatal")
                raise KafkaException(error)
        return served

    def flush(self, timeout: float = 0) -> int:
        self.poll()
        return len(self)

    def purge(self) -> None:
        self._purged += self._queue
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._purged) + len(self._queue)

    @property
    def values(self) -> list[bytes]:
        """What is stored, in order."""
        return [value for _, value, _ in self.stored if value is not None]
