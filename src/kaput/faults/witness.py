"""An observer of faults, called before each injection and after each heal.

A run's witness is runner/replica_log.py, which records what the hit nodes have in their logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Witness(Protocol):
    """Called from the threads of the nemesis; must neither take long nor raise."""

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Called before this step hits these nodes."""

    def after(self, step: str) -> None:
        """Called after the step is healed."""


class NoWitness:
    """Observes nothing."""

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Does nothing."""

    def after(self, step: str) -> None:
        """Does nothing."""
