"""Handles messages after `produce`: delivery reports, the resend queue, the store, and counts that add up.

Not here: new messages, and the policy when there is no room (producer.py).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from kaput.clients.keep.ordering import Item, Ordering
from kaput.clients.keep.store import (
    PAGE,
    KeptMessage,
    StoreChain,
    StoreError,
    header_pairs,
    now_ms,
    session_id,
)
from kaput.errors import AccountingError


def is_fatal(error: KafkaError) -> bool:
    """Whether the client ends at it. Of a message, only the code says so."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def run_callbacks(wait: Callable[[float], int], timeout_s: float) -> int:
    """Calls a client's `poll` or `flush`. A fatal error, which the client raises there once, is also that of
    each message from then on: they are kept.
    """
    try:
        return wait(timeout_s)
    except KafkaException as error:
        if not is_fatal(error.args[0]):
            raise
        return 0


@dataclass(slots=True)
class ProducerCounts:
    """One producer's messages. Each counts in one of acked, failed, unknown, kept, refused, queued."""

    sent: int = 0  # calls of `produce`
    acked: int = 0
    failed: int = 0  # neither sent nor kept: all stores failed until the producer was closed
    unknown: int = 0  # the same, but Kafka may have it
    kept: int = 0  # in a store
    refused: int = 0  # `produce` raised: the caller still has it
    queued: int = 0  # none of these yet
    # Some of these also count as:
    sent_again: int = 0  # by the queue, after a delivery report with an error
    in_doubt: int = 0  # sent again or kept although Kafka may have it
    overtaken: int = (
        0  # acknowledged while an earlier message of the same key was kept or waiting: order lost
    )
    kept_by: dict[str, int] = field(default_factory=dict)  # by store

    def check(self) -> ProducerCounts:
        """Returns itself. Raises AccountingError if the counts do not add up."""
        parts = self.acked + self.failed + self.unknown + self.kept + self.refused + self.queued
        if parts != self.sent or sum(self.kept_by.values()) != self.kept or self.queued < 0:
            raise AccountingError(f"the counts of kaput.keep.Producer do not add up: {asdict(self)}")
        return self


OnDelivery = Callable[[Any, Any], None]
OnFailure = Callable[[KeptMessage, str | None], None]
_STORE_RETRY_S = 0.5
# A sequence number is shared by several plain messages; its low bits are set in the order of their failures.
SEQ_SHIFT = 20
_ORDER_MASK = (1 << SEQ_SHIFT) - 1
HELD_BACK = "an earlier message of its key is kept"
# Errors of the message, not of the cluster: it would fail again, and others can be sent without it.
MESSAGE_ERRORS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION, KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)  # fmt: skip
# Errors for which sending again is useless.
_PERMANENT_ERRORS = MESSAGE_ERRORS | {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL}


