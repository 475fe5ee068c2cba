"""Warms up new brokers, in its own process: `python -m kaput.workload.librdkafka.warm_up SPEC.json`.

A new JVM interprets its code before it compiles it: on two cores the first seconds of a new cluster have
latencies of a second and more, unlike a running service. Sends to a temporary topic and reads it back, until
latencies no longer fall.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from kaput.workload.client_spec import WarmUpSpec, client_settings, notify, run_client
from kaput.workload.librdkafka.client_setup import quiet_logger

RATE = 1_000  # messages a second, each in a request of its own
PAYLOAD = bytes(100)
WINDOW_S = 1.0
FAST_MS = 20.0
PATIENCE = 2  # windows without improvement, after which latencies count as settled


class WarmUp:
    """Sends and reads; `latencies_ms` are those of the current window."""

    def __init__(self, spec: WarmUpSpec) -> None:
        settings = client_settings(spec)
        logger = quiet_logger()
        self._spec, self._latencies_ms = spec, list[float]()
        # One request in flight: no more than the brokers can handle. Idempotence would limit it, too, but
        # librdkafka then polls without pause, and takes a third of two cores from the brokers.
        self._producer = Producer(
            {**settings, "max.in.flight": 1, "linger.ms": 0, "on_delivery": self._delivered}, logger=logger
        )
        self._consumer = Consumer(
            {**settings, "group.id": spec.topic, "enable.auto.commit": False}, logger=logger
        )
        self._consumer.assign([TopicPartition(spec.topic, p, 0) for p in range(spec.partitions)])

    def run(self) -> tuple[float, float | None]:
        """The seconds it took; the last window's 99th percentile (ms), None: none. Raises KafkaException."""
        began = time.monotonic()
        limit = began + self._spec.limit_ms / 1000
        windows: list[float | None] = []
        while not settled(windows) and time.monotonic() < limit:
            windows.append(self._window(min(limit, time.monotonic() + WINDOW_S)))
        self._producer.purge()
        self._consumer.close()
        known = [p99_ms for p99_ms in windows if p99_ms is not None]
        return time.monotonic() - began, known[-1] if known else None

    def _window(self, end: float) -> float | None:
        """The 99th percentile (ms) of acknowledgements that arrive before `end` (monotonic clock)."""
        self._latencies_ms.clear()
        began, sent = time.monotonic(), 0
        while (now := time.monotonic()) < end:
            for _ in range(int((now - began) * RATE) - sent):
                self._send(sent % self._spec.partitions)
                sent += 1
            self._producer.poll(0.005)
            self._consumer.consume(500, timeout=0)
        return percentile_99(self._latencies_ms)

    def _send(self, partition: int) -> None:
        with suppress(BufferError):  # the brokers are far behind: send no more for now
            self._producer.produce(self._spec.topic, PAYLOAD, partition=partition)

    def _delivered(self, error: object, message: Message) -> None:
        latency_s = message.latency()
        if error is None and latency_s is not None:
            self._latencies_ms.append(latency_s * 1000)


def settled(windows: Sequence[float | None]) -> bool:
    """Whether the last of these percentiles (ms) is good, or the best of them is `PATIENCE` windows old. A
    window without acknowledgements (None) is worse than any other.
    """
    if not windows:
        return False
    latencies = [math.inf if each is None else each for each in windows]
    return latencies[-1] <= FAST_MS or (
        min(latencies) < math.inf and len(latencies) - 1 - latencies.index(min(latencies)) >= PATIENCE
    )


def percentile_99(values: Sequence[float]) -> float | None:
    """The smallest value that is not below 99 % of them (nearest rank); None without values."""
    return sorted(values)[math.ceil(len(values) * 0.99) - 1] if values else None


def main() -> None:
    """Warms up until latencies are settled, then reports `warm` and `done`."""
    spec = WarmUpSpec(**json.loads(Path(sys.argv[1]).read_text()))
    try:
        seconds, p99_ms = WarmUp(spec).run()
    except KafkaException as error:
        notify("trouble", message=str(error.args[0]))
        raise SystemExit(1) from None
    notify("warm", seconds=round(seconds, 1), p99_ms=None if p99_ms is None else round(p99_ms, 1))
    notify("done")


if __name__ == "__main__":
    run_client(main)
