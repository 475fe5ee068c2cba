"""Compares two clusters with many records, and differences planted between them.

    .venv/bin/python benchmarks/compare.py [--records N] [--partitions N]

Two new clusters of one broker each get the same N records of 100 bytes (timestamps included), but of each
million the target lacks one, has one twice, and has one with another value. `kaput compare` then has to find
exactly those. Prints what it found, how long it took, its CPU time (Spark's JVM and workers included, brokers
not), and the most memory that it had at once.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

from confluent_kafka import Producer
from ledger import KAPUT, measured

import kaput

TOPIC = "orders"
_EVERY = 1_000_000
_LACKING, _TWICE, _CHANGED = 250_000, 500_000, 750_000  # of each million
_FIRST_MS = 1_700_000_000_000


def main() -> None:
    """Fills two clusters, compares them, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000_000)
    parser.add_argument("--partitions", type=int, default=12)
    options = parser.parse_args()
    with kaput.lab(brokers=1) as source, kaput.lab(brokers=1) as target:
        for lab, planted in ((source, False), (target, True)):
            lab.create_topic(TOPIC, partitions=options.partitions, config={"retention.ms": -1})
            began = time.monotonic()
            fill(lab.bootstrap_servers, options.records, options.partitions, planted)
            print(f"written: {options.records:,} in {time.monotonic() - began:.0f} s", flush=True)
        compare(source.bootstrap_servers, target.bootstrap_servers, options.records // _EVERY)


def fill(servers: str, records: int, partitions: int, planted: bool) -> None:
    """Writes the records, in order within each partition; `planted`: with the differences."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1_000_000,
                         "queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"})  # fmt: skip
    producer.list_topics(TOPIC, 30)  # without metadata, librdkafka may reorder the first messages
    padding = b"." * 84
    for number in range(records):
        for value in values(number, padding, planted):
            while True:
                try:
                    producer.produce(
                        TOPIC,
                        value,
                        b"%d" % number,
                        number % partitions,
                        timestamp=_FIRST_MS + number // 1000,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        if not number % 10_000:
            producer.poll(0)
    assert producer.flush(120) == 0


def values(number: int, padding: bytes, planted: bool) -> Iterator[bytes]:
    """The values that are written for a record: one, unless a difference is planted here."""
    value = b"%016d" % number + padding
    place = number % _EVERY if planted else -1
    if place == _CHANGED:
        yield value.replace(b".", b"!")
    elif place != _LACKING:
        yield value
    if place == _TWICE:
        yield value


def compare(source: str, target: str, each: int) -> None:
    """Runs `kaput compare`, and prints what it found and took. `each`: differences of each kind."""
    used, peak_mb, wrote = measured([KAPUT, "compare", source, target, "--topic", TOPIC, "--json"])
    print(f"{used['wall_s']:.0f} s, {used['cpu_s']:.0f} CPU s, {peak_mb:,.0f} MB")
    print(f"planted: {each} missing, {each} twice, {each} changed; found:")
    for row in json.loads(wrote)["rows"]:
        if row["status"] != "identical":
            about = ", ".join((row["what"], row["aspect"], row["status"]))
            print(f"  {about}: {row['counts']}, such as {row['examples'][:1]}")


if __name__ == "__main__":
    main()
