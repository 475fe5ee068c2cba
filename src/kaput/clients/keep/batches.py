"""Sends one batch of a replay to Kafka: in a transaction with its mark, or without one (replaying.py).

Not here: the store.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
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

from kaput.clients.keep.record import Record
from kaput.clients.keep.settings import MESSAGE_ERRORS
from kaput.errors import UsageError

_TICK_S = 0.1
_CONNECT_S = 10.0
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
        try:
            self._producer = Producer({**_DEFAULTS, **common, **own})
            self._admin = AdminClient(common)
            # Only for the group metadata: it never joins.
            self._consumer = Consumer({**common, "group.id": group, "enable.auto.commit": False})
        except KafkaException as error:
            raise UsageError(f"settings of the client: {error.args[0].str()}") from None

    def begin(self) -> None:
        """Fences earlier replays and ends their transactions: none of them can commit any more."""
        self._producer.list_topics(timeout=_CONNECT_S)  # init_transactions would wait for longer
        if self._exactly_once:
            self._producer.init_transactions(_ANSWER_S)

    def committed_batches(self) -> set[str]:
        """The names of committed batches: the last one of each topic, from the group's marks."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)], require_stable=True, request_timeout=_ANSWER_S
        )
        found = asked[self._group].result().topic_partitions
        return {place.metadata for place in found if place.metadata}

    def send(self, records: list[Record], name: str) -> list[Record]:
        """Sends the batch; returns the records that Kafka has now (all or none for a transaction)."""
        return self._commit(records, name) if self._exactly_once else self._acknowledge(records)

    def rejected(self) -> set[str]:
        """The messages of the last batch that Kafka rejected, perhaps only because of another one."""
        return {one for one, error in self.errors.items() if error.code() in _REJECTION_ERRORS}

    def certainly_rejected(self) -> set[str]:
        """The messages that Kafka certainly rejected themselves."""
        return {one for one in self.rejected() if self.errors[one].code() not in _BATCH_ERRORS}

    def close(self) -> None:
        """Closes the clients."""
        self._consumer.close()
        self._producer.purge()

    def _acknowledge(self, records: list[Record]) -> list[Record]:
        """Sends records without a transaction; returns the acknowledged ones."""
        self._produce(records)
        return [record for record in records if record.id not in self.errors]

    def _commit(self, records: list[Record], name: str) -> list[Record]:
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
        try:
            self._producer.abort_transaction(_ANSWER_S)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise

    def _produce(self, records: list[Record]) -> None:
        """Sends records and waits for reports. Raises KafkaException for errors of the cluster."""
        self.errors = {}
        for record in records:
            self._produce_one(record)
        # If one is rejected, the others of its transaction fail too, some without a report until the abort.
        while self._producer.flush(_TICK_S) and not (self._exactly_once and self.rejected()):
            pass
        if self._exactly_once and self.rejected():
            return
        for error in self.errors.values():
            if error.code() not in _REJECTION_ERRORS and not (
                self._exactly_once and error.code() in _ABORT_ERRORS
            ):
                raise KafkaException(error)

    def _produce_one(self, record: Record) -> None:
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
