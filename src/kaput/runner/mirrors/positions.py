"""A group's positions in a cluster it does not read from yet: reading a mirror's checkpoints, and committing.

MirrorMaker 2 writes a checkpoint for each position it translates, whether or not it commits positions itself.
Not here: moving the group's members (plan/steps.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.cluster.access import Access
from kaput.cluster.mirrors.records import parse_checkpoint
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.runner.mirrors.watching import TopicTail
from kaput.workload.librdkafka.client_setup import quiet_logger

_ASK_S = 15.0
_COMMIT_S = 60.0
_RETRY_S = 0.2
# Errors of a coordinator that is unknown or not ready yet.
_TRANSIENT = frozenset({
    KafkaError._WAIT_COORD, KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
})  # fmt: skip
_POLLS = 40  # to read the whole topic


def from_checkpoints(servers: str, access: Access, topic: str, group: str) -> dict[TopicPartition, int]:
    """The last checkpoint of each partition; empty if the topic has none of that group."""
    positions: dict[TopicPartition, int] = {}
    with closing(TopicTail(servers, access, topic)) as tail:
        received = False
        for _ in range(_POLLS):
            messages = list(tail.new())
            if received and not messages:
                break
            received = received or bool(messages)
            for message in messages:
                checkpoint = parse_checkpoint(message.key(), message.value())
                if checkpoint is not None and checkpoint.group == group:
                    positions[checkpoint.place] = checkpoint.target_offset
    return positions


def committed(
    servers: str, access: Access, group: str, places: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The group's committed offsets in these partitions, without those that have none. Raises LabError."""
    with closing(_client(servers, access, group)) as client:
        try:
            answers = client.committed([PartitionOffset(*place) for place in sorted(places)], timeout=_ASK_S)
        except KafkaException as error:
            raise LabError(f"the positions of {group} are not known: {error}") from None
    return {TopicPartition(at.topic, at.partition): at.offset for at in answers if at.offset >= 0}


def commit_positions(
    servers: str, access: Access, group: str, positions: Mapping[TopicPartition, int]
) -> None:
    """Commits offsets for a group without members. Raises LabError.

    An idle cluster creates __consumer_offsets, or loads the group's partition of it, at the first request,
    and refuses until then: retries.
    """
    offsets = [PartitionOffset(*place, offset) for place, offset in sorted(positions.items())]
    if not offsets:
        return
    limit = time.monotonic() + _COMMIT_S
    with closing(_client(servers, access, group)) as client:
        while (error := _commit(client, offsets)) is not None:
            if not _is_transient(error) or time.monotonic() > limit:
                raise LabError(f"the positions of {group} could not be set: {error}")
            time.sleep(_RETRY_S)


def _commit(client: Consumer, offsets: list[PartitionOffset]) -> KafkaError | None:
    """Commits; returns the error, or None."""
    try:
        done = client.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        return reason
    return next((at.error for at in done or [] if at.error is not None), None)


def _is_transient(error: KafkaError) -> bool:
    return error.retriable() or error.code() in _TRANSIENT


def _client(servers: str, access: Access, group: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers, "client.id": "kaput", "group.id": group, "enable.auto.commit": False,
        **access.librdkafka(),
    }  # fmt: skip
    return Consumer(settings, logger=quiet_logger())
