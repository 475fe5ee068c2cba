"""An alert as a JSON document, for JSON lines and the plain webhook."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from kaput.core import MS, SECOND
from kaput.monitor.alerts.alert import Transition


def document(transition: Transition) -> dict[str, Any]:
    """The transition's document. `id`: the same for each episode of a rule and label set."""
    alert = transition.alert
    return {
        "id": alert.key,
        "alert": alert.rule.name,
        "severity": alert.rule.severity,
        "labels": dict(alert.labels),
        "change": transition.change,
        "state": alert.state,
        "announce": transition.announce,
        "at": rfc3339(transition.at_ns),
        "value": None if math.isnan(alert.value) else alert.value,
        "summary": alert.summary,
        "why": alert.rule.why,
        "active_since": rfc3339(alert.active_ns),
        "fired_at": _optional(alert.fired_ns),
        "resolved_at": _optional(alert.resolved_ns),
        "inhibited_by": list(alert.inhibited_by),
        "observed": alert.observed,
        "reason": alert.reason,
    }


def rfc3339(at_ns: int) -> str:
    """UTC, to the millisecond."""
    moment = datetime.fromtimestamp(at_ns // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns // MS % 1000:03d}Z"


def _optional(at_ns: int | None) -> str | None:
    return None if at_ns is None else rfc3339(at_ns)
