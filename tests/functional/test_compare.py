"""Two clusters of real brokers compared: a topic that MirrorMaker mirrors, and a mirror with planted
differences.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from driving import KAPUT, Standing
from waiting import PATIENCE_S, answered, eventually

_BEGAN_MS = time.time_ns() // 1_000_000 - 200_000
_MIRROR = """\
clusters=dc1,dc2
dc1.bootstrap.servers={dc1}
dc2.bootstrap.servers={dc2}
dc1->dc2.enabled=true
dc2->dc1.enabled=false
dc1->dc2.topics=orders,users
dc1->dc2.groups=billing
dc1->dc2.emit.heartbeats.enabled=false
replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy
dc1->dc2.consumer.isolation.level=read_committed
dc1->dc2.sync.group.offsets.enabled=true
dc1->dc2.sync.group.offsets.interval.seconds=1
dc1->dc2.emit.checkpoints.interval.seconds=1
dc1->dc2.refresh.topics.interval.seconds=1
dc1->dc2.refresh.groups.interval.seconds=1
dc1->dc2.offset.lag.max=0
replication.factor=1
offset-syncs.topic.replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
dedicated.mode.enable.internal.rest=false
"""


@pytest.fixture(scope="module")
def kaput(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Two clusters, dc1 and dc2, of one broker each."""
    standing = Standing(tmp_path_factory.mktemp("s"))
    try:
        for name in ("dc1", "dc2"):
            standing("up", "--detach", "--brokers", "1", "--cluster", name)
        yield standing
    finally:
        standing("down", "--all")


@pytest.fixture(scope="module")
def servers(kaput: Standing) -> dict[str, str]:
    return {
        name: str(kaput.json("status", "--cluster", name)["bootstrap_servers"]) for name in ("dc1", "dc2")
    }


def make(servers: str, name: str, partitions: int = 1, **config: str) -> None:
    wanted = NewTopic(name, partitions, 1, config=config)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([wanted])[name].result(PATIENCE_S)


def commit(servers: str, group: str, topic: str, *offsets: int) -> None:
    """A group that has read so far."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
    answered(lambda: reader.commit(offsets=places, asynchronous=False), "the commit")
    reader.close()


def committed(servers: str, group: str, topic: str, partitions: int) -> list[int]:
    """The group's positions; negative ones where there are none."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition(topic, number) for number in range(partitions)]
    found = answered(lambda: reader.committed(places, 30), "the positions")
    reader.close()
    return [place.offset for place in found]


