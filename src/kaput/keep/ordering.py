"""Order per key: who has to wait for whom, and who overtook."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from kaput.keep.record import Record, now_ms
from kaput.keep.spilling import Spill
from kaput.keep.store import records_of

_ASK_EVERY_S = 1.0
Key = tuple[str, bytes | None]


class Item(NamedTuple):
    """A message that is not settled. `record`: as it would be kept; `code`: of its last KafkaError."""

    seq: int
    record: Record
    on_delivery: Callable[[Any, Any], None] | None = None
    code: int = 0

    @property
    def of(self) -> Key:
        """What it has to keep its order with; messages without a key with none."""
        return self.record.topic, self.record.key

    def failed(self, why: str, code: int = 0) -> Item:
        """With the reason; `code` 0: it was not sent."""
        update = {"error": why, "tries": self.record.tries + (code != 0), "kept_ms": now_ms()}
        return self._replace(record=self.record.model_copy(update=update), code=code)


class Ordering:
    """`strict`: messages of a key wait for each other; else only those that overtook are counted."""

    def __init__(self, stores: Spill, strict: bool) -> None:
        self.strict, self._stores = strict, stores
        self.late: dict[Key, dict[int, None]] = {}  # failed, and to be sent again or kept
        self.kept: dict[Key, int] = {}  # the first that is kept
        self._waiting: dict[Key, deque[Item]] = {}  # strict: behind the one that is on its way
        self._asked_at = 0.0
        if strict:
            self.kept = {(r.topic, r.key): 0 for store in stores.stores for r in records_of(store)}

    @property
    def waiting(self) -> int:
        """The number of messages that wait for an earlier one of their key."""
        return sum(map(len, self._waiting.values()))

    def admit(self, item: Item) -> Literal["send", "wait", "keep"]:
        """What to do with a new message."""
        if not self.strict or item.record.key is None:
            return "send"
        if item.of in self.kept:
            return "keep"
        if item.of in self._waiting:
            self._waiting[item.of].append(item)
            return "wait"
        self._waiting[item.of] = deque()
        return "send"

    def failed(self, item: Item) -> None:
        """It will be sent again, or kept."""
        if item.record.key is not None:
            self.late.setdefault(item.of, {})[item.seq] = None

    def acked(self, key: Key, seq: int) -> bool:
        """Whether it overtook an earlier message of its key."""
        late = self.late.get(key, {})
        first = min(next(iter(late), seq), self.kept.get(key, seq))
        self._settled(key, seq)
        return key[1] is not None and first < seq

    def is_kept(self, item: Item) -> list[Item]:
        """Those that waited for it, which are to be kept as well."""
        self._settled(item.of, item.seq)
        if item.record.key is None:
            return []
        self.kept[item.of] = min(item.seq, self.kept.get(item.of, item.seq))
        return list(self._waiting.pop(item.of, ()))

    def next(self, key: Key) -> Item | None:
        """The one whose turn it is when an earlier one is acknowledged or refused."""
        waiting = self._waiting.get(key)
        if waiting:
            return waiting.popleft()
        self._waiting.pop(key, None)
        return None

    def take_waiting(self) -> list[Item]:
        """All that wait, which the caller now has."""
        found = [item for items in self._waiting.values() for item in items]
        self._waiting.clear()
        return found

    def release(self) -> None:
        """Keys are free again when nothing is kept any more: all was replayed, or purged."""
        if self.kept and time.monotonic() - self._asked_at > _ASK_EVERY_S:
            self._asked_at = time.monotonic()
            if self._stores.is_empty():
                self.kept.clear()

    def _settled(self, key: Key, seq: int) -> None:
        if key in self.late:
            self.late[key].pop(seq, None)
            if not self.late[key]:
                del self.late[key]
