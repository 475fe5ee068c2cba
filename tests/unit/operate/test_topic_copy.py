"""What `kaput replay` says about topics that do not exist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kaput.errors import UsageError
from kaput.operate.topic_copy import TopicCopy, _Copier


def why(missing: str, code: int) -> str:
    """Why a copy of a to b is refused."""
    topics = {name: SimpleNamespace(error=None, partitions={0: None}) for name in ("a", "b")}
    topics[missing].error = KafkaError(code)
    copier: Any = _Copier.__new__(_Copier)
    copier._wanted, copier._producer = TopicCopy("kafka:9092", "a", "b", "id"), None
    copier._authorization = SimpleNamespace(describe_topic=lambda _producer, topic, _timeout_s: topics[topic])
    with pytest.raises(UsageError) as raised:
        copier._partitions()
    return str(raised.value)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])
def test_missing_topic_is_named(code: int) -> None:
    """The target, too, which has to exist before."""
    assert why("a", code) == "there is no topic a"
    assert why("b", code) == "there is no topic b: create it first"


def test_other_errors_are_kafkas() -> None:
    assert why("a", KafkaError.INVALID_REPLICATION_FACTOR).startswith("a: Broker: ")
