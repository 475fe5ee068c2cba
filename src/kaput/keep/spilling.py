"""One store or several in a row: what the first does not take goes to the next."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from kaput.keep.record import Record
from kaput.keep.store import Store, StoreError, count

_QUICK_S = 0.1


class Spill:
    """Knows for each spooled record which store has it."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores
        self.spooled: dict[str, Store] = {}
        self._doubtful: dict[str, set[str]] = defaultdict(set)
        self._rests_until: dict[str, float] = {}

    def put(self, records: Sequence[Record]) -> str:
        """Puts records into the first store that takes them all; its name. Raises the last StoreError."""
        for store in self.stores:
            if store is not self.stores[-1] and self._rests(store):
                continue
            began = time.monotonic()
            try:
                store.put(records)
            except StoreError:
                self._rest(store, time.monotonic() - began)
                self._doubtful[store.name].update(record.id for record in records)
                if store is self.stores[-1]:
                    raise
            else:
                self._doubtful[store.name].difference_update(record.id for record in records)
                break
        return store.name

    def remove_doubtful(self, at_once: bool = False) -> None:
        """Removes what a store may have although it failed to take it: it was refused, or another has it."""
        for store in self.stores:
            ids = self._doubtful[store.name]
            if ids and (at_once or not self._rests(store)):
                began = time.monotonic()
                try:
                    store.remove(list(ids))
                    ids.clear()
                except StoreError:
                    self._rest(store, time.monotonic() - began)

    def _rest(self, store: Store, took_s: float) -> None:
        """A server that is down may take seconds to fail, and producers wait for it: not all the time."""
        if took_s > _QUICK_S:
            self._rests_until[store.name] = time.monotonic() + took_s

    def _rests(self, store: Store) -> bool:
        return time.monotonic() < self._rests_until.get(store.name, 0.0)

    def spool(self, record: Record) -> None:
        """Puts a record that is about to be sent. Raises StoreError."""
        name = self.put([record])
        self.spooled[record.id] = next(store for store in self.stores if store.name == name)

    def keep_spooled(self, record: Record) -> str:
        """Notes in the store why a spooled record remains there; its name."""
        store = self.spooled.pop(record.id)
        with suppress(StoreError):  # it is in the store either way
            store.put([record])
        return store.name

    def remove_spooled(self, ids: Sequence[str]) -> None:
        """Removes records that were acknowledged. Raises StoreError; then it can be called again."""
        for store in self.stores:
            if here := [one for one in ids if self.spooled.get(one) is store]:
                store.remove(here)
                for one in here:
                    del self.spooled[one]

    def is_empty(self) -> bool:
        """Whether nothing is kept, apart from what is spooled; False where a store cannot tell."""
        kept = 0
        for store in self.stores:
            if self._rests(store):
                return False
            began = time.monotonic()
            try:
                kept += count(store)
            except StoreError:
                self._rest(store, time.monotonic() - began)
                return False
        return kept <= len(self.spooled)
