"""A channel: one way to tell somebody of alerts. It knows no queue, and is called by one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kaput.monitor.alerts.alert import Transition


class TryAgain(Exception):
    """It was not sent, and may be later. `after_s`: not before so many seconds, as the receiver asks."""

    def __init__(self, why: str, after_s: float = 0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Refused(Exception):
    """It was not sent, and never will be."""


class Channel(Protocol):
    """`name`: what messages call it, without secrets. `repeat_s`: how often it wants to send although nothing
    is new; None: never.
    """

    name: str
    repeat_s: float | None

    def wants(self, transition: Transition) -> bool:
        """Whether it tells of that one."""

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Sends them, in their order; each may have been sent before. Raises TryAgain or Refused."""
