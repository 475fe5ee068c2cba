"""Replays a store: sends each kept message exactly once, even if the replay is killed at any point.

A batch is one transaction, which also commits a mark: the batch's name, as the metadata of an offset of the
store's own group. Before it, the store notes the ids of the batch; after it, the store removes them. The
next replay first fences and ends the transactions of earlier ones (the transactional.id is the store's), then
reads the marks from Kafka: a noted batch with a mark was committed, and is removed; nothing of others is
visible. Kafka keeps marks as long as offsets (offsets.retention.minutes).

Without transactions there are no marks: batches that a killed replay had noted are sent again, and counted
(`maybe_twice`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kaput.clients.keep.deliveries import MESSAGE_ERRORS
from kaput.clients.keep.store import PAGE, KeptMessage, MessageStore, count, now_ms
from kaput.errors import LabError, UsageError

_ANSWER_S = 60.0
_DEFAULTS = {
    "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 5_000,  # for deleted topics
}  # fmt: skip
_REJECTION_ERRORS = MESSAGE_ERRORS | {
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.INVALID_TIMESTAMP, KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError._INVALID_ARG,
}  # fmt: skip
# Brokers reject the whole client batch with these, not only the bad message.
_BATCH_ERRORS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)  # fmt: skip
# Errors of the other messages in a transaction that is aborted.
_ABORT_ERRORS = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._STATE})


class Batches:
    """Sends batches. `group`: the store's, which is also its transactional.id.

    Methods raise KafkaException for errors of the cluster; `errors` has the errors of single messages, by id.
    """

    def __init__(self, config: Mapping[str, Any], group: str, exactly_once: bool) -> None:
        self._group, self._exactly_once = group, exactly_once
        self.errors: dict[str, KafkaError] = {}
        common = {name: value for name, value in config.items() if name != "transactional.id"}
        own = {"transactional.id": group} if exactly_once else {}
        self._config = {**_DEFAULTS, **common, **own}
        try:
            self._producer = Producer(self._config)
            self._admin = AdminClient(common)
            # Only for the group metadata: it never joins.
            self._consumer = Consumer({**common, "group.id": group, "enable.auto.commit": False})
        except KafkaException as error:
            raise UsageError(f"settings of the client: {error.args[0].str()}") from None

    def begin(self) -> None:
        """Fences earlier replays and ends their transactions: none of them can commit any more."""
        self._producer.list_topics(timeout=10.0)  # init_transactions would wait for longer
        if self._exactly_once:
            self._producer.init_transactions(_ANSWER_S)

    def committed_batches(self) -> set[str]:
        """The names of committed batches: the last one of each topic, from the group's marks."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)], require_stable=True, request_timeout=_ANSWER_S
        )
        marks = asked[self._group].result().topic_partitions
        return {place.metadata for place in marks if place.metadata}

    def send(self, records: list[KeptMessage], name: str) -> list[KeptMessage]:
        """Sends the batch; returns the records that Kafka has now (all or none for a transaction)."""
        return self._commit(records, name) if self._exactly_once else self._acknowledge(records)

    def rejected(self) -> set[str]:
        """The messages of the last batch that Kafka rejected, perhaps only because of another one."""
        return {one for one, error in self.errors.items() if error.code() in _REJECTION_ERRORS}

    def certainly_rejected(self) -> set[str]:
        """The messages that Kafka certainly rejected themselves."""
        return {one for one in self.rejected() if self.errors[one].code() not in _BATCH_ERRORS}

    def close(self) -> None:
        self._consumer.close()
        self._producer.purge()

    def _acknowledge(self, records: list[KeptMessage]) -> list[KeptMessage]:
        """Sends records without a transaction; returns the acknowledged ones."""
        self._produce(records)
        return [record for record in records if record.id not in self.errors]

    def _commit(self, records: list[KeptMessage], name: str) -> list[KeptMessage]:
        """Sends records in a transaction; returns them if it was committed, none if one was rejected."""
        self._producer.begin_transaction()
        try:
            self._produce(records)
            if not self.errors:
                mark = TopicPartition(records[0].topic, 0, 0, metadata=name)
                self._producer.send_offsets_to_transaction(
                    [mark], self._consumer.consumer_group_metadata(), _ANSWER_S
                )
                self._commit_with_retries()
                return records
        except BaseException:
            self._abort()
            raise
        self._abort()
        return []

    def _commit_with_retries(self) -> None:
        """Commits. Repeating a call that timed out is safe: it asks for the result of the same commit."""
        limit = time.monotonic() + _ANSWER_S
        while True:
            try:
                self._producer.commit_transaction(_ANSWER_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > limit:
                    raise

    def _abort(self) -> None:
        """Aborts the transaction. If the client cannot go on after that (a broker that rejected every message
        may have no transaction to abort), another one fences it and continues.
        """
        try:
            self._producer.abort_transaction(_ANSWER_S)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self._producer = Producer(self._config)
            self.begin()

    def _produce(self, records: list[KeptMessage]) -> None:
        """Sends records and waits for reports. Raises KafkaException for errors of the cluster."""
        self.errors = {}
        for record in records:
            self._produce_one(record)
        # If one is rejected, the others of its transaction fail too, some without a report until the abort.
        while self._producer.flush(0.1) and not (self._exactly_once and self.rejected()):
            pass
        if self._exactly_once and self.rejected():
            return
        for error in self.errors.values():
            if error.code() not in _REJECTION_ERRORS and not (
                self._exactly_once and error.code() in _ABORT_ERRORS
            ):
                raise KafkaException(error)

    def _produce_one(self, record: KeptMessage) -> None:
        errors = self.errors  # of this attempt: reports of purged messages may arrive during the next one

        def report(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                errors[record.id] = error

        while True:
            try:
                self._producer.produce(
                    record.topic, record.value, record.key,
                    -1 if record.partition is None else record.partition,
                    on_delivery=report, timestamp=record.timestamp_ms, headers=list(record.headers) or None,
                )  # fmt: skip
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                self.errors[record.id] = error.args[0]
                return


GROUP = "kaput-keep"
_BATCH = "batch:"
_IDENTITY = "identity"
_TRIES_MAX = 5  # of a transaction that fails although no message was rejected
_BATCH_BYTES = 8 << 20


@dataclass
class Replayed:
    delivered: int = 0  # acknowledged, and removed from the store
    found: int = 0  # committed by an earlier, killed replay: only removed
    maybe_twice: int = 0  # of those delivered: Kafka may have had them before
    in_flight: int = 0  # left: spooled, and the producer may still be sending them
    rejected: dict[str, int] = field(default_factory=dict)  # left: rejected by Kafka, by error
    left: int = 0  # in the store at the end, in the requested topics


def replay(
    store: MessageStore,
    config: Mapping[str, Any],
    *,
    topic: str | None = None,
    rate: float | None = None,
    exactly_once: bool = True,
    include_in_flight: bool = False,
    batch: int = PAGE,
    tell: Callable[[Replayed], None] = lambda _: None,
) -> Replayed:
    """Sends kept messages in order, until none is left that can be sent. `tell` is called after each batch.
    `rate`: messages per second. Raises LabError, UsageError; call it again to continue.
    """
    replaying = _KeptReplay(store, config, exactly_once)
    try:
        return replaying.run(topic, rate, include_in_flight, batch, tell)
    except KafkaException as error:
        raise LabError(f"{store.name}: Kafka: {error.args[0].str()}; replay it again to continue") from None
    finally:
        replaying.kafka.close()


class _KeptReplay:
    def __init__(self, store: MessageStore, config: Mapping[str, Any], exactly_once: bool) -> None:
        self._store, self._exactly_once = store, exactly_once
        group = f"{GROUP}-{store.note(_IDENTITY, secrets.token_hex(8))}"
        self.kafka = Batches(config, group, exactly_once)
        self._uncertain: dict[str, set[str]] = {}  # batches that Kafka may have in part
        self._rejected: set[str] = set()
        self._result = Replayed()

    def run(
        self,
        topic: str | None,
        rate: float | None,
        include_in_flight: bool,
        batch: int,
        tell: Callable[[Replayed], None],
    ) -> Replayed:
        if not self._store.counts() and not any(name.startswith(_BATCH) for name in self._store.notes()):
            return self._result
        self._recover()
        began, before = time.monotonic(), -1
        size = batch if rate is None else min(batch, max(1, int(rate / 10)))  # ten steps a second
        # Starts over: a producer may have kept older messages meanwhile.
        while self._result.delivered > before:
            before, self._result.in_flight = self._result.delivered, 0
            for records in self._batches(topic, include_in_flight, size):
                if rate is not None:
                    time.sleep(max(0.0, began + self._result.delivered / rate - time.monotonic()))
                self._send(records)
                tell(self._result)
        self._result.left = count(self._store, topic)
        if not count(self._store):
            for name in self._uncertain:
                self._store.remove([], name)
        return self._result

    def _recover(self) -> None:
        """Fences earlier replays, and settles the batches that they had noted."""
        self.kafka.begin()
        noted = {name: text for name, text in self._store.notes().items() if name.startswith(_BATCH)}
        committed_batches = self.kafka.committed_batches() if noted else set()
        for name, text in noted.items():
            note = json.loads(text)
            if name in committed_batches:
                self._store.remove(note["ids"], name)
                self._result.found += len(note["ids"])
            elif self._exactly_once and note["transaction"]:
                self._store.remove([], name)
            else:
                self._uncertain[name] = set(note["ids"])

    def _batches(self, topic: str | None, include_in_flight: bool, size: int) -> Iterator[list[KeptMessage]]:
        after = ""
        while page := self._store.read(after, size, topic):
            after = page[-1].id
            now = now_ms()
            ready = [one for one in page if include_in_flight or one.sending_until_ms <= now]
            self._result.in_flight += len(page) - len(ready)
            ready = [one for one in ready if one.id not in self._rejected]
            while ready:
                end, size_bytes = 0, 0
                while end < len(ready) and (not end or size_bytes < _BATCH_BYTES):
                    size_bytes += len(ready[end].value or b"")
                    end += 1
                yield ready[:end]
                ready = ready[end:]

    def _send(self, records: list[KeptMessage]) -> None:
        """Sends a batch; again without rejected messages, and split if it is unclear which those are."""
        tries = 0
        while records:
            name = _BATCH + secrets.token_hex(8)
            ids = [record.id for record in records]
            self._store.note(name, json.dumps({"ids": ids, "transaction": self._exactly_once}))
            sent = self._send_batch(records, name)
            self._store.remove([record.id for record in sent], name)
            self._count(sent)
            rejected = self.kafka.rejected()
            certain = rejected if len(records) == 1 else self.kafka.certainly_rejected()
            self._reject([record for record in records if record.id in certain])
            settled = certain.union(record.id for record in sent)
            records = [record for record in records if record.id not in settled]
            tries = 0 if rejected else tries + 1
            if records and tries == _TRIES_MAX:
                raise KafkaException(next(iter(self.kafka.errors.values())))
            if certain < rejected and len(records) > 1:
                self._send(records[: len(records) // 2])
                records = records[len(records) // 2 :]

    def _send_batch(self, records: list[KeptMessage], name: str) -> list[KeptMessage]:
        """Sends a batch once. Without transactions, removes acknowledged records even if others fail."""
        try:
            return self.kafka.send(records, name)
        except KafkaException:
            if not self._exactly_once:
                self._store.remove([record.id for record in records if record.id not in self.kafka.errors])
            raise

    def _count(self, sent: list[KeptMessage]) -> None:
        uncertain_ids = set().union(*self._uncertain.values())
        self._result.delivered += len(sent)
        self._result.maybe_twice += sum(
            one.in_doubt or one.sending_until_ms > 0 or one.id in uncertain_ids for one in sent
        )

    def _reject(self, records: list[KeptMessage]) -> None:
        """Keeps the records in the store, with the reason."""
        updated = []
        for record in records:
            why = self.kafka.errors[record.id].str()
            self._result.rejected[why] = self._result.rejected.get(why, 0) + 1
            self._rejected.add(record.id)
            updated.append(record.model_copy(update={"error": why, "tries": record.tries + 1}))
        if updated:
            self._store.put(updated)
