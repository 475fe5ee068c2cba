"""Segment files of a real broker: read by us, and by Kafka's own dump tool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution, java_command
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.record_batches import decode
from kaput.cluster.segments import SegmentReader, directory
from kaput.java import Java
from kaput.scenario.model import Topic
from waiting import PATIENCE_S

MESSAGES = 500
# Topic -> the codec of the client, and that of the broker, which packs with Kafka's own Java classes.
TOPICS = {
    "plain": ("none", "producer"),
    **{f"client-{codec}": (codec, "producer") for codec in ("gzip", "snappy", "lz4", "zstd")},
    **{f"broker-{codec}": ("none", codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
}
_FILE = re.compile(r"Dumping (.+)$")
_BATCH = re.compile(r"baseOffset: (\d+) .*? partitionLeaderEpoch: (\d+) .* compresscodec: (\w+)")
_RECORD = re.compile(r"\| offset: (\d+) .*? payload: (.*)$")
Row = tuple[int, int, str]  # (epoch, offset, value)


def produce(bootstrap_servers: str) -> None:
    """Values of letters that repeat, so that they are worth being packed."""
    for topic, (codec, _) in TOPICS.items():
        producer = Producer({
            "bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 20, "acks": 1,
        })  # fmt: skip
        for number in range(MESSAGES):
            producer.produce(
                topic, key=None if number % 2 else b"key", value=f"message {number} " + "x" * 200
            )
        assert producer.flush(PATIENCE_S) == 0


def by_us(replica: Path) -> list[Row]:
    reader = SegmentReader(replica, 0, 0)
    rows: list[Row] = []
    while batches := reader.read():
        for record in decode([batch.unpacked() for batch in batches]).whole():
            assert record.value is not None
            rows.append((record.leader_epoch, record.offset, record.value.decode()))
    reader.close()
    return rows


Dumped = dict[str, tuple[list[Row], set[str]]]


def by_kafka(segments: list[Path], distribution: Distribution, java: Java) -> Dumped:
    """What the dump tool prints of each of these files, by path, and the codecs that it found."""
    command = java_command(
        java,
        distribution,
        "org.apache.kafka.tools.DumpLogSegments",
        ["--print-data-log", "--files", ",".join(map(str, segments))],
    )
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    found, epoch = Dumped(), -1
    for line in said.splitlines():
        if match := _FILE.match(line):
            rows, codecs = found.setdefault(match[1], ([], set()))
        elif match := _BATCH.search(line):
            epoch = int(match[2])
            codecs.add(match[3].lower())
        elif match := _RECORD.search(line):
            rows.append((epoch, int(match[1]), match[2]))
    return found


@pytest.fixture(scope="module")
def data(cluster: OwnCluster) -> Path:
    """The data directory of a broker, which runs on."""
    with Admin(cluster) as admin:
        admin.create_topics([
            Topic.model_validate({
                "name": name, "assignment": [[1]], "config": {"compression.type": kept},
            })
            for name, (_, kept) in TOPICS.items()
        ])  # fmt: skip
    produce(cluster.bootstrap_servers)
    return cluster.nodes[1].data


def segment(data: Path, topic: str) -> Path:
    """The only one of a topic."""
    return directory(data, topic, 0) / f"{0:020d}.log"


@pytest.fixture(scope="module")
def dumped(data: Path, distribution: Distribution, java: Java) -> Dumped:
    """What Kafka reads, of all topics: one JVM for all of them."""
    return by_kafka([segment(data, topic) for topic in TOPICS], distribution, java)


@pytest.mark.parametrize("topic", TOPICS)
def test_segment_reader_agrees_with_kafkas_dump_tool(data: Path, dumped: Dumped, topic: str) -> None:
    """Offsets, epochs and values, in every codec, packed by librdkafka and by Kafka itself."""
    ours = by_us(directory(data, topic, 0))
    theirs, codecs = dumped[str(segment(data, topic))]
    assert len(ours) == MESSAGES
    assert ours == theirs
    assert codecs == {topic.partition("-")[2] or "none"}
