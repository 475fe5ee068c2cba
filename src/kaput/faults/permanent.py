"""The base of faults that change a topic or the cluster permanently: there is nothing to undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kaput.core import MS
from kaput.errors import LabError
from kaput.faults.fault import Fault
from kaput.faults.rolling_restart import lacking
from kaput.scenario.targets import CLUSTER, TOPIC

_POLL_S = 0.02
_Hit = TypeVar("_Hit")


class PermanentChange(Fault[_Hit]):
    """One injection of such a change."""

    def wait_until_complete(self, lacks: Callable[[], str], timeout_s: float) -> str:
        """Waits, for a bounded time, until `lacks` returns nothing; returns its last sentence."""
        details = ""

        def complete() -> bool:
            nonlocal details
            try:
                details = lacks()
            except LabError as error:
                details = str(error)
            return not details

        self.wait(complete, timeout_s, _POLL_S)
        return details

    def replicas_lacking(self, topics: Iterable[str]) -> str:
        """A sentence about partitions without a leader or a full ISR. Raises LabError."""
        return lacking(self.scene.admin.partitions(topics))


class TopicChange(PermanentChange[str]):
    """A change of the topic with that name."""

    on = TOPIC


class ClusterChange(PermanentChange[None]):
    """A change of the cluster as a whole."""

    on = CLUSTER


def ms(from_ns: int, to_ns: int) -> str:
    """`1,234 ms`, for proofs."""
    return f"{(to_ns - from_ns) / MS:,.0f} ms"
