"""What the proxy in front of each broker costs clients (docs/PERFORMANCE.md): `python benchmarks/proxy.py`.

One cluster, its brokers behind proxies with a rule that matches nothing. librdkafka produces (acks=all) and
reads the same topic through the proxies, and past them by the listener of other brokers, in turns; the ratio
is the median over neighbouring turns. Where all cores are busy the CPU time of a message decides, that of the
client, the brokers and the proxies together: the ratio of that stands beside, and varies less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import resolve
from kaput.cluster.frames.frame_proxy import FrameRule
from kaput.cluster.own_cluster import OwnCluster
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


def measure(
    turn: Callable[[str], float], ways: dict[str, str], rounds: int, cpu_s: Callable[[], float]
) -> dict[str, object]:
    """Both ways in turns, the other one first in every other round; `cpu_s`: of everybody so far."""
    rates: dict[str, list[float]] = {way: [] for way in ways}
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways) if number % 2 else reversed(list(ways)):
            before = cpu_s()
            rates[way].append(turn(ways[way]))
            spent[way].append(cpu_s() - before)
            print(f"{way}: {rates[way][-1]:,.0f} a second", file=sys.stderr, flush=True)
    ratios = [through / past for through, past in zip(rates["through"], rates["past"], strict=True)]
    of_cpu = [past / through for through, past in zip(spent["through"], spent["past"], strict=True)]
    return {
        **{f"{way}_per_s": round(statistics.median(of)) for way, of in rates.items()},
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(each, 2) for each in ratios],
        "cpu_ratio": round(statistics.median(of_cpu), 3),
        "cpu_ratios": [round(each, 2) for each in of_cpu],
    }


def play(lab: OwnCluster, told: argparse.Namespace) -> dict[str, object]:
    """Everything, on a cluster whose topic is there."""
    nodes = [node for node in lab.nodes.values() if node.proxy is not None]
    for node in nodes:
        assert node.proxy is not None
        node.proxy.put(FrameRule("none", API_KEYS["EndTxn"]), lambda _: None)
    proxies = [psutil.Process(node.proxy.pid) for node in nodes if node.proxy is not None]
    everybody = [*proxies, *(psutil.Process(node.pid) for node in nodes), psutil.Process()]

    def cpu_s(processes: Sequence[psutil.Process] = everybody) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in processes)

    past = ",".join(f"{node.layout.host}:{node.layout.internal_port}" for node in nodes)
    ways = {"through": lab.bootstrap_servers, "past": past}
    produce(past, told.messages, told.size)  # Java compiles what it runs often
    before, found = cpu_s(proxies), {}
    for name, what in (("produce", produce), ("fetch", fetch)):
        turn = partial(what, messages=told.messages, size=told.size)
        found[name] = measure(turn, ways, told.rounds, cpu_s)
    passed_mb = 2 * told.rounds * told.messages * told.size / 1e6
    of_proxies = 1000 * (cpu_s(proxies) - before) / passed_mb
    return {**vars(told), **found, "proxies_cpu_ms_per_mb": round(of_proxies, 2)}


def main() -> None:
    """Prints and keeps what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--size", type=int, default=1000, help="bytes of a message")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--brokers", type=int, default=3)
    told = parser.parse_args()
    spec, java = Cluster(brokers=told.brokers, controllers=1, proxies="clients"), find_java()
    jars = resolve(spec.kafka, java)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        owner = stack.enter_context(Owner())
        lab = stack.enter_context(OwnCluster(owner, spec, jars, java, folder))
        admin = stack.enter_context(Admin(lab))
        factor = min(3, told.brokers)
        admin.create_topics([Topic(name=TOPIC, partitions=PARTITIONS, replication_factor=factor)])
        result = play(lab, told)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "proxy.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
