"""A producer that loses no message silently: confluent-kafka's `produce`, `poll` and `flush`, and a store.

The way of a message: the client sends it, with its own retries; if the delivery report is a failure, a
bounded queue sends it again; if that fails too, or the queue is full, a store keeps it. The delivery report
alone counts: what is queued is not delivered. All of it happens in the caller's own calls, as with
confluent-kafka: call `poll` regularly, and `close` at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from confluent_kafka import KafkaException
from confluent_kafka import Producer as Client

from kaput.keep.counts import Counts
from kaput.keep.deliveries import PLACES, Deliveries, OnDelivery, OnFailure
from kaput.keep.ordering import Item
from kaput.keep.record import Record, as_bytes, header_pairs, now_ms
from kaput.keep.settings import checked
from kaput.keep.spilling import Spill
from kaput.keep.store import Refused, Store, StoreError

_TICK_S = 0.05
_PURGE_S = 10.0
_MARGIN_MS = 5_000
_SHARE = 64  # messages with one listener


class Producer:
    """`store`: one, or with `policy="spill"` several, in the order in which they are tried.

    `policy`: what `produce` does when the client's queue is full, or too much waits for a store that fails.
    block: it waits, at most `block_s`; spill: the next store takes the message; refuse: it raises Refused at
    once. `resends`: how often the queue sends a message again; `queue`: how many may wait.
    `spool_first`: a message is in the store before it is sent, and goes when it is acknowledged.
    `ordered`: messages of a key are sent one after the other, and kept while an earlier one is.
    `on_failure(record, store)` is called in place of `on_delivery` for a message that Kafka did not take:
    `store` is the name of the one that keeps it; None: no store took it.
    The store stays open: it is the caller's.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        store: Store | Sequence[Store],
        policy: Literal["block", "spill", "refuse"] = "block",
        block_s: float = 60.0,
        ordered: bool = False,
        spool_first: bool = False,
        resends: int = 1,
        queue: int = 10_000,
        client: Callable[[dict[str, Any]], Any] = Client,
        on_failure: OnFailure | None = None,
    ) -> None:
        stores = Spill(list(store) if isinstance(store, Sequence) else [store])
        settings = checked(config, policy, len(stores.stores))
        self._default: OnDelivery | None = settings.pop("on_delivery", None)
        self._client = client(settings)
        self._all = Deliveries(self._client, stores, ordered, resends, queue, on_failure)
        self._policy, self._queue = policy, queue
        self._block_s = block_s if policy == "block" else 0.0
        self._spool_ms = (resends + 1) * settings["message.timeout.ms"] + _MARGIN_MS if spool_first else None
        self._is_plain = not (spool_first or ordered)
        self._closed = False
        # What each message needs, at hand.
        self._send, self._lock, self._counts = self._client.produce, self._all.lock, self._all.counts
        # The delivery report of the next messages, if nothing distinguishes them.
        self._listener = self._all.listener(0, None, None)
        self._listener_report: OnDelivery | None = None
        self._listener_ends = 0

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Any = None,
        *,
        callback: OnDelivery | None = None,
    ) -> None:
        """As confluent-kafka's. `on_delivery` is called once: without an error only if it is acknowledged.

        Raises Refused (a BufferError) where the policy says so, KafkaException where the client refuses it.
        """
        every, report = self._all, on_delivery or callback or self._default
        with self._lock:
            self._counts.sent = seq = self._counts.sent + 1
            every.in_hand += 1
            listener = self._listener
            if seq >= self._listener_ends or report is not self._listener_report or headers is not None:
                listener = self._new_listener(seq, headers, report)
        if self._is_plain and not every.to_keep:
            try:
                if timestamp or headers is not None:
                    self._send(topic, value, key, partition, listener, timestamp=timestamp, headers=headers)
                else:
                    self._send(topic, value, key, partition, listener)
                return
            except BufferError:
                pass
            except KafkaException as error:
                if not error.args[0].fatal():
                    every.refused(None)
                    raise
        self._listener_ends = 0  # what follows is later than this one
        record = Record(
            id=every.id_of(seq << PLACES), topic=topic, partition=partition if partition >= 0 else None,
            key=as_bytes(key), value=as_bytes(value), headers=header_pairs(headers),
            timestamp_ms=timestamp or now_ms(), kept_ms=now_ms(),
        )  # fmt: skip
        self._admit(Item(seq << PLACES, record, report))
        every.settle()

    def _new_listener(self, seq: int, headers: Any, report: OnDelivery | None) -> OnDelivery:
        """One for several messages: an object for each would keep Python's garbage collector busy."""
        self._listener = self._all.listener(seq << PLACES, headers, report)
        self._listener_report = report
        self._listener_ends = seq + _SHARE if headers is None else 0
        return self._listener

    def poll(self, timeout: float = -1) -> int:
        """Calls delivery reports, then sends again and keeps what has failed."""
        served = self._client.poll(timeout)
        self._all.settle()
        return int(served)

    def flush(self, timeout: float = -1) -> int:
        """Waits until each message is acknowledged or kept; returns how many are neither."""
        limit = None if timeout < 0 else time.monotonic() + timeout
        while True:
            left = _TICK_S if limit is None else min(_TICK_S, limit - time.monotonic())
            self._client.flush(max(0.0, left))
            self._all.settle()
            if not len(self) or (limit is not None and time.monotonic() >= limit):
                return len(self)
            if not len(self._client):
                time.sleep(_TICK_S)  # a store fails

    def __len__(self) -> int:
        """Messages that are neither acknowledged nor kept."""
        return self._all.queued()

    @property
    def counts(self) -> Counts:
        """What became of all messages until now. Raises AccountingError if it does not add up."""
        return self._all.checked_counts()

    def close(self, timeout: float = 30) -> Counts:
        """Waits for reports, keeps what has none by then, and reports what no store takes as failed."""
        if not self._closed:
            self.flush(timeout)
            self._closed, self._is_plain = True, False
            self._all.end(_PURGE_S)
            limit = time.monotonic() + min(timeout, self._block_s)
            while self._all.to_keep and time.monotonic() < limit:
                time.sleep(_TICK_S)
                self._all.settle()
            self._all.give_up()
        return self.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _admit(self, item: Item) -> None:
        """A message that is not simply sent. Raises Refused, KafkaException."""
        if self._closed:
            self._refuse(item, "the producer is closed")
        self._wait_for(self._has_room, item, "failed messages are waiting for a store")
        if self._spool_ms is not None:
            self._wait_for(lambda: self._spool(item), item, "the store is failing")
        if not self._all.hold_back(item):
            self._wait_for(lambda: self._offer(item), item, "the client's queue is full", admitted=True)

    def _wait_for(
        self, attempt: Callable[[], bool], item: Item, what: str, *, admitted: bool = False
    ) -> None:
        """Until the attempt succeeds, as long as the policy allows. Raises Refused."""
        limit = time.monotonic() + self._block_s
        while not attempt():
            if time.monotonic() >= limit:
                self._refuse(item, what, admitted=admitted)
            self.poll(_TICK_S)

    def _refuse(self, item: Item, what: str, *, admitted: bool = False) -> None:
        self._all.refused(item if admitted else None)
        waited = f" for {self._block_s:g} s" if self._block_s else ""
        trouble = f" ({self._all.trouble})" if self._all.trouble is not None else ""
        raise Refused(f"{item.record.topic}: not sent and not kept: {what}{waited}{trouble}")

    def _has_room(self) -> bool:
        if self._policy == "refuse" and self._all.trouble is not None:
            return not self._all.to_keep
        return len(self._all.to_keep) + self._all.order.waiting < self._queue

    def _spool(self, item: Item) -> bool:
        assert self._spool_ms is not None
        update = {"sending_until_ms": now_ms() + self._spool_ms}
        try:
            self._all.stores.spool(item.record.model_copy(update=update))
        except StoreError as error:
            self._all.trouble = error
            return False
        return True

    def _offer(self, item: Item) -> bool:
        """Whether the client, or with `spill` a store, has it now. Raises KafkaException."""
        try:
            self._all.send(item)
        except BufferError:
            if self._policy != "spill":
                return False
            self._all.late(item.failed("the client's queue is full"))
        except KafkaException as error:
            if not error.args[0].fatal():
                self._all.refused(item)
                raise
            self._all.late(item.failed(error.args[0].str(), error.args[0].code()))
        return True
