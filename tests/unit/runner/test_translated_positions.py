"""Positions are set also in a cluster whose coordinator is not ready yet."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.cluster.access import OPEN
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.runner.mirrors import watching
from kaput.runner.mirrors.watching import commit_positions

ORDERS = {TopicPartition("orders", 0): 7}


class Refusing:
    """A client whose cluster refuses the first commits with these errors."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.committed: list[int] = []

    def commit(self, offsets: list[PartitionOffset], asynchronous: bool) -> list[PartitionOffset]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        self.committed += [at.offset for at in offsets]
        return offsets

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_RETRY_S", 0)


def test_coordinator_not_available_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cold cluster: it has no coordinator yet, then loads it."""
    client = Refusing(KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    monkeypatch.setattr(watching, "_consumer", lambda *_: client)
    commit_positions("x:1", OPEN, "billing", ORDERS)
    assert client.committed == [7]


def test_permanent_commit_error_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group with members keeps its positions."""
    client = Refusing(KafkaError.UNKNOWN_MEMBER_ID, KafkaError.UNKNOWN_MEMBER_ID)
    monkeypatch.setattr(watching, "_consumer", lambda *_: client)
    with pytest.raises(LabError, match="the positions of billing could not be set"):
        commit_positions("x:1", OPEN, "billing", ORDERS)
    assert client.committed == [] and len(client.errors) == 1
