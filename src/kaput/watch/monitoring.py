"""The monitor of a watch: the cluster's state and what becomes of messages, for alerts and /metrics."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from kaput.cluster.access import Access
from kaput.monitor.alerts.alert import Alert
from kaput.monitor.alerts.alerting import Alerting
from kaput.monitor.alerts.loading import builtin
from kaput.monitor.alerts.notify.channel import Channel
from kaput.monitor.alerts.rules import Rules
from kaput.monitor.exposition import Exposition
from kaput.monitor.metrics_server import ListenAddress, serving
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.polling import Polling

# How many messages are sent is the watch's own choice.
_NOT_OF_A_CANARY = ("low-send-rate",)


def canary_rules() -> Rules:
    """The built-in rules, without those on the rate of the user's own messages."""
    rules = builtin()
    kept = [rule for rule in rules if rule.name not in _NOT_OF_A_CANARY]
    return rules.model_copy(update={"alert_rules": kept})


class Monitor:
    """Observes while its block lasts. `bound`: where /metrics is served, if anywhere."""

    def __init__(
        self,
        servers: str,
        access: Access,
        rules: Rules | None,
        channels: Iterable[Channel],
        bound: socket.socket | None,
        note: Callable[[str], Any],
    ) -> None:
        self.series = SeriesTable()
        self._polled: list[Sample] = []
        self._lock = threading.Lock()
        self._polling = Polling(ClusterState(servers, access), self._take, note)
        self._alerting = None if rules is None else Alerting(rules, channels, note)
        self._bound = bound
        self._stack = ExitStack()
        self.address: ListenAddress | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._alerting is not None:
                stack.enter_context(self._alerting)
            if self._bound is not None:
                self.address = stack.enter_context(serving(Exposition(self._look), self._bound))
            stack.enter_context(self._polling)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def firing(self) -> Sequence[Alert]:
        """Alerts that fire now."""
        active = [] if self._alerting is None else self._alerting.active
        return [alert for alert in active if alert.state == "firing"]

    def step(self, messages: Iterable[Sample]) -> None:
        """Takes what is known of messages, and evaluates the rules; to be called every second or so."""
        given = list(messages)
        self.series.add(given)
        with self._lock:
            given += self._polled
            self._polled = []
        if self._alerting is not None:
            self._alerting.step(given, time.time_ns())

    def _take(self, samples: Sequence[Sample]) -> None:
        self.series.replace("cluster", samples)
        with self._lock:
            self._polled += samples

    def _look(self) -> list[SeriesTable]:
        self.series.add(self._polling.own_samples())
        return [self.series]
