"""Keeps the order of messages per key, or counts messages that overtook an earlier one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from confluent_kafka import KafkaError

from kaput.clients.keep.store import KeptMessage, StoreChain, now_ms, records_of

_CHECK_EVERY_S = 1.0
Key = tuple[str, bytes | None]


class Item(NamedTuple):
    """A message without an outcome. `record`: as it would be kept; `code`: of its last KafkaError."""

    seq: int
    record: KeptMessage
    on_delivery: Callable[[Any, Any], None] | None = None
    code: int = 0

    @property
    def order_key(self) -> Key:
        """The topic and key within which order is kept; messages without a key have no order."""
        return self.record.topic, self.record.key

    def failed(self, why: str, code: int = 0) -> Item:
        """The message with a failure's reason, after its code's name. `code` 0: it was not sent."""
        error = f"{KafkaError(code).name()}: {why}" if code else why
        update = {"error": error, "tries": self.record.tries + (code != 0), "kept_ms": now_ms()}
        return self._replace(record=self.record.model_copy(update=update), code=code)


class Ordering:
    """`strict`: messages of a key wait for each other. Otherwise overtaking ones are only counted."""

    def __init__(self, stores: StoreChain, strict: bool) -> None:
        self.strict, self._stores = strict, stores
        self.unsettled: dict[Key, dict[int, None]] = {}  # failed, to be sent again or kept
        self.kept: dict[Key, int] = {}  # the first kept message
        self._waiting: dict[Key, deque[Item]] = {}  # strict: behind the one in flight
        self._checked_at = 0.0
        if strict:
            self.kept = {(r.topic, r.key): 0 for store in stores.stores for r in records_of(store)}

    @property
    def waiting(self) -> int:
        """The number of messages that wait for an earlier one of their key."""
        return sum(map(len, self._waiting.values()))

    def place(self, item: Item) -> Literal["send", "wait", "keep"]:
        """Decides what to do with a new message."""
        if not self.strict or item.record.key is None:
            return "send"
        if item.order_key in self.kept:
            return "keep"
        if item.order_key in self._waiting:
            self._waiting[item.order_key].append(item)
            return "wait"
        self._waiting[item.order_key] = deque()
        return "send"

    def failed(self, item: Item) -> None:
        """Records a message that will be sent again or kept."""
        if item.record.key is not None:
            self.unsettled.setdefault(item.order_key, {})[item.seq] = None

    def acked(self, key: Key, seq: int) -> bool:
        """Records an acknowledgement; whether the message overtook an earlier one of its key."""
        earlier = self.unsettled.get(key, {})
        first = min(next(iter(earlier), seq), self.kept.get(key, seq))
        self._forget_failed(key, seq)
        return key[1] is not None and first < seq

    def mark_kept(self, item: Item) -> list[Item]:
        """Records a kept message; returns those that waited for it, which must be kept too."""
        self._forget_failed(item.order_key, item.seq)
        if item.record.key is None:
            return []
        self.kept[item.order_key] = min(item.seq, self.kept.get(item.order_key, item.seq))
        return list(self._waiting.pop(item.order_key, ()))

    def pop_next(self, key: Key) -> Item | None:
        """Removes and returns the next message of a key, once the one before is acknowledged or refused."""
        waiting = self._waiting.get(key)
        if waiting:
            return waiting.popleft()
        self._waiting.pop(key, None)
        return None

    def pop_waiting(self) -> list[Item]:
        """Removes and returns all waiting messages."""
        waiting = [item for items in self._waiting.values() for item in items]
        self._waiting.clear()
        return waiting

    def release(self) -> None:
        """Unblocks all keys when the stores are empty: everything was replayed or purged."""
        if self.kept and time.monotonic() - self._checked_at > _CHECK_EVERY_S:
            self._checked_at = time.monotonic()
            if self._stores.is_empty():
                self.kept.clear()

    def _forget_failed(self, key: Key, seq: int) -> None:
        if key in self.unsettled:
            self.unsettled[key].pop(seq, None)
            if not self.unsettled[key]:
                del self.unsettled[key]
