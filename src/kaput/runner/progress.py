"""What a run reports while it works. The command line displays it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Receives phases, counts and faults; called from several threads."""

    def phase(self, name: str) -> None:
        """A phase begins: provision, warm up, inject, heal, replay (with stores), drain, collect, compare
        (where mirrors are), seal."""

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        """Live counts over all producers; `total` is None where a duration bounds the run."""

    def drained(self, offsets: int, total: int) -> None:
        """How far the log has been read."""

    def fault(self, step: str, what: str, active: bool) -> None:
        """A fault has begun or ended."""

    def note(self, text: str) -> None:
        """A sentence worth a line."""


class NotesAlone:
    """Passes on what is worth a sentence. `note` gets it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    def phase(self, name: str) -> None:
        """Not passed on."""

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        """Not passed on."""

    def drained(self, offsets: int, total: int) -> None:
        """Not passed on."""

    def fault(self, step: str, what: str, active: bool) -> None:
        """Not passed on."""
