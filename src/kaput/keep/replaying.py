"""Sends what a store keeps, each message exactly once, wherever the replay is killed.

A batch is one transaction, which also commits a mark: the batch's name, as the metadata of an offset of the
store's own group. Before it, the store notes which ids the batch has; after it, the store removes them. The
next replay first fences and ends the transactions of earlier ones (the transactional.id is the store's), then
asks Kafka for the marks: a noted batch with a mark was committed, and is removed; of others nothing is
visible. Kafka keeps marks as long as offsets (offsets.retention.minutes).

Without transactions there are no marks: what a killed replay had noted is sent again, and counted
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

from kaput.errors import LabError, UsageError
from kaput.keep.record import Record, now_ms
from kaput.keep.store import PAGE, Store

GROUP = "kaput-keep"
_BATCH = "batch:"
_IDENTITY = "identity"
_TICK_S = 0.1
_TRIES = 5  # of a transaction that fails without a message to blame
_CONNECT_S = 10.0
_ANSWER_S = 60.0
_BATCH_BYTES = 8 << 20
_DEFAULTS = {
    "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 5_000,  # for topics that are gone
}  # fmt: skip
# Of the message, not of the cluster: others can be sent without it.
_REJECTED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION, KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.INVALID_TIMESTAMP,
        KafkaError.RECORD_LIST_TOO_LARGE, KafkaError._INVALID_ARG,
    }
)  # fmt: skip


# Brokers reject all that the client sent with the message that is to blame.
_OF_THE_BATCH = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)  # fmt: skip


# What befalls the other messages of a transaction that has to be aborted.
_COLLATERAL = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._STATE})


@dataclass
class Replayed:
    """What a replay did."""

    delivered: int = 0  # acknowledged, and removed from the store
    found: int = 0  # of an earlier replay that was killed: were committed already, and only removed
    maybe_twice: int = 0  # of those delivered, in doubt: Kafka may have had them before
    in_flight: int = 0  # left: spooled, and their producer may still be sending them
    rejected: dict[str, int] = field(default_factory=dict)  # left: Kafka does not accept them, by error
    left: int = 0  # in the store at the end, of the topics that were asked for


def replay(
    store: Store,
    config: Mapping[str, Any],
    *,
    topic: str | None = None,
    rate: float | None = None,
    exactly_once: bool = True,
    include_in_flight: bool = False,
    batch: int = PAGE,
    tell: Callable[[Replayed], None] = lambda _: None,
) -> Replayed:
    """Sends kept messages in their order, until none is left that can be sent; `tell` is called after each
    batch. `rate`: messages per second. Raises LabError, UsageError; it can be called again to continue.
    """
    work = _Replay(store, config, exactly_once)
    try:
        return work.run(topic, rate, include_in_flight, batch, tell)
    except KafkaException as error:
        raise LabError(f"{store.name}: Kafka: {error.args[0].str()}; replay it again to continue") from None
    finally:
        work.close()


class _Replay:
    def __init__(self, store: Store, config: Mapping[str, Any], exactly_once: bool) -> None:
        self._store, self._exactly_once = store, exactly_once
        self._group = f"{GROUP}-{store.note(_IDENTITY, secrets.token_hex(8))}"
        common = {name: value for name, value in config.items() if name != "transactional.id"}
        own = {"transactional.id": self._group} if exactly_once else {}
        try:
            self._producer = Producer({**_DEFAULTS, **common, **own})
            self._admin = AdminClient(common)
            # Only for the group's name: it never joins.
            self._consumer = Consumer({**common, "group.id": self._group, "enable.auto.commit": False})
        except KafkaException as error:
            raise UsageError(f"settings of the client: {error.args[0].str()}") from None
        self._errors: dict[str, KafkaError] = {}
        self._doubts: dict[str, set[str]] = {}  # batches of which Kafka may have some
        self._rejected: set[str] = set()
        self._done = Replayed()

    def run(
        self,
        topic: str | None,
        rate: float | None,
        include_in_flight: bool,
        batch: int,
        tell: Callable[[Replayed], None],
    ) -> Replayed:
        """See replay."""
        if not self._store.counts() and not any(name.startswith(_BATCH) for name in self._store.notes()):
            return self._done
        self._recover()
        began, before = time.monotonic(), -1
        size = batch if rate is None else min(batch, max(1, int(rate / 10)))  # ten steps a second
        # Once more from the start: meanwhile a producer may have kept messages that are older.
        while self._done.delivered > before:
            before, self._done.in_flight = self._done.delivered, 0
            for records in self._batches(topic, include_in_flight, size):
                if rate is not None:
                    time.sleep(max(0.0, began + self._done.delivered / rate - time.monotonic()))
                self._send(records)
                tell(self._done)
        counts = self._store.counts()
        self._done.left = sum(counts.values()) if topic is None else counts.get(topic, 0)
        if not counts:
            for name in self._doubts:
                self._store.remove([], name)
        return self._done

    def close(self) -> None:
        """Ends the clients."""
        self._consumer.close()
        self._producer.purge()

    def _recover(self) -> None:
        """Ends what earlier replays left: from here on none of them can commit."""
        self._producer.list_topics(timeout=_CONNECT_S)  # init_transactions would wait for longer
        if self._exactly_once:
            self._producer.init_transactions(_ANSWER_S)
        noted = {name: text for name, text in self._store.notes().items() if name.startswith(_BATCH)}
        marks = self._marks() if noted else set()
        for name, text in noted.items():
            note = json.loads(text)
            if name in marks:
                self._store.remove(note["ids"], name)
                self._done.found += len(note["ids"])
            elif self._exactly_once and note["transaction"]:
                self._store.remove([], name)
            else:
                self._doubts[name] = set(note["ids"])

    def _marks(self) -> set[str]:
        """The last batch that was committed, of each partition that has a mark."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)], require_stable=True, request_timeout=_ANSWER_S
        )
        found = asked[self._group].result().topic_partitions
        return {place.metadata for place in found if place.metadata}

    def _batches(self, topic: str | None, include_in_flight: bool, size: int) -> Iterator[list[Record]]:
        after = ""
        while page := self._store.read(after, size, topic):
            after = page[-1].id
            now = now_ms()
            ready = [one for one in page if include_in_flight or one.sending_until_ms <= now]
            self._done.in_flight += len(page) - len(ready)
            ready = [one for one in ready if one.id not in self._rejected]
            while ready:
                end, size_bytes = 0, 0
                while end < len(ready) and (not end or size_bytes < _BATCH_BYTES):
                    size_bytes += len(ready[end].value or b"")
                    end += 1
                yield ready[:end]
                ready = ready[end:]

    def _send(self, records: list[Record]) -> None:
        """One batch, and again without those that Kafka rejects; halved where it does not say which."""
        tries = 0
        while records:
            name = _BATCH + secrets.token_hex(8)
            ids = [record.id for record in records]
            self._store.note(name, json.dumps({"ids": ids, "transaction": self._exactly_once}))
            sent = self._commit(records, name) if self._exactly_once else self._acknowledge(records)
            self._store.remove([record.id for record in sent], name)
            self._count(sent)
            alone = len(records) == 1
            errors = {one: error for one, error in self._errors.items() if error.code() in _REJECTED}
            clear = {one for one, error in errors.items() if alone or error.code() not in _OF_THE_BATCH}
            self._reject([record for record in records if record.id in clear])
            settled = clear.union(record.id for record in sent)
            records = [record for record in records if record.id not in settled]
            tries = 0 if errors else tries + 1
            if records and tries == _TRIES:
                raise KafkaException(next(iter(self._errors.values())))
            if len(clear) < len(errors) and len(records) > 1:
                self._send(records[: len(records) // 2])
                records = records[len(records) // 2 :]

    def _count(self, sent: list[Record]) -> None:
        doubted = set().union(*self._doubts.values())
        self._done.delivered += len(sent)
        self._done.maybe_twice += sum(
            one.in_doubt or one.sending_until_ms > 0 or one.id in doubted for one in sent
        )

    def _acknowledge(self, records: list[Record]) -> list[Record]:
        """The records that were acknowledged; they go even if others fail."""
        try:
            self._produce(records)
        except KafkaException:
            self._store.remove([record.id for record in records if record.id not in self._errors])
            raise
        return [record for record in records if record.id not in self._errors]

    def _commit(self, records: list[Record], name: str) -> list[Record]:
        """The records, if their transaction is committed; none if one of them was rejected."""
        self._producer.begin_transaction()
        try:
            self._produce(records)
            if not self._errors:
                mark = TopicPartition(records[0].topic, 0, 0, metadata=name)
                self._producer.send_offsets_to_transaction(
                    [mark], self._consumer.consumer_group_metadata(), _ANSWER_S
                )
                self._insist_on_commit()
                return records
        except BaseException:
            self._abort()
            raise
        self._abort()
        return []

    def _insist_on_commit(self) -> None:
        """A call that timed out is repeated, which is safe: it asks what became of the same commit."""
        limit = time.monotonic() + _ANSWER_S
        while True:
            try:
                self._producer.commit_transaction(_ANSWER_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > limit:
                    raise

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(_ANSWER_S)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise

    def _produce(self, records: list[Record]) -> None:
        """Sends them and waits for reports. Raises KafkaException if the cluster is to blame."""
        self._errors = {}
        for record in records:
            self._produce_one(record)
        # In a transaction the others fail with a rejected one: at once, or without a report until the abort.
        while self._producer.flush(_TICK_S) and not (self._exactly_once and self._has_rejected()):
            pass
        if self._exactly_once and self._has_rejected():
            return
        for error in self._errors.values():
            if error.code() not in _REJECTED and not (self._exactly_once and error.code() in _COLLATERAL):
                raise KafkaException(error)

    def _has_rejected(self) -> bool:
        return any(error.code() in _REJECTED for error in self._errors.values())

    def _produce_one(self, record: Record) -> None:
        errors = self._errors  # of this try: reports of what an abort purged may come during the next one

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
                self._errors[record.id] = error.args[0]
                return

    def _reject(self, records: list[Record]) -> None:
        """They stay in the store, with why."""
        updated = []
        for record in records:
            why = self._errors[record.id].str()
            self._done.rejected[why] = self._done.rejected.get(why, 0) + 1
            self._rejected.add(record.id)
            updated.append(record.model_copy(update={"error": why, "tries": record.tries + 1}))
        if updated:
            self._store.put(updated)
