"""What becomes of messages that the client has: reports, the queue to send again, the store, the counts.

Not here: new messages, and what to do with them when there is no room (producer.py).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from kaput.keep.counts import Counts
from kaput.keep.ordering import Item, Ordering
from kaput.keep.record import Record, header_pairs, now_ms, session_id
from kaput.keep.settings import OF_THE_MESSAGE
from kaput.keep.spilling import Spill
from kaput.keep.store import PAGE, StoreError

OnDelivery = Callable[[Any, Any], None]
OnFailure = Callable[[Record, str | None], None]
_STORE_AGAIN_S = 0.5
# Messages sent at once share a number with some that follow; the last bits are their order of failure.
PLACES = 20
_LAST = (1 << PLACES) - 1
HELD_BACK = "an earlier message of its key is kept"
# Sending these again would only fail again.
_FINAL = OF_THE_MESSAGE | {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL}


class Deliveries:
    """Each message is in hand (of the client, or of a call), in a queue, or counted."""

    def __init__(
        self,
        client: Any,
        stores: Spill,
        ordered: bool,
        resends: int,
        queue: int,
        on_failure: OnFailure | None = None,
    ) -> None:
        self.client, self.stores = client, stores
        self.order = Ordering(stores, ordered)
        self.lock = threading.RLock()
        self.counts = Counts()
        self.in_hand = 0
        self.to_keep: deque[Item] = deque()
        self.trouble: StoreError | None = None  # why the last write to a store failed
        self._again: deque[Item] = deque()  # to be sent
        self._acked: list[str] = []  # spooled, to be removed
        self._resends, self._queue, self._on_failure = resends, queue, on_failure
        self._session = session_id()
        self._settling = threading.Lock()
        self._store_again_at = 0.0
        self._ending = False
        self._failures = 0

    def id_of(self, seq: int) -> str:
        """The identity of a message."""
        return f"{self._session}-{seq:016x}"

    def queued(self) -> int:
        """Messages that are not counted yet."""
        with self.lock:
            return self.in_hand + len(self._again) + len(self.to_keep) + self.order.waiting

    def checked_counts(self) -> Counts:
        """The counts as of now. Raises AccountingError."""
        with self.lock:
            return replace(self.counts, queued=self.queued(), kept_by=dict(self.counts.kept_by)).check()

    def send(self, item: Item) -> None:
        """Raises BufferError, KafkaException."""
        record = item.record
        self.client.produce(
            record.topic, record.value, record.key, -1 if record.partition is None else record.partition,
            partial(self._item_reported, item), timestamp=record.timestamp_ms,
            headers=list(record.headers) or None,
        )  # fmt: skip

    def listener(self, seq: int, headers: Any, report: OnDelivery | None) -> OnDelivery:
        """The delivery report of messages that were sent at once: the only code that each of them runs."""
        lock, counts, order = self.lock, self.counts, self.order

        def reported(error: Any, message: Any) -> None:
            if error is not None:
                self._failed(seq, headers, report, error, message)
                return
            with lock:
                self.in_hand -= 1
                counts.acked += 1
                if order.late or order.kept:
                    counts.overtaken += order.acked((message.topic(), message.key()), seq | _LAST)
            if report is not None:
                report(None, message)

        return reported

    def _failed(self, seq: int, headers: Any, report: OnDelivery | None, error: Any, message: Any) -> None:
        with self.lock:
            self._failures += 1
            seq |= self._failures & _LAST
        record = Record(
            id=self.id_of(seq), topic=message.topic(), key=message.key(), value=message.value(),
            headers=header_pairs(headers), timestamp_ms=max(0, message.timestamp()[1]), kept_ms=now_ms(),
        )  # fmt: skip
        self._report_failed(Item(seq, record, report), error, message)

    def late(self, item: Item) -> None:
        """What was in hand has failed: it is to be sent again, or kept."""
        final = self._ending or item.code == 0 or item.code in _FINAL
        with self.lock:
            self.in_hand -= 1
            self.order.failed(item)
            if final or item.record.tries > self._resends or len(self._again) >= self._queue:
                self.to_keep.append(item)
            else:
                self._again.append(item)

    def hold_back(self, item: Item) -> bool:
        """Whether it has to wait for an earlier message of its key, or to be kept after it."""
        with self.lock:
            place = self.order.admit(item)
            self.in_hand -= place != "send"
            if place == "keep":
                self.to_keep.append(item.failed(HELD_BACK))
        return place != "send"

    def refused(self, item: Item | None) -> None:
        """Counts a message that remains the caller's; `item` if another one may wait for it."""
        with self.lock:
            self.in_hand -= 1
            self.counts.refused += 1
            if item is not None:
                self._go_on(item)

    def settle(self) -> None:
        """Sends again, keeps, and removes what reports have left to do; one thread at a time."""
        if not self._settling.acquire(blocking=False):
            return
        try:
            if time.monotonic() >= self._store_again_at:
                self._write()
            self._send_again()
            with self.lock:
                if not self.to_keep:
                    self.order.release()
        finally:
            self._settling.release()

    def end(self, purge_s: float) -> None:
        """Nothing is sent any more: what the client has, and what waits, is to be kept."""
        self._ending = True
        self.client.purge()
        self.client.flush(purge_s)
        with self.lock:
            waiting = (*self._again, *self.order.take_waiting())
            self._again.clear()
            self.to_keep.extend(
                item.failed(item.record.error or "the producer was closed") for item in waiting
            )
        self.settle()

    def give_up(self) -> None:
        """Counts what no store took, and what even the client has no report of."""
        while self.to_keep:
            with self.lock:
                item = self.to_keep.popleft()
                self.counts.unknown += item.record.in_doubt
                self.counts.failed += not item.record.in_doubt
            self._not_taken(item, None)
        with self.lock:
            self.counts.unknown += self.in_hand
            self.in_hand = 0
        self.stores.remove_doubtful(at_once=True)

    def _item_reported(self, item: Item, error: Any, message: Any) -> None:
        if error is not None:
            self._report_failed(item, error, message)
            return
        with self.lock:
            self.in_hand -= 1
            self.counts.acked += 1
            self.counts.overtaken += self.order.acked(item.of, item.seq)
            self._go_on(item)
        if item.on_delivery is not None:
            item.on_delivery(None, message)

    def _go_on(self, item: Item) -> None:
        """It is acknowledged or refused: no longer spooled, and the next of its key may go."""
        if item.record.id in self.stores.spooled:
            self._acked.append(item.record.id)
        following = self.order.next(item.of) if self.order.strict else None
        if following is not None:
            self._again.append(following)

    def _report_failed(self, item: Item, error: Any, message: Any) -> None:
        # confluent-kafka does not expose whether it was ever sent; without a partition it was not.
        partition = message.partition()
        update: dict[str, Any] = {}
        if partition is not None and partition >= 0:
            update = {"partition": partition, "in_doubt": True}
            with self.lock:
                self.counts.in_doubt += not item.record.in_doubt
        record = item.record.model_copy(update=update)
        self.late(item._replace(record=record).failed(error.str(), error.code()))

    def _write(self) -> None:
        try:
            self._remove_acked()
            self._keep()
            self.trouble = None
            self.stores.remove_doubtful()
        except StoreError as error:
            self.trouble = error
            self._store_again_at = time.monotonic() + _STORE_AGAIN_S

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
                self._kept(item, self.stores.keep_spooled(item.record) if spooled else name)

    def _kept(self, item: Item, store: str) -> None:
        with self.lock:
            self.to_keep.popleft()
            self.counts.kept += 1
            self.counts.kept_by[store] = self.counts.kept_by.get(store, 0) + 1
            self.to_keep.extend(behind.failed(HELD_BACK) for behind in self.order.is_kept(item))
        self._not_taken(item, store)

    def _not_taken(self, item: Item, store: str | None) -> None:
        """Reports what Kafka did not take."""
        if self._on_failure is not None:
            self._on_failure(item.record, store)
        else:
            _report(item)

    def _send_again(self) -> None:
        while True:
            with self.lock:
                if not self._again:
                    return
                item = self._again.popleft()
                self.in_hand += 1
            try:
                self.send(item)
            except BufferError:
                with self.lock:
                    self._again.appendleft(item)
                    self.in_hand -= 1
                return
            except KafkaException as error:
                self.late(item.failed(error.args[0].str(), KafkaError._FATAL))
            else:
                with self.lock:
                    self.counts.sent_again += item.record.tries > 0


def _report(item: Item) -> None:
    """Its delivery report: an error, whether it is kept or not."""
    if item.on_delivery is not None:
        record = item.record
        error = KafkaError(item.code or KafkaError._STATE, record.error)
        message = Message(
            topic=record.topic, partition=-1 if record.partition is None else record.partition,
            key=record.key, value=record.value, headers=list(record.headers), error=error,
            timestamp=(1, record.timestamp_ms),
        )  # fmt: skip
        item.on_delivery(error, message)
