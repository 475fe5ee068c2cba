"""Throughput of kaput.keep.Producer against confluent-kafka's own Producer, with nothing failing.

    .venv/bin/python benchmarks/keep.py [--messages 300000] [--pairs 5]

Both send the same messages to the same broker, one after the other in turn, with a delivery report for each
message and acks=all; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

import kaput
from kaput import keep

_PAYLOAD = b"x" * 100
_POLL_EVERY = 100


def main() -> None:
    """Prints messages per second of each, CPU time a message, and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, kaput.lab(brokers=1) as lab:
        lab.create_topic("orders", partitions=3)
        settings = {**lab.client_settings(), "linger.ms": 5, "enable.idempotence": True}
        makers: dict[str, Callable[[], Any]] = {
            "confluent-kafka": lambda: Producer(settings),
            "kaput.keep": lambda: keep.Producer(settings, store=keep.SQLite(Path(folder) / "kept.db")),
        }
        _measure(makers["confluent-kafka"](), given.messages // 3)  # warm-up
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
        for _ in range(given.pairs):
            for name, make in makers.items():
                seen[name].append(_measure(make(), given.messages))
    _print(seen)


def _measure(producer: Any, messages: int) -> tuple[float, float]:
    """Messages per second, and microseconds of CPU time for each."""
    acked = 0

    def report(error: Any, message: Any) -> None:
        nonlocal acked
        acked += error is None

    began, cpu = time.perf_counter(), time.process_time()
    for number in range(messages):
        while True:
            try:
                producer.produce("orders", _PAYLOAD, b"key", on_delivery=report)
                break
            except BufferError:
                producer.poll(0.1)
        if number % _POLL_EVERY == 0:
            producer.poll(0)
    producer.flush(60)
    wall, used = time.perf_counter() - began, time.process_time() - cpu
    assert acked == messages
    return messages / wall, used / messages * 1e6


def _print(seen: dict[str, list[tuple[float, float]]]) -> None:
    medians = {}
    for name, each in seen.items():
        rates = [rate for rate, _ in each]
        rate, cpu = statistics.median(rates), statistics.median(used for _, used in each)
        medians[name] = rate, cpu
        spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
        print(f"{name:16} {rate:9,.0f} messages/s ({spread}), {cpu:.2f} us of CPU time each")
    (own, own_cpu), (theirs, their_cpu) = medians["kaput.keep"], medians["confluent-kafka"]
    print(f"ratio {own / theirs:.3f}; of CPU time {own_cpu / their_cpu:.3f}")


if __name__ == "__main__":
    main()
