"""Copies a topic into another one: the successor of Kafka's replay-log-producer.

Records and the positions they reach are written in one transaction, so read_committed consumers see each
record exactly once, however often the replay is killed and restarted. Positions are a group's committed
offsets in the cluster, with the number of records copied as metadata; no other state is needed. Not here:
progress and output (cli/replay.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from kaput.cluster.access import Access
from kaput.cluster.admin.client import check_access
from kaput.cluster.admin.groups import OFFSETS
from kaput.errors import LabError, UsageError
from kaput.workload.client_spec import NotAuthorizedError
from kaput.workload.librdkafka.client_setup import AuthorizationErrors, committed_offsets, quiet_logger

_INTERNAL = {OFFSETS, "__transaction_state", "__share_group_state", "__cluster_metadata", "@metadata"}
# Settings that exactly-once copying depends on.
_FIXED = {
    "bootstrap.servers", "metadata.broker.list", "group.id", "enable.auto.commit", "auto.commit.enable",
    "auto.offset.reset", "isolation.level", "enable.partition.eof", "transactional.id", "partitioner",
}  # fmt: skip


@dataclass(frozen=True)
class TopicCopy:
    """What to copy, between topics of one cluster. `rate`: messages per second, None: no limit. `id`: the
    name to resume it by; `config`: settings for both clients; `access`: how to sign in, if that is to be
    tried first.
    """

    servers: str
    source: str
    target: str
    id: str
    rate: float | None = None
    config: Mapping[str, Any] | None = None
    access: Access | None = None


def check(wanted: TopicCopy) -> None:
    """Raises UsageError for a replay that cannot work."""
    if wanted.source == wanted.target:
        raise UsageError("a topic cannot be replayed into itself: it would never end")
    if wanted.target in _INTERNAL:
        raise UsageError(f"{wanted.target} is internal to Kafka; only brokers may write to it")
    if taken := sorted(_FIXED & (wanted.config or {}).keys()):
        raise UsageError(f"--client-setting {taken[0]}: a replay sets this itself")


_ANSWER_S = 30.0
_BATCH = 2000
_POLL_S = 0.5
_TRANSACTION_S = 1.0


class CopyProgress(NamedTuple):
    """A partition: records copied in all and in this call, the offset reached and the one to reach."""

    copied: int
    now: int
    offset: int
    end: int


OnProgress = Callable[[Mapping[int, CopyProgress]], None]


def replay(wanted: TopicCopy, on_progress: OnProgress = lambda _: None) -> dict[int, CopyProgress]:
    """Copies the source's current records, starting where an earlier call with the same id ended. Keys,
    values, headers, timestamps, partitions and their order stay the same. Raises UsageError, LabError;
    records copied before that stay copied, and are not copied again.
    """
    check(wanted)
    try:
        copier = _Copier(wanted, on_progress)
    except KafkaException as error:  # settings that librdkafka does not accept
        raise UsageError(f"--client-setting: {error.args[0].str()}") from None
    if wanted.access is not None:
        check_access(wanted.servers, wanted.access)
    try:
        return copier.run()
    except KafkaException as error:
        why = error.args[0].str()
        raise LabError(f"replay {wanted.id} failed: {why}; run it again to continue") from None
    except NotAuthorizedError as error:
        raise LabError(str(error)) from None


class _Copier:
    """One call of `replay`."""

    def __init__(self, wanted: TopicCopy, on_progress: OnProgress) -> None:
        self._wanted, self._on_progress = wanted, on_progress
        common = {"bootstrap.servers": wanted.servers, **(wanted.config or {})}
        self._authorization = AuthorizationErrors(common)
        self._consumer = Consumer(
            {
                **common,
                "group.id": wanted.id,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            },
            logger=quiet_logger(),
        )
        self._producer = Producer(
            # The last producer with this id wins; the transaction of an earlier one is aborted.
            {
                "linger.ms": 5,
                **common,
                "transactional.id": wanted.id,
                "partitioner": "consistent",
                "error_cb": self._authorization.on_error,
            },
            logger=quiet_logger(),
        )
        self._state: dict[int, CopyProgress] = {}
        self._failed: KafkaError | None = None

    def run(self) -> dict[int, CopyProgress]:
        try:
            partitions = self._partitions()
            # Before reading positions: from now on no earlier call with this id can commit.
            self._producer.init_transactions(_ANSWER_S)
            self._begin(partitions)
            began, sent = time.monotonic(), 0
            while any(progress.offset < progress.end for progress in self._state.values()):
                sent += self._copy(began, sent)
                self._on_progress(self._state)
            return self._state
        finally:
            self._consumer.close()

    def _partitions(self) -> list[int]:
        """The source's partitions; the target must have at least as many. Raises UsageError."""
        partitions = {}
        for topic in (self._wanted.source, self._wanted.target):
            known = self._authorization.describe_topic(self._producer, topic, _ANSWER_S)
            if known.error is not None:
                raise UsageError(self._why(topic, known.error))
            partitions[topic] = sorted(known.partitions)
        source, target = partitions[self._wanted.source], partitions[self._wanted.target]
        if len(target) < len(source):
            raise UsageError(
                f"{self._wanted.source} has {len(source)} partitions, and {self._wanted.target} "
                f"{len(target)}: add partitions, so that every record keeps its partition"
            )
        return source

    def _why(self, topic: str, error: KafkaError) -> str:
        """What is wrong with a topic. librdkafka has no plain words for one that is missing."""
        if error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return f"{topic}: {error.str()}"
        return f"there is no topic {topic}" + (": create it first" if topic == self._wanted.target else "")

    def _begin(self, partitions: list[int]) -> None:
        """Finds where each partition continues, and where it ends. Raises KafkaException."""
        source = self._wanted.source
        places = [TopicPartition(source, partition) for partition in partitions]
        assigned = []
        for at in committed_offsets(self._consumer, places, _ANSWER_S):
            low, high = self._consumer.get_watermark_offsets(at, _ANSWER_S)
            known = at.offset >= 0
            if known and at.offset < low:
                raise LabError(
                    f"{source}/{at.partition}: records {at.offset:,} to {low - 1:,} were deleted before they "
                    "were copied; a replay with another --id copies what is left"
                )
            if at.offset > high:
                raise LabError(
                    f"{source}/{at.partition} ends at {high:,}, but {at.offset:,} were copied before: "
                    "the topic was deleted and created again; start with another --id"
                )
            offset = at.offset if known else low
            self._state[at.partition] = CopyProgress(_count(at.metadata) if known else 0, 0, offset, high)
            assigned.append(TopicPartition(source, at.partition, offset if high else OFFSET_BEGINNING))
        self._consumer.assign(assigned)

    def _copy(self, began: float, sent: int) -> int:
        """Copies one transaction; returns the number of records copied."""
        messages = self._gather(began, sent)
        changed = self._progress_after(messages)
        if changed == self._state:
            return 0
        self._producer.begin_transaction()
        try:
            copies = [message for message in messages if self._in_range(message)]
            for message in copies:
                self._produce(message)
            positions = [
                TopicPartition(
                    self._wanted.source, partition, progress.offset, metadata=f"copied {progress.copied}"
                )
                for partition, progress in changed.items()
                if progress != self._state[partition]
            ]
            self._producer.send_offsets_to_transaction(
                positions, self._consumer.consumer_group_metadata(), _ANSWER_S
            )
            self._producer.commit_transaction(_ANSWER_S)
        except BaseException:
            self._producer.abort_transaction(_ANSWER_S)
            raise
        if self._failed is not None:
            raise KafkaException(self._failed)
        self._state = changed
        return len(copies)

    def _gather(self, began: float, sent: int) -> list[Message]:
        """Reads messages for at most a second, as many as the rate allows."""
        limit = time.monotonic() + _TRANSACTION_S
        messages: list[Message] = []
        while len(messages) < _BATCH and time.monotonic() < limit:
            room = _BATCH - len(messages)
            if self._wanted.rate is not None:
                due = int((time.monotonic() - began) * self._wanted.rate) - sent - len(messages)
                room = min(room, due)
                if room < 1:
                    time.sleep(min(0.05, 1 / self._wanted.rate))
                    continue
            new = self._consumer.consume(room, _POLL_S)
            messages += new
            if not new or all(message.error() is not None for message in new):
                break
        return messages

    def _progress_after(self, messages: list[Message]) -> dict[int, CopyProgress]:
        """The state after these messages. Raises KafkaException for an error among them."""
        state = dict(self._state)
        for message in messages:
            partition = message.partition()
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            assert partition is not None
            progress = state[partition]
            if error is not None:
                # A partition may end with transaction markers, which consumers do not receive.
                offset = min(progress.end, max(progress.offset, message.offset() or 0))
                state[partition] = progress._replace(offset=offset)
            elif self._in_range(message):
                offset = (message.offset() or 0) + 1
                state[partition] = CopyProgress(progress.copied + 1, progress.now + 1, offset, progress.end)
            else:
                state[partition] = progress._replace(offset=progress.end)
        return state

    def _in_range(self, message: Message) -> bool:
        """Whether the message was in the partition when the replay started."""
        partition, offset = message.partition(), message.offset()
        if message.error() is not None or partition is None or offset is None:
            return False
        return offset < self._state[partition].end

    def _produce(self, message: Message) -> None:
        kind, timestamp = message.timestamp()
        partition = message.partition()
        assert partition is not None
        while True:
            try:
                self._producer.produce(
                    self._wanted.target,
                    message.value(),
                    message.key(),
                    partition,
                    on_delivery=self._delivered,
                    timestamp=timestamp if kind else 0,
                    headers=message.headers(),
                )
                break
            except BufferError:
                self._producer.poll(_POLL_S)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failed = self._failed or error


def _count(metadata: str | None) -> int:
    """The number of records that earlier calls copied, from a position's metadata."""
    words = (metadata or "").split()
    return int(words[1]) if len(words) == 2 and words[0] == "copied" and words[1].isdigit() else 0