class Deliveries:
    """All messages of a producer: each is in flight (in the client or a call), in a queue, or counted."""

    def __init__(
        self,
        client: Any,
        stores: StoreChain,
        ordered: bool,
        resends: int,
        queue: int,
        on_failure: OnFailure | None = None,
    ) -> None:
        self.client, self.stores = client, stores
        self.order = Ordering(stores, ordered)
        self.lock = threading.RLock()
        self.counts = ProducerCounts()
        self.in_flight = 0
        self.to_keep: deque[Item] = deque()
        self.store_error: StoreError | None = None  # why the last write to a store failed
        self._to_resend: deque[Item] = deque()
        self._acked: list[str] = []  # ids of spooled records to remove
        self._resends_max, self._queue_max, self._on_failure = resends, queue, on_failure
        self._session = session_id()
        self._settling = threading.Lock()
        self._retry_store_at = 0.0
        self._ending = False
        self._failure_count = 0

    def id_of(self, seq: int) -> str:
        return f"{self._session}-{seq:016x}"

    def queued(self) -> int:
        """The number of messages without an outcome."""
        with self.lock:
            return self.in_flight + len(self._to_resend) + len(self.to_keep) + self.order.waiting

    def checked_counts(self) -> ProducerCounts:
        """A copy of the current counts. Raises AccountingError if they do not add up."""
        with self.lock:
            return replace(self.counts, queued=self.queued(), kept_by=dict(self.counts.kept_by)).check()

    def send(self, item: Item) -> None:
        """Passes a message to the client. Raises BufferError, KafkaException."""
        record = item.record
        self.client.produce(
            record.topic, record.value, record.key, -1 if record.partition is None else record.partition,
            partial(self._item_reported, item), timestamp=record.timestamp_ms,
            headers=list(record.headers) or None,
        )  # fmt: skip

    def callback_for(self, seq: int, headers: Any, report: OnDelivery | None) -> OnDelivery:
        """The delivery report for plain messages: the only code that runs for each of them."""
        lock, counts, order = self.lock, self.counts, self.order

        def reported(error: Any, message: Any) -> None:
            if error is not None:
                self._plain_message_failed(seq, headers, report, error, message)
                return
            with lock:
                self.in_flight -= 1
                counts.acked += 1
                if order.unsettled or order.kept:
                    counts.overtaken += order.acked((message.topic(), message.key()), seq | _ORDER_MASK)
            if report is not None:
                report(None, message)

        return reported

    def _plain_message_failed(
        self, seq: int, headers: Any, report: OnDelivery | None, error: Any, message: Any
    ) -> None:
        with self.lock:
            self._failure_count += 1
            seq |= self._failure_count & _ORDER_MASK
        record = KeptMessage(
            id=self.id_of(seq), topic=message.topic(), key=message.key(), value=message.value(),
            headers=header_pairs(headers), timestamp_ms=max(0, message.timestamp()[1]), kept_ms=now_ms(),
        )  # fmt: skip
        self._report_failed(Item(seq, record, report), error, message)

    def on_failed(self, item: Item) -> None:
        """Queues a message that failed: to be sent again, or to be kept."""
        final = self._ending or item.code == 0 or item.code in _PERMANENT_ERRORS
        with self.lock:
            self.in_flight -= 1
            self.order.failed(item)
            if final or item.record.tries > self._resends_max or len(self._to_resend) >= self._queue_max:
                self.to_keep.append(item)
            else:
                self._to_resend.append(item)

    def hold_back(self, item: Item) -> bool:
        """Whether the message must wait for an earlier one of its key; then it is queued or kept."""
        with self.lock:
            place = self.order.place(item)
            self.in_flight -= place != "send"
            if place == "keep":
                self.to_keep.append(item.failed(HELD_BACK))
        return place != "send"

    def count_refused(self, item: Item | None) -> None:
        """Counts a message that the caller still has. `item`: given if others may be waiting for it."""
        with self.lock:
            self.in_flight -= 1
            self.counts.refused += 1
            if item is not None:
                self._settle_item(item)

    def settle(self) -> None:
        """Does the work that reports have queued: sends again, keeps, removes. One thread at a time."""
        if not self._settling.acquire(blocking=False):
            return
        try:
            if time.monotonic() >= self._retry_store_at:
                self._update_stores()
            self._send_again()
            with self.lock:
                if not self.to_keep:
                    self.order.release()
        finally:
            self._settling.release()

    def stop_sending(self, purge_s: float) -> None:
        """Stops sending: keeps what the client has and what waits."""
        self._ending = True
        self.client.purge()
        for _ in range(2):  # a fatal error ends the first one before the reports of what was purged
            run_callbacks(self.client.flush, purge_s)
        with self.lock:
            waiting = (*self._to_resend, *self.order.pop_waiting())
            self._to_resend.clear()
            self.to_keep.extend(
                item.failed(item.record.error or "the producer was closed") for item in waiting
            )
        self.settle()

    def give_up(self) -> None:
        """Counts messages that no store accepted, or that never got a report, as failed or unknown."""
        while self.to_keep:
            with self.lock:
                item = self.to_keep.popleft()
                self.counts.unknown += item.record.in_doubt
                self.counts.failed += not item.record.in_doubt
            self._report_failure(item, None)
        with self.lock:
            self.counts.unknown += self.in_flight
            self.in_flight = 0
        self.stores.remove_uncertain(at_once=True)

    def _item_reported(self, item: Item, error: Any, message: Any) -> None:
        if error is not None:
            self._report_failed(item, error, message)
            return
        with self.lock:
            self.in_flight -= 1
            self.counts.acked += 1
            self.counts.overtaken += self.order.acked(item.order_key, item.seq)
            self._settle_item(item)
        if item.on_delivery is not None:
            item.on_delivery(None, message)

    def _settle_item(self, item: Item) -> None:
        """After an acknowledgement or refusal: unspools the message, and queues the next one of its key."""
        if item.record.id in self.stores.spooled:
            self._acked.append(item.record.id)
        following = self.order.pop_next(item.order_key) if self.order.strict else None
        if following is not None:
            self._to_resend.append(following)

    def _report_failed(self, item: Item, error: Any, message: Any) -> None:
        # confluent-kafka does not tell whether a message was sent; without a partition it was not.
        partition = message.partition()
        update: dict[str, Any] = {}
        if partition is not None and partition >= 0:
            update = {"partition": partition, "in_doubt": True}
            with self.lock:
                self.counts.in_doubt += not item.record.in_doubt
        record = item.record.model_copy(update=update)
        self.on_failed(item._replace(record=record).failed(error.str(), error.code()))

    def _update_stores(self) -> None:
        try:
            self._remove_acked()
            self._keep()
            self.store_error = None
            self.stores.remove_uncertain()
        except StoreError as error:
            self.store_error = error
            self._retry_store_at = time.monotonic() + _STORE_RETRY_S

    def _remove_acked(self) -> None:
        with self.lock:
            ids, self._acked = self._acked, []
        try:
            self.stores.remove_spooled(ids)
        except StoreError:
            with self.lock:
                self._acked += [one for one in ids if one in self.stores.spooled]
            raise

    def _keep(self) -> None:
        while self.to_keep:
            with self.lock:
                items = [self.to_keep[n] for n in range(min(PAGE, len(self.to_keep)))]
            fresh = [item.record for item in items if item.record.id not in self.stores.spooled]
            name = self.stores.put(fresh) if fresh else ""
            for item in items:
                spooled = item.record.id in self.stores.spooled
                self._count_kept(item, self.stores.keep_spooled(item.record) if spooled else name)

    def _count_kept(self, item: Item, store: str) -> None:
        with self.lock:
            self.to_keep.popleft()
            self.counts.kept += 1
            self.counts.kept_by[store] = self.counts.kept_by.get(store, 0) + 1
            self.to_keep.extend(behind.failed(HELD_BACK) for behind in self.order.mark_kept(item))
        self._report_failure(item, store)

    def _report_failure(self, item: Item, store: str | None) -> None:
        """Reports a message that Kafka did not accept to the caller."""
        if self._on_failure is not None:
            self._on_failure(item.record, store)
        else:
            _call_on_delivery(item)

    def _send_again(self) -> None:
        while True:
            with self.lock:
                if not self._to_resend:
                    return
                item = self._to_resend.popleft()
                self.in_flight += 1
            try:
                self.send(item)
            except BufferError:
                with self.lock:
                    self._to_resend.appendleft(item)
                    self.in_flight -= 1
                return
            except KafkaException as error:
                self.on_failed(item.failed(error.args[0].str(), KafkaError._FATAL))
            else:
                with self.lock:
                    self.counts.sent_again += item.record.tries > 0


def _call_on_delivery(item: Item) -> None:
    """Calls the message's delivery report with an error, whether it is kept or not."""
    if item.on_delivery is not None:
        record = item.record
        why = record.error and record.error.removeprefix(f"{KafkaError(item.code).name()}: ")
        error = KafkaError(item.code or KafkaError._STATE, why)
        message = Message(
            topic=record.topic, partition=-1 if record.partition is None else record.partition,
            key=record.key, value=record.value, headers=list(record.headers), error=error,
            timestamp=(1, record.timestamp_ms),
        )  # fmt: skip
        item.on_delivery(error, message)
