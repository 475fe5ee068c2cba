"""Alertmanager's v2 API: firing alerts are posted repeatedly, until they are resolved.

As Prometheus does: a firing alert has an end a few repetitions ahead, so that Alertmanager resolves it by
itself if kaput is gone. Alerts have the names and labels of the generated Prometheus rules, so that one
routing configuration serves both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kaput.monitor.alerts.alert import Alert, Transition
from kaput.monitor.alerts.notify.documents import rfc3339
from kaput.monitor.alerts.notify.post import Endpoint, post
from kaput.monitor.alerts.prometheus import alert_name

PATH = "/api/v2/alerts"
REPEAT_S = 60.0
_ENDS_AFTER_REPEATS = 4


class Alertmanager:
    """`labels`: additional labels of every alert, such as the cluster's name."""

    def __init__(
        self,
        url: str,
        labels: Mapping[str, str] | None = None,
        repeat_s: float = REPEAT_S,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._endpoint = Endpoint.of(url, PATH)
        self.name = self._endpoint.public_url
        self.repeat_s: float | None = repeat_s
        self._labels, self._now_ns = dict(labels or {}), now_ns
        self._firing: dict[str, Alert] = {}

    def wants(self, transition: Transition) -> bool:
        """Announced changes only."""
        return transition.announce

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Posts everything that fires, and what was resolved."""
        resolved: dict[str, Alert] = {}
        for each in transitions:
            here, there = (resolved, self._firing) if each.change == "resolved" else (self._firing, resolved)
            there.pop(each.alert.key, None)
            here[each.alert.key] = each.alert
        if alerts := [*resolved.values(), *self._firing.values()]:
            post(self._endpoint, [self._document(alert) for alert in alerts], timeout_s)

    def _document(self, alert: Alert) -> dict[str, Any]:
        assert alert.fired_ns is not None and self.repeat_s is not None
        ahead_ns = self._now_ns() + round(self.repeat_s * _ENDS_AFTER_REPEATS * 1e9)
        name = {"alertname": alert_name(alert.rule.name), "severity": alert.rule.severity}
        return {
            "labels": {**self._labels, **alert.labels, **name},
            "annotations": {"summary": alert.summary, "description": alert.rule.why},
            "startsAt": rfc3339(alert.fired_ns),
            "endsAt": rfc3339(ahead_ns if alert.resolved_ns is None else alert.resolved_ns),
        }
