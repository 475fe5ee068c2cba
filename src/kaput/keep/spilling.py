"""One store or several in a row: what the first does not take goes to the next."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kaput.keep.record import Record
from kaput.keep.store import Store, StoreError


class Spill:
    """Knows for each spooled record which store has it."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores
        self.spooled: dict[str, Store] = {}

    def put(self, records: Sequence[Record]) -> str:
        """Puts records into the first store that takes them all; its name. Raises the last StoreError."""
        for store in self.stores[:-1]:
            with suppress(StoreError):
                store.put(records)
                return store.name
        self.stores[-1].put(records)
        return self.stores[-1].name

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
        """Whether nothing is kept, apart from what is spooled."""
        return sum(sum(store.counts().values()) for store in self.stores) <= len(self.spooled)
