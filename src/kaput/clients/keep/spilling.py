"""A chain of stores: what one does not accept goes to the next."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from kaput.clients.keep.record import Record
from kaput.clients.keep.store import Store, StoreError, count

_QUICK_S = 0.1


class StoreChain:
    """One or more stores, and which of them has each spooled record."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores
        self.spooled: dict[str, Store] = {}
        self._uncertain: dict[str, set[str]] = defaultdict(set)
        self._backs_off_until: dict[str, float] = {}

    def put(self, records: Sequence[Record]) -> str:
        """Puts records into the first store that accepts all; returns its name. Raises StoreError."""
        for store in self.stores:
            if store is not self.stores[-1] and self._is_backing_off(store):
                continue
            began = time.monotonic()
            try:
                store.put(records)
            except StoreError:
                self._back_off(store, time.monotonic() - began)
                self._uncertain[store.name].update(record.id for record in records)
                if store is self.stores[-1]:
                    raise
            else:
                self._uncertain[store.name].difference_update(record.id for record in records)
                break
        return store.name

    def remove_uncertain(self, at_once: bool = False) -> None:
        """Removes records that a store may have although its `put` failed and that it should not have."""
        for store in self.stores:
            ids = self._uncertain[store.name]
            if ids and (at_once or not self._is_backing_off(store)):
                began = time.monotonic()
                try:
                    store.remove(list(ids))
                    ids.clear()
                except StoreError:
                    self._back_off(store, time.monotonic() - began)

    def _back_off(self, store: Store, took_s: float) -> None:
        """Skips a store for a while: a server that is down may take seconds to fail, while producers wait."""
        if took_s > _QUICK_S:
            self._backs_off_until[store.name] = time.monotonic() + took_s

    def _is_backing_off(self, store: Store) -> bool:
        return time.monotonic() < self._backs_off_until.get(store.name, 0.0)

    def spool(self, record: Record) -> None:
        """Stores a record that is about to be sent. Raises StoreError."""
        name = self.put([record])
        self.spooled[record.id] = next(store for store in self.stores if store.name == name)

    def keep_spooled(self, record: Record) -> str:
        """Adds to a spooled record why it stays in its store; returns the store's name."""
        store = self.spooled.pop(record.id)
        with suppress(StoreError):  # the record is in the store either way
            store.put([record])
        return store.name

    def remove_spooled(self, ids: Sequence[str]) -> None:
        """Removes acknowledged records. Raises StoreError; can be called again then."""
        for store in self.stores:
            if here := [one for one in ids if self.spooled.get(one) is store]:
                store.remove(here)
                for one in here:
                    del self.spooled[one]

    def is_empty(self) -> bool:
        """Whether nothing but spooled records is kept; False if a store cannot tell."""
        kept = 0
        for store in self.stores:
            if self._is_backing_off(store):
                return False
            began = time.monotonic()
            try:
                kept += count(store)
            except StoreError:
                self._back_off(store, time.monotonic() - began)
                return False
        return kept <= len(self.spooled)
