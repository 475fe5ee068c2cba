"""What the proxy in front of each broker costs clients (docs/PERFORMANCE.md): `python benchmarks/proxy.py`.

One cluster, its brokers behind proxies with a rule that matches nothing. librdkafka produces (acks=all) and
reads the same topic through the proxies, and past them by the listener of other brokers, in turns; the ratio
is the median over neighbouring turns. CPU is that of all proxies together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import resolve
from kaput.cluster.frames.frame_proxy import FrameRule
from kaput.cluster.lab import LabCluster
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.scenario.apis import API_KEYS
from kaput.scenario.model import Cluster, Topic

RESULTS = Path(__file__).with_name("results")
TOPIC, PARTITIONS, LIMIT_S = "proxied", 3, 120.0


def produce(servers: str, messages: int, size: int) -> float:
    """Messages acknowledged per second."""
    settings = {
        "linger.ms": 5,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
    }
    producer = Producer({"bootstrap.servers": servers, "acks": "all", **settings})
    producer.list_topics(TOPIC, LIMIT_S)
    payload, began = bytes(size), time.monotonic()
    for number in range(messages):
        producer.produce(TOPIC, payload, partition=number % PARTITIONS)
    if producer.flush(LIMIT_S):
        raise SystemExit("not everything was acknowledged")
    return messages / (time.monotonic() - began)


def fetch(servers: str, messages: int, size: int) -> float:
    """Messages read per second, from the start of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    consumer.consume(1, LIMIT_S)
    began, read = time.monotonic(), 1
    while read < messages:
        batch = consumer.consume(min(10_000, messages - read), LIMIT_S)
        if not batch:
            raise SystemExit("not everything was read")
        read += len(batch)
    took_s = time.monotonic() - began
    consumer.close()
    return messages / took_s


def measure(turn: Callable[[str], float], ways: dict[str, str], rounds: int) -> dict[str, object]:
    """Both ways in turns, the second way first in every other round."""
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways) if number % 2 else reversed(list(ways)):
            rates[way].append(turn(ways[way]))
            print(f"{way}: {rates[way][-1]:,.0f} messages/s", file=sys.stderr, flush=True)
    ratios = [through / past for through, past in zip(rates["through"], rates["past"], strict=True)]
    found = {f"{way}_per_s": round(statistics.median(of)) for way, of in rates.items()}
    return {
        **found,
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(each, 3) for each in ratios],
    }


def main() -> None:
    """Prints and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=1000, help="bytes of a message")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--brokers", type=int, default=3)
    told = parser.parse_args()
    spec, java = Cluster(brokers=told.brokers, controllers=1, proxies="clients"), find_java()
    with tempfile.TemporaryDirectory() as folder, Owner() as owner:
        jars = resolve(spec.kafka, java)
        with LabCluster(owner, spec, jars, java, Path(folder)) as lab, Admin(lab) as admin:
            factor = min(3, told.brokers)
            admin.create_topics([Topic(name=TOPIC, partitions=PARTITIONS, replication_factor=factor)])
            proxies = [node.proxy for node in lab.nodes.values() if node.proxy is not None]
            for proxy in proxies:
                proxy.put(FrameRule("none", API_KEYS["EndTxn"]), lambda _: None)
            inside = [node.layout for node in lab.nodes.values() if node.layout.proxied]
            past = ",".join(f"{at.host}:{at.internal_port}" for at in inside)
            ways = {"through": lab.bootstrap_servers, "past": past}
            produce(past, told.messages // 4, told.size)
            running = [psutil.Process(proxy.pid) for proxy in proxies]
            before = sum(sum(each.cpu_times()[:2]) for each in running)
            found = {
                name: measure(
                    lambda servers, what=what: what(servers, told.messages, told.size), ways, told.rounds
                )
                for name, what in (("produce", produce), ("fetch", fetch))
            }
            cpu_s = sum(sum(each.cpu_times()[:2]) for each in running) - before
            passed_mb = 2 * told.rounds * told.messages * told.size / 1e6
            result = {**vars(told), **found, "proxies_cpu_ms_per_mb": round(1000 * cpu_s / passed_mb, 2)}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "proxy.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
