"""Evaluates rules on samples as they arrive, and notifies channels: what a monitor uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from kaput.monitor.alerts.alert import Alert, Transition
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.notify.channel import Channel
from kaput.monitor.alerts.notify.notifiers import CLOSE_S, Notifiers
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.signals import Sample


class Alerting:
    """Open from its creation until `close`, or the end of its `with` block. `report` gets sentences about
    failing channels, from their threads.
    """

    def __init__(self, rules: Rules, channels: Iterable[Channel], report: Callable[[str], None]) -> None:
        self._engine = Engine(rules)
        self._notifiers = Notifiers(channels, report)

    @property
    def active(self) -> list[Alert]:
        """Alerts that are pending or firing now."""
        return self._engine.active

    def step(self, samples: Iterable[Sample], at_ns: int) -> list[Transition]:
        """The transitions caused by these samples at this time (ns since the epoch); never waits for a
        channel.

        Call it about every second, also without samples: silence is a condition too.
        """
        transitions = self._engine.step(samples, at_ns)
        self._notifiers.notify(transitions)
        return transitions

    def close(self, bound_s: float = CLOSE_S) -> int:
        """Sends pending notifications within that time; returns how many were not sent. Does not resolve
        firing alerts.
        """
        return self._notifiers.close(bound_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