def rows(answer: dict[str, Any], status: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of a status, by what they are about and their aspect."""
    return {(row["what"], row["aspect"]): row for row in answer["rows"] if row["status"] == status}


# Its siblings: the next one; unit/compare for what differs by design; test_failover_runs.py with MirrorMaker.
@pytest.mark.long
def test_mirrormaker_copy_differs_only_by_design(
    kaput: Standing, servers: dict[str, str], tmp_path: Path
) -> None:
    """Records, headers, timestamps, order, settings, tombstones, and the position of a group; transactions
    that were aborted are not in the mirror.
    """
    make(servers["dc1"], "orders", 2, **{"retention.ms": "86400000"})
    make(servers["dc1"], "users", **{"cleanup.policy": "compact"})
    # Before the records: then the mirror has an offset sync for each of them.
    (tmp_path / "mm2.properties").write_text(_MIRROR.format(**servers))
    mirror = subprocess.Popen(
        [*KAPUT, "tool", "mirror-maker", str(tmp_path / "mm2.properties")],
        env=kaput.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        fill(servers["dc1"])
        commit(servers["dc1"], "billing", "orders", 700, 1000)
        assert eventually(lambda: min(committed(servers["dc2"], "billing", "orders", 2)) >= 0)
        answer = kaput.json("compare", "dc1", "dc2", "--wait", "120s")
    finally:
        mirror.send_signal(signal.SIGINT)
        mirror.wait(PATIENCE_S)
    assert answer["status"] == "differs by design" and answer["policy"] == "identity"
    assert rows(answer, "lost") == {}
    sums = {each["topic"]: 0 for each in answer["compared"]}
    for each in answer["compared"]:
        assert each["source_compared_to"] == each["source_end"] and each["behind"] == 0
        sums[each["topic"]] += each["matched"]
    assert sums == {"orders": 2022, "users": 300}
    by_design = rows(answer, "differs by design")
    # The mirror numbers records without the markers and the aborted records of the source.
    # The last marker may come behind the last record.
    assert by_design["topic orders", "offsets"]["counts"]["least_shift"] in (-23, -24)
    assert ("topic orders", "compression") in by_design and ("topic orders", "transactions") in by_design
    identical = rows(answer, "identical")
    assert identical["topic orders", "offset syncs"]["counts"]["checked"] > 0
    assert {aspect for what, aspect in identical if what == "topic users"} >= {
        "records",
        "compaction",
        "tombstones",
    }
    assert identical["topic users", "tombstones"]["counts"] == {"source": 10, "target": 10}
    for aspect in ("position", "checkpoints"):
        assert {**by_design, **identical}["group billing", aspect]["counts"]["skipped"] == 0


def fill(servers: str) -> None:
    """2,022 records that readers of committed ones see in `orders`, and 300 in `users`."""
    writer = Producer({"bootstrap.servers": servers, "compression.type": "lz4"})
    for number in range(2000):
        key, value = b"key %d" % (number % 50), b"value %d" % number
        writer.produce("orders", value, key, number % 2, headers=[("n", b"%d" % number), ("none", None)])
    for number in range(300):
        writer.produce(
            "users", None if number % 30 == 29 else b"value %d" % number, b"user %d" % (number % 40)
        )
    assert writer.flush(PATIENCE_S) == 0
    transactional = Producer({"bootstrap.servers": servers, "transactional.id": "writer"})
    transactional.init_transactions(PATIENCE_S)
    for commits in (True, False, True, False):
        transactional.begin_transaction()
        for number in range(10):
            transactional.produce("orders", b"in a transaction %d" % number, partition=0)
        transactional.flush(PATIENCE_S)
        (transactional.commit_transaction if commits else transactional.abort_transaction)(PATIENCE_S)
    for partition in (0, 1):
        writer.produce("orders", b"last", b"last", partition)
    assert writer.flush(PATIENCE_S) == 0


def test_planted_differences_are_found_and_counted(kaput: Standing, servers: dict[str, str]) -> None:
    """Missing, doubled and changed records, a setting, a group behind and one that is missing: nothing
    else.
    """
    make(servers["dc1"], "planted", **{"retention.ms": "86400000"})
    make(servers["dc2"], "dc1.planted", **{"retention.ms": "3600000"})
    source = list(range(100))
    target = [number for number in source if number not in (17, 18, 40)]
    target.insert(30, target[29])
    produce(servers["dc1"], "planted", source)
    produce(servers["dc2"], "dc1.planted", target, changed=60)
    for group, position in (("billing", 50), ("shipping", 10)):
        commit(servers["dc1"], group, "planted", position)
    commit(servers["dc2"], "billing", "dc1.planted", 40)
    answer = kaput.json("compare", "dc1", "dc2", "--topic", "plan*", status=1)
    lost = rows(answer, "lost")
    assert set(lost) == {
        ("topic planted", "config"),
        ("topic planted", "records"),
        ("topic planted", "headers"),
        ("group shipping", "position"),
    }
    assert [each["offset"] for each in lost["topic planted", "records"]["examples"]] == [17, 18, 40]
    assert lost["topic planted", "records"]["counts"]["count"] == 3
    assert lost["topic planted", "headers"]["examples"][0]["source_offset"] == 60
    (setting,) = lost["topic planted", "config"]["examples"]
    assert setting == {"setting": "retention.ms", "source": "86400000", "target": "3600000"}
    by_design = rows(answer, "differs by design")
    assert by_design["topic planted", "duplicates"]["counts"]["count"] == 1
    # Of records 0 to 49 the mirror has 47 and a copy; the group's position has 39 of them and that copy below
    # it.
    assert by_design["group billing", "position"]["counts"]["read_again"] == 8
    assert by_design["group billing", "position"]["counts"]["seconds"] == 7.0
    assert answer["policy"] == "default (dc1.TOPIC)"
    again = kaput(
        "compare", servers["dc1"], servers["dc2"], "--topic", "planted", "--group", "billing", status=1
    )
    assert again.startswith("lost: ") and "3 records of the source are not in the target" in again


def produce(servers: str, topic: str, numbers: list[int], changed: int | None = None) -> None:
    """A record for each number, a second apart; the headers of one are others."""
    writer = Producer({"bootstrap.servers": servers})
    for number in numbers:
        headers = [("n", b"other" if number == changed else b"%d" % number)]
        at_ms = _BEGAN_MS + 1000 * number
        writer.produce(topic, b"value %d" % number, b"key %d" % number, 0, timestamp=at_ms, headers=headers)
    assert writer.flush(PATIENCE_S) == 0


def test_unreachable_cluster_or_unknown_topic_gives_no_verdict(
    kaput: Standing, servers: dict[str, str]
) -> None:
    """A name without a cluster and an unknown topic are mistakes; a cluster that does not answer is not."""
    assert "no cluster named 'dc9'" in kaput("compare", "dc1", "dc9", status=2)
    assert "the source has no such topic" in kaput("compare", "dc1", "dc2", "--topic", "nothing", status=2)
    assert "cannot be reached" in kaput("compare", servers["dc1"], "127.0.0.1:1", status=4)
