"""The monitor of a watch: the state of the cluster and its messages, for alerts and /metrics."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from kaput.cluster.access import Access
from kaput.monitor.alerts.channels import Channel
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.notifiers import Notifiers
from kaput.monitor.alerts.rules import AlertRules, builtin
from kaput.monitor.metrics_server import Exposition, ListenAddress, serving
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.polling import ClusterMetrics

# The watch chooses its own send rate.
_EXCLUDED_RULES = ("low-send-rate",)


def canary_rules() -> AlertRules:
    """The built-in rules, without the one about the send rate of the user's messages."""
    rules = builtin()
    kept = [rule for rule in rules if rule.name not in _EXCLUDED_RULES]
    return rules.model_copy(update={"alert_rules": kept})


class Monitor:
    """Observes the cluster inside its `with` block. `bound`: the socket for /metrics, if it is served."""

    def __init__(
        self,
        servers: str,
        access: Access,
        rules: AlertRules,
        channels: Iterable[Channel],
        bound: socket.socket | None,
        note: Callable[[str], Any],
    ) -> None:
        self.servers = servers
        self._polled: list[Sample] = []
        self._lock = threading.Lock()
        self._metrics = ClusterMetrics(ClusterState(servers, access), note, take=self._take)
        self._engine, self._notifiers = Engine(rules), Notifiers(channels, note)
        self._bound = bound
        self._stack = ExitStack()
        self.address: ListenAddress | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._notifiers.close)
            if self._bound is not None:
                self.address = stack.enter_context(serving(Exposition(self._metrics.tables), self._bound))
            stack.enter_context(self._metrics)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def series(self) -> SeriesTable:
        return self._metrics.series

    @property
    def firing(self) -> list[str]:
        """The alerts that are firing, as text."""
        firing = [alert for alert in self._engine.active if alert.state == "firing"]
        return [f"{alert.rule.name}: {alert.summary}" for alert in firing]

    def step(self, messages: Iterable[Sample]) -> None:
        """Adds samples about messages, and evaluates the rules; call it about every second."""
        given = list(messages)
        self.series.add(given)
        with self._lock:
            given += self._polled
            self._polled = []
        self._notifiers.notify(self._engine.step(given, time.time_ns()))

    def _take(self, samples: Sequence[Sample]) -> None:
        with self._lock:
            self._polled += samples
