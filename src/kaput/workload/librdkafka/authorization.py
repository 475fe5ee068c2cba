"""Authorization errors: a sentence with principal, operation and resource, and an end to retries.

librdkafka treats an authorization error as transient, and retries forever, or until its own timeout.
Producers check before their first send, members at every error they get.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_AUTHENTICATION = KafkaError._AUTHENTICATION
_POLL_S = 2.0  # how often to check for failed authentication


class NotAuthorizedError(Exception):
    """The client is not authorized; the text is a sentence that says for what."""


class AuthorizationErrors:
    """Checks one client's errors; `settings` are librdkafka's."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._who = f"User:{settings.get('sasl.username', 'ANONYMOUS')}"
        self._authentication_error: str | None = None

    def on_error(self, error: KafkaError) -> None:
        """librdkafka's error_cb: errors that belong to no message."""
        if error.code() == _AUTHENTICATION:
            self._authentication_error = error.str()

    def describe_topic(self, client: Any, topic: str, timeout_s: float) -> Any:
        """The topic's metadata. Raises NotAuthorizedError; KafkaException after `timeout_s`."""
        limit = time.monotonic() + timeout_s
        while True:
            try:
                known = client.list_topics(topic, timeout=_POLL_S).topics[topic]
            except KafkaException:
                client.poll(0)
                if self._authentication_error is not None:
                    raise NotAuthorizedError(
                        f"{self._who} cannot authenticate: {self._authentication_error}"
                    ) from None
                if time.monotonic() >= limit:
                    raise
                time.sleep(0.05)
            else:
                if known.error is not None:
                    self.check(known.error, "Describe", f"topic {topic}")
                return known

    def check(self, error: KafkaError, operation: str, resource: str) -> None:
        """Raises NotAuthorizedError if the error is an authorization error for that operation."""
        if error.code() in CODES:
            raise NotAuthorizedError(self.sentence(error, operation, resource))

    def of_member(self, error: KafkaError, group: str, topics: list[str]) -> str | None:
        """A sentence about a group member's authorization error; None for any other error."""
        match error.code():
            case KafkaError.GROUP_AUTHORIZATION_FAILED:
                return self.sentence(error, "Read", f"group {group}")
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return self.sentence(error, "Read", f"topic {', '.join(topics)}")
            case KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return self.sentence(error, "do this with", "the cluster")
        return None

    def sentence(self, error: KafkaError, operation: str, resource: str) -> str:
        """Principal, operation and resource in Kafka's words."""
        return f"{self._who} is not allowed to {operation} {resource} ({error.name()})"
