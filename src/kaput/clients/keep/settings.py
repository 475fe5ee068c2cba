"""The client settings and errors that keeping depends on, and the checks of a producer's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from kaput.errors import UsageError

# The client may retry for so long; then the queue and the store take over.
TIMEOUT_MS = 30_000
_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")
_IN_FLIGHT = ("max.in.flight", "max.in.flight.requests.per.connection")
_POLICIES = ("block", "spill", "refuse")
# Errors of the message, not of the cluster: it would fail again, and others can be sent without it.
MESSAGE_ERRORS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION, KafkaError.POLICY_VIOLATION, KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)  # fmt: skip


def client_settings(config: Mapping[str, Any], policy: str, stores: int) -> dict[str, Any]:
    """The client's settings, with kaput.keep's defaults. Raises UsageError."""
    if policy not in _POLICIES:
        raise UsageError(f"policy {policy!r}: write one of {', '.join(_POLICIES)}")
    if stores < 1 or (stores > 1 and policy != "spill"):
        raise UsageError(f"{stores} stores: give one, or several with policy='spill'")
    if "transactional.id" in config:
        raise UsageError("transactional.id: a message that fails aborts its transaction, so none is kept")
    settings = dict(config)
    timeouts = [settings.pop(name) for name in _TIMEOUTS if name in settings]
    settings["message.timeout.ms"] = int(timeouts[-1]) if timeouts else TIMEOUT_MS
    if settings["message.timeout.ms"] <= 0:
        raise UsageError("message.timeout.ms=0: a message that never fails would never be kept")
    waits_for_all = str(settings.get("acks", settings.get("request.required.acks", "all"))) in ("all", "-1")
    if waits_for_all and not any(name in settings for name in _IN_FLIGHT):
        settings.setdefault("enable.idempotence", True)
    return settings
