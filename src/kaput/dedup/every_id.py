"""The first way: remember the id of every message.

State: one id per message, forever (or for as long as duplicates may arrive). Correct in any order and for any
producer. Wrong if a copy has another id, as when ids are created on sending by a producer that forgets what
it has sent. With a store in memory, everything is new after a restart.
"""

from __future__ import annotations

from kaput.dedup.filter import Record
from kaput.dedup.stores import Ids, SortedIds


class EveryId:
    """A record is new if its id was never seen."""

    def __init__(self, ids: Ids | None = None) -> None:
        self._ids = SortedIds() if ids is None else ids

    def is_new(self, record: Record) -> bool:
        """Whether the record's id was never marked."""
        return record.id not in self._ids

    def mark(self, record: Record) -> None:
        """Remembers the record's id."""
        self._ids.add(record.id)

    def commit(self) -> None:
        """Makes all marks survive a restart, if the store can."""
        self._ids.commit()
