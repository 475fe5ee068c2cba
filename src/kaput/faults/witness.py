"""Who looks on while faults are at work: told before each takes hold, and after it was healed.

The run's own is runner/replica_log.py, which records what the nodes that are hit have in their logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Witness(Protocol):
    """Called from the threads of the nemesis; must neither take long nor raise."""

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """These nodes are going to be hit by this step."""

    def after(self, step: str) -> None:
        """The step was healed."""


class NoWitness:
    """Observes nothing."""

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Nothing."""

    def after(self, step: str) -> None:
        """Nothing."""
