"""One batch of a replay, sent to Kafka: in a transaction with its mark, or as it is (replaying.py).

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

from kaput.errors import UsageError
from kaput.keep.record import Record
from kaput.keep.settings import OF_THE_MESSAGE

_TICK_S = 0.1
_CONNECT_S = 10.0
_ANSWER_S = 60.0
_DEFAULTS = {
    "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 5_000,  # for topics that are gone
}  # fmt: skip
_REJECTED = OF_THE_MESSAGE | {
    KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.INVALID_TIMESTAMP, KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError._INVALID_ARG,
}  # fmt: skip
# Brokers reject all that the client sent with the message that is to blame.
_OF_THE_BATCH = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)  # fmt: skip
# What befalls the other messages of a transaction that has to be aborted.
_COLLATERAL = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._STATE})


class Batches:
    """Sends batches. `group`: the store's, which is also its transactional.id.

    Methods raise KafkaException if the cluster is to blame; `errors` has those of single messages, by id.
    """

    def __init__(self, config: Mapping[str, Any], group: str, exactly_once: bool) -> None:
        self._group, self._exactly_once = group, exactly_once
        self.errors: dict[str, KafkaError] = {}
        common = {name: value for name, value in config.items() if name != "transactional.id"}
        own = {"transactional.id": group} if exactly_once else {}
        try:
            self._producer = Producer({**_DEFAULTS, **common, **own})
            self._admin = AdminClient(common)
            # Only for the group's name: it never joins.
            self._consumer = Consumer({**common, "group.id": group, "enable.auto.commit": False})
        except KafkaException as error:
            raise UsageError(f"settings of the client: {error.args[0].str()}") from None

    def begin(self) -> None:
        """Ends transactions of earlier replays: from here on none of them can commit."""
        self._producer.list_topics(timeout=_CONNECT_S)  # init_transactions would wait for longer
        if self._exactly_once:
            self._producer.init_transactions(_ANSWER_S)

    def marks(self) -> set[str]:
        """The last batch that was committed, of each topic that has a mark."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group)], require_stable=True, request_timeout=_ANSWER_S
        )
        found = asked[self._group].result().topic_partitions
        return {place.metadata for place in found if place.metadata}

    def send(self, records: list[Record], name: str) -> list[Record]:
        """Those that Kafka has now: of a transaction all or none."""
        return self._commit(records, name) if self._exactly_once else self._acknowledge(records)

    def rejected(self) -> set[str]:
        """The messages that Kafka does not accept, of the last batch; perhaps others with them."""
        return {one for one, error in self.errors.items() if error.code() in _REJECTED}

    def to_blame(self) -> set[str]:
        """Those of which it is certain."""
        return {one for one in self.rejected() if self.errors[one].code() not in _OF_THE_BATCH}

    def close(self) -> None:
        """Ends the clients."""
        self._consumer.close()
        self._producer.purge()

    def _acknowledge(self, records: list[Record]) -> list[Record]:
        """Those that were acknowledged."""
        self._produce(records)
        return [record for record in records if record.id not in self.errors]

    def _commit(self, records: list[Record], name: str) -> list[Record]:
        """The records, if their transaction is committed; none if one of them was rejected."""
        self._producer.begin_transaction()
        try:
            self._produce(records)
            if not self.errors:
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
        self.errors = {}
        for record in records:
            self._produce_one(record)
        # In a transaction the others fail with a rejected one: at once, or without a report until the abort.
        while self._producer.flush(_TICK_S) and not (self._exactly_once and self.rejected()):
            pass
        if self._exactly_once and self.rejected():
            return
        for error in self.errors.values():
            if error.code() not in _REJECTED and not (self._exactly_once and error.code() in _COLLATERAL):
                raise KafkaException(error)

    def _produce_one(self, record: Record) -> None:
        errors = self.errors  # of this try: reports of what an abort purged may come during the next one

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
