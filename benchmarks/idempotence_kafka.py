"""Kafka's own idempotence on a real cluster: a producer that is killed and comes back, and what it costs.

    python benchmarks/idempotence_kafka.py          prints JSON; called by idempotence.py

Killed: a producer sends numbers from a source whose position it saves now and then, and is killed five times
(SIGKILL). It goes on from the saved position; in transactions from the last committed message in the topic.
Speed: messages of 100 bytes to three replicas with acks=all, in turns so that all see the same machine.
Retries within one producer's life are not here: `kaput run --tag idempotence-compare`.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from dedup_scoring import score_of
from dedup_traffic import Delivery

import kaput
from kaput.clients.dedup import EveryId, HighWaterMark, NumberedRecord, OneProducer

MESSAGES, KILLS, SAVED_EVERY, TRANSACTION = 20_000, 5, 500, 100
SPEED_MESSAGES, ROUNDS = 200_000, 3
QUEUE = {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
WAYS = ("off", "on", "transactions")


def settings(way: str, servers: str) -> dict[str, object]:
    """Of librdkafka."""
    given: dict[str, object] = {"bootstrap.servers": servers, "acks": "all", "log_level": 0}
    given |= {"enable.idempotence": True} if way == "on" else {}
    return given | ({"transactional.id": "idempotence"} if way == "transactions" else {})


def read(servers: str, topic: str) -> list[int]:
    """The numbers in the topic's only partition, as read_committed readers see them."""
    config = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**config, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while (message := consumer.poll(30)) is not None:
        if message.error():  # the end of the partition
            break
        found.append(int(message.value()))
    consumer.close()
    return found


def send(way: str, servers: str, topic: str, saved: Path) -> None:
    """One life of the producer: from the last position it can know to the end, unless it is killed."""
    producer = Producer(settings(way, servers))
    if way == "transactions":
        producer.init_transactions(30)  # the transaction of the life before is aborted
        position = max(read(servers, topic), default=-1) + 1
        for begin in range(position, MESSAGES, TRANSACTION):
            producer.begin_transaction()
            for number in range(begin, min(begin + TRANSACTION, MESSAGES)):
                producer.produce(topic, str(number).encode(), partition=0)
            producer.commit_transaction(30)
            print(begin, flush=True)
        return
    position = int(saved.read_text()) if saved.exists() else 0

    def acknowledged(error: object, message: Message) -> None:
        assert error is None, error
        number = int(message.value())
        if number % SAVED_EVERY == 0:
            temporary = saved.with_suffix(".new")
            temporary.write_text(str(number + 1))
            temporary.replace(saved)
            print(number, flush=True)

    for number in range(position, MESSAGES):
        producer.produce(topic, str(number).encode(), partition=0, on_delivery=acknowledged)
        producer.poll(0)
        if number % 100 == 0:
            time.sleep(0.03)
    producer.flush(60)


def killed(way: str, servers: str, folder: Path, seed: int = 1) -> dict[str, object]:
    """Five lives that end by SIGKILL, and one that comes to the end."""
    topic, random, kills = f"killed-{way}", Random(seed), 0
    saved = folder / f"{way}.position"
    command = [sys.executable, __file__, "--send", way, servers, topic, str(saved)]
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as life:
            assert life.stdout is not None
            life.stdout.readline()  # killed while it sends, not while it starts
            if kills < KILLS:
                time.sleep(random.uniform(0.2, 0.8))
                life.send_signal(signal.SIGKILL)
            life.stdout.read()
        kills += life.returncode == -signal.SIGKILL
        if life.returncode == 0:
            break
        if life.returncode != -signal.SIGKILL:
            raise SystemExit(f"the producer ended with {life.returncode}")
    numbers = read(servers, topic)
    log = [Delivery(NumberedRecord(topic, 0, at, n, 0, n, 0, n), n) for at, n in enumerate(numbers)]
    filters = {"every id": EveryId, "mark per producer": HighWaterMark, "one producer": OneProducer}
    return {
        "way": way,
        "kills": kills,
        "duplicates": sum(times - 1 for times in Counter(numbers).values()),
        "missing": len(set(range(MESSAGES)) - set(numbers)),
        "after_filters": {name: list(score_of(made(), log)) for name, made in filters.items()},
    }


def speed(way: str, servers: str) -> float:
    """Acknowledged messages a second, as fast as it goes."""
    producer, value = Producer({**settings(way, servers), **QUEUE}), b"x" * 100
    if way == "transactions":
        producer.init_transactions(30)
    start = time.perf_counter()
    for _ in range(0, SPEED_MESSAGES, 1000):
        if way == "transactions":
            producer.begin_transaction()
        for _ in range(1000):
            producer.produce(f"speed-{way}", value)
        producer.poll(0)
        if way == "transactions":
            producer.commit_transaction(60)
    producer.flush(120)
    return SPEED_MESSAGES / (time.perf_counter() - start)


def main() -> None:
    """Starts the cluster, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--send", nargs=4, metavar=("WAY", "SERVERS", "TOPIC", "FILE"), help="one producer")
    given = parser.parse_args().send
    if given:
        way, servers, topic, file = given
        send(way, servers, topic, Path(file))
        return
    with kaput.lab(brokers=3) as lab, tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            lab.create_topic(f"killed-{way}", config={"min.insync.replicas": 2})
            lab.create_topic(f"speed-{way}", config={"min.insync.replicas": 2})
        servers = lab.bootstrap_servers
        results = [killed(way, servers, Path(folder)) for way in WAYS]
        rates = [{way: speed(way, servers) for way in WAYS} for _ in range(ROUNDS + 1)][1:]
    print(
        json.dumps(
            {
                "killed": results,
                "rates": rates,
                "ratios": {way: statistics.median(one[way] / one["off"] for one in rates) for way in WAYS},
            }
        )
    )


if __name__ == "__main__":
    main()
