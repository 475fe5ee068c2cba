"""A replay whose client cannot go on after an abort."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kaput.clients.keep import replaying
from kaput.clients.keep.replaying import Batches


class Client:
    """A producer; the first one dies of its abort."""

    made = 0

    def __init__(self, _config: dict[str, Any]) -> None:
        self.number = Client.made
        Client.made += 1
        self.fenced_others = False

    def list_topics(self, timeout: float) -> None:
        """The cluster answers."""

    def init_transactions(self, _timeout: float) -> None:
        """Ends the transactions of others with its id."""
        self.fenced_others = True

    def abort_transaction(self, _timeout: float) -> None:
        """Raises a fatal error, as librdkafka does for an abort that Kafka refuses."""
        if self.number == 0:
            raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "no transaction", fatal=True))


def test_another_client_goes_on_after_an_abort_that_ends_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fences the dead one first; an abort that works changes nothing."""
    monkeypatch.setattr(Client, "made", 0)
    monkeypatch.setattr(replaying, "Producer", Client)
    batches: Any = Batches({"bootstrap.servers": "127.0.0.1:1"}, "kept", exactly_once=True)
    batches._abort()
    assert (batches._producer.number, batches._producer.fenced_others) == (1, True)
    batches._abort()
    assert batches._producer.number == 1
