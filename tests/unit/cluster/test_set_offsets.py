"""Groups are listed, and their offsets set, also in a cluster whose coordinator is not ready yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kaput.cluster.admin import groups
from kaput.cluster.admin.groups import GroupAdmin
from kaput.cluster.wire import Endpoint
from kaput.core import TopicPartition
from kaput.errors import LabError

NOT_AVAILABLE, LOADING, UNKNOWN_MEMBER = 15, 14, 25


class Refusing(GroupAdmin):
    """The cluster refuses the first commits with these errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: int) -> None:
        endpoints = {1: Endpoint("127.0.0.1", 1)}
        cluster = SimpleNamespace(broker_endpoints=endpoints, controller_endpoints={}, zookeeper_endpoints={})
        super().__init__(cluster, 60)
        self.errors = [*errors, 0]
        monkeypatch.setattr(groups, "ask", self._answer)

    def coordinator(self, group: str) -> int:
        return 1

    def _answer(self, endpoint: Endpoint, request: Any, timeout_s: float) -> Any:
        partition = SimpleNamespace(partition_index=0, error_code=self.errors.pop(0))
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[partition])])


def test_coordinator_that_is_not_ready_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cold cluster: it has no coordinator yet, then loads it."""
    with Refusing(monkeypatch, NOT_AVAILABLE, LOADING) as admin:
        admin.commit("billing", {TopicPartition("orders", 0): 7})
        assert admin.errors == []


def test_permanent_commit_error_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group with members keeps its positions."""
    with (
        Refusing(monkeypatch, UNKNOWN_MEMBER) as admin,
        pytest.raises(LabError, match="offset of billing in orders/0 cannot be set: UNKNOWN_MEMBER_ID"),
    ):
        admin.commit("billing", {TopicPartition("orders", 0): 7})
    assert admin.errors == [0]


def test_groups_of_a_coordinator_that_loads_them_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just started: none of its groups is known before it has read them."""
    billing = SimpleNamespace(group_id="billing", protocol_type="consumer")
    with Refusing(monkeypatch, LOADING) as admin:

        def ask_all(*_: Any) -> dict[int, Any]:
            error = admin.errors.pop(0)
            return {1: SimpleNamespace(error_code=error, groups=[] if error else [billing])}

        monkeypatch.setattr(admin._broadcaster, "ask_all", ask_all)
        monkeypatch.setattr(admin, "_coordinators", lambda: {1})
        assert admin.groups() == ["billing"]
        assert admin.errors == []
