"""The interface to which a run reports its progress. The command line displays it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kaput.faults.engine import FaultState


class Progress(Protocol):
    """Receives phases, counts and faults; called from several threads."""

    def phase(self, name: str) -> None:
        """provision, warm up, inject, heal, replay (with stores), drain, collect, compare, or seal begins."""

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        """Current counts over all producers; `total` is None if the run is bounded by a duration."""

    def drained(self, offsets: int, total: int | None) -> None:
        """How many offsets of the log have been read; `total` is None while not all runs know theirs."""

    def fault(self, step: str, what: str, state: FaultState) -> None:
        """A fault has begun or ended."""

    def note(self, text: str) -> None:
        """A message to display."""


class NotesOnly:
    """Passes only notes on, to `note`."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    def phase(self, name: str) -> None:
        """Does nothing."""

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        """Does nothing."""

    def drained(self, offsets: int, total: int | None) -> None:
        """Does nothing."""

    def fault(self, step: str, what: str, state: FaultState) -> None:
        """Does nothing."""
