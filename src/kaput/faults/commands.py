"""What the fault `command` needs: running a command line for one broker, with a timeout.

Used by faults/command.py, implemented by runner/command_runner.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kaput.errors import LabError


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: its exit status, None if it timed out; and the last line of its output."""

    status: int | None
    last: str = ""

    def how(self, kind: str) -> str:
        """`inject ended with exit status 1: no such container`"""
        ended = (
            "took too long and was ended" if self.status is None else f"ended with exit status {self.status}"
        )
        return f"{kind} {ended}" + (f": {self.last}" if self.last else "")


class Commands(Protocol):
    """Runs commands. Thread-safe."""

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Runs a command line to its end. `kind`: inject, heal or prove; `known`: placeholders in addition to
        the broker and its address. Raises LabError if it cannot be started.
        """

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], heal: str, known: Mapping[str, str]
    ) -> None:
        """Records that these brokers are about to be broken, and how to heal them if kaput is killed."""

    def heal_done(self, step: str) -> None:
        """Records that they are healed."""


class NoCommands:
    """For kaput's own clusters, which need no commands."""

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        raise LabError("commands are for existing clusters only")

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], heal: str, known: Mapping[str, str]
    ) -> None:
        raise LabError("commands are for existing clusters only")

    def heal_done(self, step: str) -> None:
        """Does nothing."""
