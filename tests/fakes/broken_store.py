"""A store that can be down."""

from __future__ import annotations

from collections.abc import Sequence

from kaput.clients.keep import KeptMessage, SQLite, StoreError


class BreakableStore(SQLite):
    """In memory; `down`: every call fails."""

    def __init__(self, name: str = "memory") -> None:
        super().__init__(":memory:")
        self.name, self.down = name, False

    def put(self, records: Sequence[KeptMessage]) -> None:
        self._check()
        super().put(records)

    def remove(self, ids: Sequence[str], note: str | None = None) -> None:
        self._check()
        super().remove(ids, note)

    def counts(self) -> dict[str, int]:
        self._check()
        return super().counts()

    @property
    def values(self) -> list[bytes | None]:
        """What is kept, in order."""
        return [record.value for record in self.read(limit=100_000)]

    def _check(self) -> None:
        if self.down:
            raise StoreError(f"{self.name} is down")
