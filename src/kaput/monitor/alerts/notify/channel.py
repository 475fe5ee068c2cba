"""A channel: one way to send alerts. It has no queue, and is called by one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kaput.monitor.alerts.alert import Transition


class TryAgain(Exception):
    """It was not sent; retry later, not before `after_s`, as the receiver asks."""

    def __init__(self, why: str, after_s: float = 0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Refused(Exception):
    """It was not sent, and retrying is useless."""


class Channel(Protocol):
    """`name`: used in messages, without secrets. `repeat_s`: how often it wants to send even if nothing is
    new; None: never.
    """

    name: str
    repeat_s: float | None

    def wants(self, transition: Transition) -> bool:
        """Whether it sends that transition."""

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Sends them in order; each may have been sent before. Raises TryAgain or Refused."""
