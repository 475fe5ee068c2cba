"""What a cluster does not let a client do: a sentence with who, what and where, and an end of trying.

librdkafka takes a refusal for something that may pass, and tries again for ever, or until its own timeout.
Its place: producers look before their first send, members at every error that they are handed.
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
_SIGN_IN = KafkaError._AUTHENTICATION
_LOOK_S = 2.0  # how often it is seen whether the brokers do not let us in


class RefusedError(Exception):
    """The cluster does not let this client do its work; the text is a sentence about why."""


class Refusals:
    """Of one client; `settings` are librdkafka's."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._who = f"User:{settings.get('sasl.username', 'ANONYMOUS')}"
        self._sign_in: str | None = None

    def heard(self, error: KafkaError) -> None:
        """An error that belongs to no message: librdkafka's error_cb."""
        if error.code() == _SIGN_IN:
            self._sign_in = error.str()

    def find(self, client: Any, topic: str, timeout_s: float) -> Any:
        """What brokers know of the topic. Raises RefusedError; KafkaException where time runs out."""
        limit = time.monotonic() + timeout_s
        while True:
            try:
                known = client.list_topics(topic, timeout=_LOOK_S).topics[topic]
            except KafkaException:
                client.poll(0)
                if self._sign_in is not None:
                    raise RefusedError(f"{self._who} is not let in: {self._sign_in}") from None
                if time.monotonic() >= limit:
                    raise
                time.sleep(0.05)
            else:
                if known.error is not None:
                    self.check(known.error, "Describe", f"topic {topic}")
                return known

    def check(self, error: KafkaError, operation: str, resource: str) -> None:
        """Raises RefusedError where the error is a refusal of that operation."""
        if error.code() in CODES:
            raise RefusedError(self.sentence(error, operation, resource))

    def of_member(self, error: KafkaError, group: str, topics: list[str]) -> str | None:
        """A sentence where a member of a group was handed a refusal, else None."""
        match error.code():
            case KafkaError.GROUP_AUTHORIZATION_FAILED:
                return self.sentence(error, "Read", f"group {group}")
            case KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return self.sentence(error, "Read", f"topic {', '.join(topics)}")
            case KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return self.sentence(error, "do this with", "the cluster")
        return None

    def sentence(self, error: KafkaError, operation: str, resource: str) -> str:
        """Who is not allowed what, in Kafka's words."""
        return f"{self._who} is not allowed to {operation} {resource} ({error.name()})"
