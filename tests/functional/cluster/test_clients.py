"""Clients on the shared cluster: the drain's reader where the log does not begin at 0 any more, and
Kafka's own producer under kaput's protocol, line by line.
"""

from __future__ import annotations

import base64
import json
import subprocess
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as PartitionOffset
from confluent_kafka.admin import AdminClient

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution
from kaput.cluster.own_cluster import OwnCluster
from kaput.core import TopicPartition
from kaput.evidence.folder import RunFolder
from kaput.evidence.sealing import seal
from kaput.scenario.model import Topic
from kaput.workload.drain import LogReader
from kaput.workload.java.command_lines import JavaTools
from waiting import PATIENCE_S

SENT, DELETED = 50, 11


def _delete(cluster: OwnCluster, topic: str, below: int) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    (done,) = client.delete_records([PartitionOffset(topic, 0, below)]).values()
    assert done.result(PATIENCE_S).low_watermark == below


def _rows(folder: RunFolder, table: str) -> list[dict[str, object]]:
    seal(folder)
    files = sorted(folder.table(table).glob("*.parquet"))
    rows: list[dict[str, object]] = pa.concat_tables(pq.read_table(f) for f in files).to_pylist()
    return rows


@pytest.mark.parametrize("deleted", ["before", "meanwhile", "afterwards"])
def test_drain_records_a_log_start_offset_above_zero(
    deleted: str, admin: Admin, cluster: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were deleted before or while they are read: the rest is recorded as read to the end. What
    was deleted while groups still read is gone once it is read again.
    """
    topic = f"deleted-{deleted}"
    admin.create_topics([Topic(name=topic, replication_factor=3)])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(SENT):
        producer.produce(topic, b"x")
    assert producer.flush(PATIENCE_S) == 0
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    twice = deleted == "afterwards"
    reader = LogReader(folder, uuid.uuid4(), cluster.bootstrap_servers, transactional=twice)
    if deleted == "meanwhile":
        begin = reader._begin

        def deleted_meanwhile(client: object, place: TopicPartition, end: int) -> int:
            """The records go just after the reader has asked where they begin."""
            first = begin(client, place, end)
            if first == 0:
                _delete(cluster, topic, DELETED)
            return first

        monkeypatch.setattr(reader, "_begin", deleted_meanwhile)
    elif deleted == "before":
        _delete(cluster, topic, DELETED)
    told = reader.read({TopicPartition(topic, 0): SENT}, 60, lambda done, total: None)
    assert reader.is_outdated({TopicPartition(topic, 0): DELETED}) == (deleted == "afterwards")
    if deleted == "afterwards":
        _delete(cluster, topic, DELETED)
        told = reader.read({TopicPartition(topic, 0): SENT}, 60, lambda done, total: None)
    (row,) = _rows(folder, "end_offsets")
    assert (row["start_offset"], row["drained_to"], row["end_offset"]) == (DELETED, SENT, SENT)
    assert [(r["offset"], r["visible"]) for r in _rows(folder, "log")] == [
        (offset, True) for offset in range(DELETED, SENT)
    ]
    assert told == []
    assert reader.removed() == [
        f"{topic}/0 begins at offset 11 at the end: retention or delete-records removed 11 offsets "
        "before the drain read them"
    ]


def test_message_rejected_in_a_broken_transaction_has_one_outcome(
    cluster: OwnCluster, admin: Admin, distribution: Distribution, tmp_path: Path
) -> None:
    """The client has put such a message into its buffer, and tells once more when it empties that."""
    admin.create_topics([Topic(name="broken", partitions=1)])
    start = {
        "bootstrap_servers": cluster.bootstrap_servers, "topic": "broken", "partitions": 1, "producer": 0,
        "acks": "all", "idempotence": True, "transactional_id": "breaks",
        "config": {"max.request.size": 1000},
    }  # fmt: skip
    sent = [
        {"seq": seq, "key": None, "payload": base64.b64encode(b"x" * size).decode(), "partition": 0}
        for seq, size in enumerate([10, 2000, 10, 10])
    ]
    lines = [start, {"begin": True}, *sent, {"end": "abort"}]
    done = subprocess.run(
        JavaTools(tmp_path, distribution, distribution.version).producer(None),
        input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    admin.delete_topic("broken")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-2000:]
    assert Counter(line["seq"] for line in said if "seq" in line) == Counter(range(4))
    outcomes = {line["seq"]: line["outcome"] for line in said if "seq" in line}
    assert outcomes[1] == "failed" and {outcomes[2], outcomes[3]} == {"unknown"}
    assert said[-1]["transaction"] == "aborted"
