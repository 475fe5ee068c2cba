"""kaput.keep with real brokers: Kafka away, producers and replays killed, and every message counted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

import kaput
from driving import KAPUT
from fakes.killed_replay import POINTS
from fakes.store_contract import record
from kaput import keep
from kaput.clients.keep.store import records_of
from waiting import PATIENCE_S, wait_for

KILLED_REPLAY = [sys.executable, str(Path(__file__).parents[1] / "fakes" / "killed_replay.py")]
KILLS = 50
_SOONER = ("committing", "committed")  # steps that `make test` kills a replay at


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kaput.Lab]:
    """One broker, which is soon back after a kill."""
    config = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 300}
    with kaput.lab(brokers=1, folder=tmp_path_factory.mktemp("lab"), config=config) as started:
        yield started


def topic_of(lab: kaput.Lab, name: str, partitions: int = 3) -> str:
    """A new topic that is ready, on a broker that may have been paused until now."""
    keeps_all = {"retention.ms": -1}  # messages of tests are years old

    def created() -> bool:
        try:
            lab.create_topic(name, partitions=partitions, config=keeps_all)
        except kaput.LabError as error:
            return "exists" in str(error)
        return True

    wait_for(created, f"topic {name}")
    stored(lab, name)
    return name


def settings(lab: kaput.Lab, **more: Any) -> dict[str, Any]:
    """A client that gives up soon."""
    return {**lab.client_settings(), "message.timeout.ms": 2_000, "log_level": 0, **more}


def stored(lab: kaput.Lab, topic: str) -> list[list[tuple[bytes | None, bytes | None]]]:
    """Key and value of what a consumer of committed records sees, by partition."""
    own = {"group.id": "reader", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    consumer = Consumer({**lab.client_settings(), **own})
    partitions = lab.partitions(topic)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[list[tuple[bytes | None, bytes | None]]] = [[] for _ in partitions]
    ended = set()
    limit = time.monotonic() + PATIENCE_S
    while len(ended) < len(partitions) and time.monotonic() < limit:
        for message in consumer.consume(500, 0.5):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                found[partition].append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
    consumer.close()
    assert len(ended) == len(partitions)
    return found


def values(lab: kaput.Lab, topic: str) -> Counter[bytes | None]:
    """How often each value is stored."""
    return Counter(value for partition in stored(lab, topic) for _, value in partition)


def replay(lab: kaput.Lab, store: Path | str, *options: str) -> tuple[int, dict[str, Any], str]:
    """`kaput keep replay --json`: its status, its document, its stderr."""
    servers = lab.client_settings()["bootstrap.servers"]
    done = subprocess.run(
        [*KAPUT, "keep", "replay", str(store), "--bootstrap-servers", servers, "--json", *options],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def kept(
    topic: str, count: int, tmp_path: Path, kind: Callable[[Path], keep.MessageStore] = keep.SQLite
) -> Path:
    """A store with `count` messages of three keys, for one partition each."""
    path = tmp_path / "kept.db"
    kind(path).put(
        [
            record(n, topic, partition=n % 3, value=b"%d" % n, timestamp_ms=1_700_000_000_000 + n)
            for n in range(count)
        ]
    )
    return path


@pytest.mark.usefixtures("without_kafka")
@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("kill", {}),
        ("pause", {"ordered": True}),
        pytest.param("pause", {"spool_first": True}, marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_during_a_kafka_outage(
    fault: str, options: dict[str, Any], lab: kaput.Lab, tmp_path: Path
) -> None:
    """Sent = acknowledged + kept; the store has exactly what is missing in Kafka, and replay delivers it."""
    topic, path = topic_of(lab, f"away-{len(options)}-{next(iter(options), 'plain')}"), tmp_path / "kept.db"
    store = keep.SQLite(path, "NORMAL")
    acked: Counter[bytes | None] = Counter()

    def report(error: Any, message: Any) -> None:
        acked[message.value()] += error is None

    count = 600
    with keep.Producer(settings(lab), store=store, queue=50, **options) as producer:
        send = partial(producer.produce, topic, on_delivery=report)
        for number in range(200):
            send(b"%d" % number, b"k%d" % (number % 7))
        assert producer.flush(PATIENCE_S) == 0  # acknowledged, unless the machine is very busy
        with lab.fault(fault, "broker 1"):
            for number in range(200, count):
                send(b"%d" % number, b"k%d" % (number % 7))
                producer.poll(0)
            assert producer.flush(PATIENCE_S) == 0
            during = producer.counts
        producer.produce(topic, b"last", b"new", on_delivery=report)
        counts = producer.close(60)
    assert during.acked + during.kept == count and 0 < during.acked <= 200
    assert (counts.refused, counts.failed, counts.unknown, counts.queued) == (0, 0, 0, 0)
    assert counts.acked == during.acked + 1 and counts.kept == sum(store.counts().values())
    # What was with the broker when it was paused is stored when it goes on, long after its report of failure.
    late = values(lab, topic).keys() - {value for value, times in acked.items() if times}
    assert not late if fault == "kill" else late <= {r.value for r in records_of(store) if r.in_doubt}
    status, done, error = replay(lab, path)
    assert (status, done["delivered"], done["left"]) == (0, counts.kept, 0), error
    found = values(lab, topic)
    assert found.keys() == {b"%d" % n for n in range(count)} | {b"last"}
    assert found.total() - len(found) <= done["maybe_twice"]
    if options.get("ordered"):
        by_key: dict[bytes | None, list[int]] = {}
        for partition in stored(lab, topic):
            for key, value in partition:
                if value != b"last":
                    by_key.setdefault(key, []).append(int(value or b""))
        assert len(by_key) == 7 and all(numbers == sorted(numbers) for numbers in by_key.values())
        assert counts.overtaken == 0


SPOOLING = """
import os, sys
from kaput import keep
topic, servers, path, end = sys.argv[1:]
def report(error, message):
    if end == "acknowledged" and error is None and message.value() == b"50":
        os.kill(os.getpid(), 9)  # acknowledged, and still in the store
