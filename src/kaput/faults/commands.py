"""What the fault `command` asks for: a command line to be run on behalf of one broker, within a bounded time.

Its place: faults/command.py judges by it, run/commanding.py does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kaput.errors import LabError


@dataclass(frozen=True)
class Ran:
    """How a command ended: its exit status, None where its time was up; and the last line that it said."""

    status: int | None
    last: str = ""

    def how(self, kind: str) -> str:
        """`inject ended with exit status 1: no such container`"""
        ended = (
            "took too long and was ended" if self.status is None else f"ended with exit status {self.status}"
        )
        return f"{kind} {ended}" + (f": {self.last}" if self.last else "")


class Commands(Protocol):
    """Every method may be called from several threads."""

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> Ran:
        """Runs a command line to its end. `kind`: inject, heal or prove; `known`: what is filled in beside
        the broker and its address. Raises LabError where it cannot be started.
        """

    def owe(self, step: str, brokers: Sequence[int], heal: str, known: Mapping[str, str]) -> None:
        """From now on these brokers are broken, should anybody ask after the end of kaput."""

    def settled(self, step: str) -> None:
        """They are no more."""


class NoCommands:
    """Where kaput's own cluster is broken."""

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> Ran:
        raise LabError("commands break clusters that kaput has not started")

    def owe(self, step: str, brokers: Sequence[int], heal: str, known: Mapping[str, str]) -> None:
        raise LabError("commands break clusters that kaput has not started")

    def settled(self, step: str) -> None:
        """There is nothing."""
