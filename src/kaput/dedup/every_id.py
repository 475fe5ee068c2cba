"""The first way: remember the id of every message.

Keeps: one id per message, for ever (or for as long as a duplicate may still come). Right whatever the order,
and whichever producer sends. Wrong when a copy has another id: ids made when a message is sent, by a
producer that forgets what it has sent. Forgets with its store: in memory everything is new after a restart.
"""

from __future__ import annotations

from kaput.dedup.filter import Record
from kaput.dedup.stores import Ids, SortedIds


class EveryId:
    """New is what has an id that was never seen."""

    def __init__(self, ids: Ids | None = None) -> None:
        self._ids = SortedIds() if ids is None else ids

    def is_new(self, record: Record) -> bool:
        """Whether its id was never marked."""
        return record.id not in self._ids

    def mark(self, record: Record) -> None:
        """Remembers its id."""
        self._ids.add(record.id)

    def commit(self) -> None:
        """Makes every mark so far survive a restart, if the store can."""
        self._ids.commit()
