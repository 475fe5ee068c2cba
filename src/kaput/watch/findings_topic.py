"""Writes the status of a watch to a topic: JSON as `kaput watch --json` prints it, every 10 s and at the end.

The key of a record is the name of the run folder. A cluster that is down does not block the watch: records
wait in the client, and are dropped after its message.timeout.ms. Topics of kaput's own are never deleted,
since others read them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import KafkaException, Producer

from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.errors import LabError
from kaput.scenario.model import Topic
from kaput.watch.ledger_job import WatchOptions
from kaput.workload.librdkafka.client_setup import quiet_logger

_EVERY_S = 10.0
_LARGE = ("durations", "fates", "group_fates")  # left out of records


class FindingsTopic:
    """Writes to `topic` in a `with` block. `run`: the folder's name. Raises UsageError, LabError."""

    def __init__(self, options: WatchOptions, topic: str, run: str) -> None:
        create_if_missing(options.cluster(), topic)
        settings = {"bootstrap.servers": options.servers, "enable.idempotence": True}
        self._client = Producer({**settings, **options.access.librdkafka()}, logger=quiet_logger())
        self._topic, self._run = topic, run
        self._written_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.flush(10.0)

    def due(self) -> bool:
        """Whether it is time for the next record."""
        self._client.poll(0)
        return time.monotonic() - self._written_s >= _EVERY_S

    def write(self, status: Mapping[str, Any], *, final: bool = False) -> None:
        """Writes a record. If the client's queue is full, it is dropped: the next one supersedes it."""
        self._written_s = time.monotonic()
        small = {name: value for name, value in status.items() if name not in _LARGE}
        try:
            self._client.produce(self._topic, json.dumps({**small, "final": final}), self._run)
        except (BufferError, KafkaException):
            return


_REPLICAS = 3
_DAY_MS = 86_400_000


def create_if_missing(cluster: ExistingCluster, name: str) -> None:
    """Creates the topic if need be: one partition, up to 3 replicas, kept a day. Raises LabError."""
    with Admin(cluster) as admin:
        if admin.ids([name]):
            return
        replicas = min(_REPLICAS, len(cluster.broker_endpoints))
        topic = Topic.model_validate(
            {"name": name, "replication-factor": replicas, "config": {"retention.ms": _DAY_MS}}
        )
        made, refused = admin.make_topics([topic])
        if not made and not admin.ids([name]):  # another client was first
            raise LabError(refused[0])
