"""Reads new records of a topic, or the end of a partition: for watching mirrors.

Clients without a group, with short timeouts: a cluster that does not answer has no new records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.cluster.access import Access
from kaput.core import TopicPartition
from kaput.workload.librdkafka.client_setup import quiet_logger

_BATCH = 1000
_ASK_S = 1.0
_MOST_BATCHES = 20  # at once


def _client(servers: str, access: Access, **more: str | int | bool) -> Consumer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": servers,
        "client.id": "kaput",
        "group.id": "kaput-mirrors",  # required by the client; nothing is committed
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        **access.librdkafka(),
        **more,
    }
    return Consumer(settings, logger=quiet_logger())


class TopicTail:
    """Reads a topic of one partition from its beginning, as it grows."""

    def __init__(self, servers: str, access: Access, topic: str) -> None:
        self._client, self._topic = _client(servers, access), topic
        self._assigned = False

    def new(self) -> Iterator[Message]:
        """The records since the last call; none if the topic does not exist."""
        if not self._assigned:
            if not self._exists():
                return
            self._client.assign([PartitionOffset(self._topic, 0, 0)])
            self._assigned = True
        for _ in range(_MOST_BATCHES):
            messages = self._client.consume(_BATCH, timeout=0.05)
            yield from (message for message in messages if message.error() is None)
            if not messages:
                return

    def close(self) -> None:
        """Disconnects."""
        self._client.close()

    def _exists(self) -> bool:
        try:
            found = self._client.list_topics(self._topic, timeout=_ASK_S).topics.get(self._topic)
        except KafkaException:
            return False
        return found is not None and found.error is None and bool(found.partitions)


def last_records(
    servers: str, access: Access, place: TopicPartition, end: int, count: int, timeout_s: float
) -> list[Message]:
    """The last records of a partition among its last `count` offsets below `end`; fewer if time runs out."""
    limit = time.monotonic() + timeout_s
    found: list[Message] = []
    with closing(_client(servers, access, **{"enable.partition.eof": True})) as client:
        client.assign([PartitionOffset(*place, max(0, end - count))])
        while time.monotonic() < limit:
            messages = client.consume(_BATCH, timeout=0.1)
            found += [message for message in messages if message.error() is None]
            # Stop at the end of the partition (an error to librdkafka), or beyond `end`.
            if any(message.error() is not None for message in messages):
                break
            if found and (found[-1].offset() or 0) >= end - 1:
                break
    return [message for message in found if (message.offset() or 0) < end]
