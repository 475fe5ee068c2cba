"""A producer that loses no message silently: the API of confluent-kafka's, and a store for failed messages.

The client sends a message, with its own retries; if the delivery report is an error, a bounded queue sends it
again; if that fails too, or the queue is full, a store keeps it. Only a delivery report counts as delivery.
As with confluent-kafka, all of this happens in the caller's own calls: call `poll` regularly, and `close` at
the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from confluent_kafka import KafkaException
from confluent_kafka import Producer as Client

from kaput.clients.keep.deliveries import (
    SEQ_SHIFT,
    Deliveries,
    OnDelivery,
    OnFailure,
    ProducerCounts,
    is_fatal,
    run_callbacks,
)
from kaput.clients.keep.ordering import Item
from kaput.clients.keep.store import (
    KeptMessage,
    MessageStore,
    Refused,
    StoreChain,
    StoreError,
    as_bytes,
    header_pairs,
    now_ms,
)
from kaput.errors import UsageError

# The client may retry for so long; then the queue and the store take over.
TIMEOUT_MS = 30_000
_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
_POLICIES = ("block", "spill", "refuse")


def client_settings(config: Mapping[str, Any], policy: str, stores: int) -> dict[str, Any]:
    """The client's settings, with kaput.keep's defaults. Raises UsageError."""
    if policy not in _POLICIES:
        raise UsageError(f"policy {policy!r}: write one of {', '.join(_POLICIES)}")
    if stores < 1 or (stores > 1 and policy != "spill"):
        raise UsageError(f"{stores} stores: give one, or several with policy='spill'")
    if "transactional.id" in config:
        raise UsageError("transactional.id: a message that fails aborts its transaction, so none is kept")
    settings = dict(config)
    timeouts = [settings.pop(name) for name in _TIMEOUTS if name in settings]
    settings["message.timeout.ms"] = int(timeouts[-1]) if timeouts else TIMEOUT_MS
    if settings["message.timeout.ms"] <= 0:
        raise UsageError("message.timeout.ms=0: a message that never fails would never be kept")
    waits_for_all = str(settings.get("acks", settings.get("request.required.acks", "all"))) in ("all", "-1")
    if waits_for_all and not any(name in settings for name in _IN_FLIGHT):
        settings.setdefault("enable.idempotence", True)
    return settings


_TICK_S = 0.05
_PURGE_S = 10.0
_SPOOL_MARGIN_MS = 5_000
_MESSAGES_PER_CALLBACK = 64


class Producer:
    """`store`: one store, or several with `policy="spill"`, in the order to try them.

    `policy`: what `produce` does when the client's queue is full, or too much waits for a failing store.
    block: waits, at most `block_s`; spill: puts the message into the next store; refuse: raises Refused at
    once. `resends`: how often the queue sends a message again; `queue`: how many messages may wait.
    `spool_first`: a message is put into the store before it is sent, and removed once acknowledged.
    `ordered`: messages of a key are sent one after the other, and kept while an earlier one is kept.
    `on_failure(record, store)` is called in place of `on_delivery` for a message that Kafka did not accept:
    `store` is the name of the store that keeps it; None: no store accepted it.
    The caller closes the store.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        store: MessageStore | Sequence[MessageStore],
        policy: Literal["block", "spill", "refuse"] = "block",
        block_s: float = 60.0,
        ordered: bool = False,
        spool_first: bool = False,
        resends: int = 1,
        queue: int = 10_000,
        client: Callable[[dict[str, Any]], Any] = Client,
        on_failure: OnFailure | None = None,
    ) -> None:
        stores = StoreChain(list(store) if isinstance(store, Sequence) else [store])
        settings = client_settings(config, policy, len(stores.stores))
        self._default: OnDelivery | None = settings.pop("on_delivery", None)
        self._client = client(settings)
        self._deliveries = Deliveries(self._client, stores, ordered, resends, queue, on_failure)
        self._policy, self._queue = policy, queue
        self._block_s = block_s if policy == "block" else 0.0
        self._spool_ms = (
            (resends + 1) * settings["message.timeout.ms"] + _SPOOL_MARGIN_MS if spool_first else None
        )
        self._is_plain = not (spool_first or ordered)
        self._closed = False
        # Shortcuts for the code that runs for each message.
        self._send, self._lock, self._counts = (
            self._client.produce,
            self._deliveries.lock,
            self._deliveries.counts,
        )
        # The delivery report that the next plain messages share.
        self._callback = self._deliveries.callback_for(0, None, None)
        self._callback_report: OnDelivery | None = None
        self._callback_end = 0

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
        """As confluent-kafka's. `on_delivery` is called once; without an error only if Kafka acknowledged.

        Raises Refused (a BufferError) if the policy says so, KafkaException if the client rejects the
        message.
        """
        deliveries, report = self._deliveries, on_delivery or callback or self._default
        with self._lock:
            self._counts.sent = seq = self._counts.sent + 1
            deliveries.in_flight += 1
            reporter = self._callback
            if seq >= self._callback_end or report is not self._callback_report or headers is not None:
                reporter = self._new_callback(seq, headers, report)
        if self._is_plain and not deliveries.to_keep:
            try:
                if timestamp or headers is not None:
                    self._send(topic, value, key, partition, reporter, timestamp=timestamp, headers=headers)
                else:
                    self._send(topic, value, key, partition, reporter)
                return
            except BufferError:
                pass
            except KafkaException as error:
                if not is_fatal(error.args[0]):
                    deliveries.count_refused(None)
                    raise
        self._callback_end = 0  # later messages need a higher sequence number
        record = KeptMessage(
            id=deliveries.id_of(seq << SEQ_SHIFT), topic=topic,
            partition=partition if partition >= 0 else None,
            key=as_bytes(key), value=as_bytes(value), headers=header_pairs(headers),
            timestamp_ms=timestamp or now_ms(), kept_ms=now_ms(),
        )  # fmt: skip
        self._send_checked(Item(seq << SEQ_SHIFT, record, report))
        deliveries.settle()

    def _new_callback(self, seq: int, headers: Any, report: OnDelivery | None) -> OnDelivery:
        """A delivery report for several messages: one for each would keep the garbage collector busy."""
        self._callback = self._deliveries.callback_for(seq << SEQ_SHIFT, headers, report)
        self._callback_report = report
        self._callback_end = seq + _MESSAGES_PER_CALLBACK if headers is None else 0
        return self._callback

    def poll(self, timeout: float = -1) -> int:
        """Calls delivery reports, then sends failed messages again or keeps them."""
        served = run_callbacks(self._client.poll, timeout)
        self._deliveries.settle()
        return int(served)

    def flush(self, timeout: float = -1) -> int:
        """Waits until each message is acknowledged or kept; returns the number of others."""
        limit = None if timeout < 0 else time.monotonic() + timeout
        while True:
            left = _TICK_S if limit is None else min(_TICK_S, limit - time.monotonic())
            run_callbacks(self._client.flush, max(0.0, left))
            self._deliveries.settle()
            if not len(self) or (limit is not None and time.monotonic() >= limit):
                return len(self)
            if not len(self._client):
                time.sleep(_TICK_S)  # a store is failing

    def __len__(self) -> int:
        """The number of messages that are neither acknowledged nor kept."""
        return self._deliveries.queued()

    @property
    def counts(self) -> ProducerCounts:
        """The messages so far, by outcome. Raises AccountingError if they do not add up."""
        return self._deliveries.checked_counts()

    def close(self, timeout: float = 30) -> ProducerCounts:
        """Waits for reports, keeps messages without one, and counts those that no store accepts as failed."""
        if not self._closed:
            self.flush(timeout)
            self._closed, self._is_plain = True, False
            self._deliveries.stop_sending(_PURGE_S)
            limit = time.monotonic() + min(timeout, self._block_s)
            while self._deliveries.to_keep and time.monotonic() < limit:
                time.sleep(_TICK_S)
                self._deliveries.settle()
            self._deliveries.give_up()
        return self.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _send_checked(self, item: Item) -> None:
        """Sends a message that needs spooling, ordering or waiting. Raises Refused, KafkaException."""
        if self._closed:
            self._refuse(item, "the producer is closed")
        self._wait_for(self._has_room, item, "failed messages are waiting for a store")
        if self._spool_ms is not None:
            self._wait_for(lambda: self._spool(item), item, "the store is failing")
        if not self._deliveries.hold_back(item):
            self._wait_for(lambda: self._try_send(item), item, "the client's queue is full", admitted=True)

    def _wait_for(
        self, attempt: Callable[[], bool], item: Item, what: str, *, admitted: bool = False
    ) -> None:
        """Repeats `attempt` until it succeeds, for as long as the policy allows. Raises Refused."""
        limit = time.monotonic() + self._block_s
        while not attempt():
            if time.monotonic() >= limit:
                self._refuse(item, what, admitted=admitted)
            self.poll(_TICK_S)

    def _refuse(self, item: Item, what: str, *, admitted: bool = False) -> None:
        self._deliveries.count_refused(item if admitted else None)
        waited = f" for {self._block_s:g} s" if self._block_s else ""
        error = f" ({self._deliveries.store_error})" if self._deliveries.store_error is not None else ""
        raise Refused(f"{item.record.topic}: not sent and not kept: {what}{waited}{error}")

    def _has_room(self) -> bool:
        if self._policy == "refuse" and self._deliveries.store_error is not None:
            return not self._deliveries.to_keep
        return len(self._deliveries.to_keep) + self._deliveries.order.waiting < self._queue

    def _spool(self, item: Item) -> bool:
        assert self._spool_ms is not None
        update = {"sending_until_ms": now_ms() + self._spool_ms}
        try:
            self._deliveries.stores.spool(item.record.model_copy(update=update))
        except StoreError as error:
            self._deliveries.store_error = error
            return False
        return True

    def _try_send(self, item: Item) -> bool:
        """Whether the client (or, with `spill`, a store) accepted it. Raises KafkaException."""
        try:
            self._deliveries.send(item)
        except BufferError:
            if self._policy != "spill":
                return False
            self._deliveries.on_failed(item.failed("the client's queue is full"))
        except KafkaException as error:
            if not is_fatal(error.args[0]):
                self._deliveries.count_refused(item)
                raise
            self._deliveries.on_failed(item.failed(error.args[0].str(), error.args[0].code()))
        return True