producer = keep.Producer(
    {"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0}, store=keep.SQLite(path), spool_first=True
)
for number in range(100_000):
    producer.produce(topic, b"%d" % number, on_delivery=report)
    os.write(1, b"%d\\n" % number)
    producer.poll(0.02 if end == "acknowledged" else 0)
"""


def test_producer_killed_during_a_kafka_outage_loses_nothing(lab: kaput.Lab, tmp_path: Path) -> None:
    """Spool-first: what `produce` had accepted is in the store; replay waits until its producer is over."""
    topic, path = topic_of(lab, "killed-away"), tmp_path / "kept.db"
    servers = lab.client_settings()["bootstrap.servers"]
    command = [sys.executable, "-c", SPOOLING, topic, servers, str(path), "away"]
    with lab.fault("pause", "broker 1"), subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        accepted = [process.stdout.readline() for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        accepted += process.stdout.read().splitlines()
    numbers = {line.strip() for line in accepted if line.strip()}
    status, done, error = replay(lab, path)
    assert status == 4 and done["delivered"] == 0 and "their producer may still be sending them" in error
    status, done, error = replay(lab, path, "--include-in-flight")
    assert (status, done["left"]) == (0, 0), error
    found = values(lab, topic)
    assert numbers <= found.keys() and len(found) <= len(numbers) + 1 and found.total() == len(found)


def test_a_crash_between_acknowledgement_and_mark_loses_nothing(lab: kaput.Lab, tmp_path: Path) -> None:
    """What was acknowledged and not yet removed is sent twice, and counted."""
    topic, path = topic_of(lab, "acked-unmarked"), tmp_path / "kept.db"
    servers = lab.client_settings()["bootstrap.servers"]
    command = [sys.executable, "-c", SPOOLING, topic, servers, str(path), "acknowledged"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGKILL
    accepted, before = set(done.stdout.split()), values(lab, topic)
    left = {one.value for one in keep.SQLite(path).read()}
    assert b"50" in left and b"50" in before
    status, document, error = replay(lab, path, "--include-in-flight")
    assert status == 0, error
    found = values(lab, topic)
    assert accepted <= found.keys()
    assert document["maybe_twice"] == len(left) >= found.total() - len(found) == len(left & before.keys())


@pytest.mark.parametrize("kind", [keep.SQLite, pytest.param(keep.FailureLog, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "point", [pytest.param(one, marks=[] if one in _SOONER else pytest.mark.long) for one in POINTS]
)
def test_a_replay_killed_at_any_step_leaves_each_message_once(
    point: str, kind: Any, lab: kaput.Lab, tmp_path: Path
) -> None:
    """Before and after the note, the mark, the commit, the removal; the next one continues."""
    topic = topic_of(lab, f"killed-{point}-{kind.__name__}")
    path = kept(topic, 100, tmp_path, kind)
    servers = lab.client_settings()["bootstrap.servers"]
    killed = subprocess.run(
        [*KILLED_REPLAY, str(path), servers, point, "exactly"],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = keep.replay(kind(path), lab.client_settings())
    assert done.maybe_twice == 0
    before = 60 if point in ("committed", "removed") else 40
    if point != "committing":
        assert (done.delivered, done.found) == (100 - before, 20 if point == "committed" else 0)
    for number, partition in enumerate(stored(lab, topic)):
        assert partition == [(b"k%d" % number, b"%d" % n) for n in range(number, 100, 3)]
    assert kind(path).notes().keys() == {"identity"}


@pytest.mark.parametrize("point", [pytest.param("produced", marks=pytest.mark.long), "committed"])
def test_non_transactional_killed_replay_counts_its_duplicates(
    point: str, lab: kaput.Lab, tmp_path: Path
) -> None:
    """The batch that was acknowledged and not removed, exactly."""
    topic = topic_of(lab, f"twice-{point}")
    path = kept(topic, 100, tmp_path)
    servers = lab.client_settings()["bootstrap.servers"]
    command = [*KILLED_REPLAY, str(path), servers, point, "once"]
    assert subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode == -9
    done = keep.replay(keep.SQLite(path), lab.client_settings(), exactly_once=False)
    found = values(lab, topic)
    assert len(found) == 100 and found.total() - 100 == done.maybe_twice == 20


@pytest.mark.long
def test_a_replay_killed_fifty_times_leaves_each_message_once(lab: kaput.Lab, tmp_path: Path) -> None:
    """At whatever moment; some progress between, else it would never end."""
    topic = topic_of(lab, "killed-often")
    path = kept(topic, 4_000, tmp_path)
    servers = lab.client_settings()["bootstrap.servers"]
    kills = 0
    while kills < KILLS:
        process = subprocess.Popen([*KILLED_REPLAY, str(path), servers, "", "exactly"])
        wait_for(lambda: bool(keep.SQLite(path).notes()), "an identity")
        time.sleep(0.25 + (kills * 37 % 100) / 250)
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait()
        if not keep.SQLite(path).counts():
            keep.SQLite(path).put(
                [
                    record(10_000 * kills + n, topic, partition=n % 3, value=b"%d-%d" % (kills, n))
                    for n in range(999)
                ]
            )
    status, done, error = replay(lab, path)
    assert status == 0 and done["left"] == 0, error
    found = values(lab, topic)
    assert set(found.values()) == {1} and found.keys() >= {b"%d" % n for n in range(4_000)}


def test_rejected_messages_stay_in_the_store_with_the_reason(lab: kaput.Lab, tmp_path: Path) -> None:
    """A message that is too large, a partition and a topic that are not there; the store says why.

    The topic allows 1,000 bytes: the broker rejects all that was sent together with the message.
    """
    topic = topic_of(lab, "rejecting")
    lab.create_topic("small", config={"max.message.bytes": 1_000, "retention.ms": -1})
    path = kept(topic, 30, tmp_path)
    store = keep.SQLite(path)
    store.put([record(7, topic, partition=99), record(17, "small", partition=0, value=b"x" * 2_000)])
    store.put([record(n, "small", partition=0) for n in (40, 41)])
    store.put([record(n, "gone") for n in (50, 51)])
    quickly = (
        "--client-setting",
        "topic.metadata.propagation.max.ms=500",
        "--client-setting",
        "allow.auto.create.topics=false",
    )
    status, done, error = replay(lab, path, *quickly)
    assert (status, done.get("delivered"), done.get("left")) == (4, 30, 4), error
    assert sum(done["rejected"].values()) == 4 and "4 messages are left (" in error
    tries = {one.id: one.tries for one in store.read()}
    assert tries == {"a-000007": 3, "a-000017": 3, "a-000050": 3, "a-000051": 3}
    assert sum(map(len, stored(lab, topic))) == 28 and sum(map(len, stored(lab, "small"))) == 2


def test_replay_options_dry_run_topic_and_rate(lab: kaput.Lab, tmp_path: Path) -> None:
    """--dry-run, --topic and --rate; key, headers, timestamp and partition are as they were."""
    first, second = topic_of(lab, "rate-1"), topic_of(lab, "rate-2")
    path = kept(first, 40, tmp_path)
    keep.SQLite(path).put([record(100 + n, second) for n in range(5)])
    status, plan, _ = replay(lab, path, "--dry-run")
    assert status == 0 and plan["topics"] == {first: 40, second: 5} and not values(lab, first)
    began = time.monotonic()
    status, done, error = replay(lab, f"sqlite:{path}", "--topic", first, "--rate", "40")
    assert (status, done["delivered"], done["left"]) == (0, 40, 0), error
    assert time.monotonic() - began >= 0.5
    assert keep.SQLite(path).counts() == {second: 5}
    consumer = Consumer({**lab.client_settings(), "group.id": "x"})
    consumer.assign([TopicPartition(first, 1, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None and message.timestamp()[1] == 1_700_000_000_001
    assert (message.key(), message.headers()) == (b"k1", [("a", b"\xfe"), ("b", None)])
    consumer.close()


@pytest.fixture(scope="module")
def without_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A replay to nowhere, which waits a while, during the other tests."""
    path = kept("orders", 3, tmp_path_factory.mktemp("nowhere"))
    command = [*KAPUT, "keep", "replay", str(path), "--bootstrap-servers", "127.0.0.1:1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield path, process


def test_replay_without_kafka_or_store_fails_with_one_line(
    lab: kaput.Lab, without_kafka: tuple[Path, subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Exit 4 for a cluster that is away, 2 for a store that is not there, 0 where nothing is kept."""
    path, process = without_kafka
    status, _, error = replay(lab, tmp_path / "none.db")
    assert status == 2 and "none.db: No such file or directory" in error
    keep.SQLite(tmp_path / "empty.db")
    assert replay(lab, tmp_path / "empty.db")[:2] == (
        0, {"store": f"sqlite:{tmp_path / 'empty.db'}", "delivered": 0, "found": 0, "maybe_twice": 0,
            "in_flight": 0, "rejected": {}, "left": 0},
    )  # fmt: skip
    _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 4 and "replay it again to continue" in error
    assert keep.SQLite(path).counts() == {"orders": 3}
