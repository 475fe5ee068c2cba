"""The base of faults that change a topic or the cluster permanently: there is nothing to undo."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from kaput.core import MS
from kaput.errors import LabError
from kaput.faults.fault import Scene
from kaput.faults.rolling_restart import lacking

_POLL_S = 0.02


class PermanentChange:
    """One injection of such a change."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._abandoned = threading.Event()

    @property
    def stops(self) -> list[int]:
        """Ids of the nodes it restarts, recorded as hit so that their ends are attributed to it."""
        return []

    def abandon(self) -> None:
        """Ends all waits: the run is ending."""
        self._abandoned.set()

    def wait_until_complete(self, lacks: Callable[[], str], timeout_s: float) -> str:
        """Waits, for a bounded time, until `lacks` returns nothing; returns its last sentence."""
        limit = self.scene.clock.now() + timeout_s
        while True:
            details = self._lacks_or_error(lacks)
            if not details or self._abandoned.is_set() or self.scene.clock.now() >= limit:
                return details
            self.scene.clock.sleep(_POLL_S)

    def replicas_lacking(self, topics: Iterable[str]) -> str:
        """A sentence about partitions without a leader or a full ISR. Raises LabError."""
        return lacking(self.scene.admin.partitions(topics))

    def _lacks_or_error(self, lacks: Callable[[], str]) -> str:
        try:
            return lacks()
        except LabError as error:
            return str(error)


def ms(from_ns: int, to_ns: int) -> str:
    """`1,234 ms`, for proofs."""
    return f"{(to_ns - from_ns) / MS:,.0f} ms"
