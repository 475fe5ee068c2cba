"""Brokers added to a cluster that stands: refused while others are away, and none is left unknown."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fakes.cluster import FakeNode
from kaput.errors import BrokerError, LabError, UsageError
from kaput.operate.fault_injection import InjectedFault
from kaput.operate.standing_cluster import StandingCluster
from waiting import PATIENCE_S


class GrowingCluster:
    """Three brokers. `fails`: the new ones are not ready in time; `dies`: they end as well, and are gone."""

    def __init__(self) -> None:
        self.nodes = {number: FakeNode(number) for number in (1, 2, 3)}
        self.fails = self.dies = self.apart = False
        self.at_once = self.most_at_once = 0

    @property
    def broker_endpoints(self) -> dict[int, str]:
        return {number: f"127.0.0.1:{9090 + number}" for number in self.nodes}

    def wait_ready(self, timeout_s: float) -> None:
        if self.apart:
            raise BrokerError("not ready after 5 s: broker 1; the log of broker 1 ends: ...")

    def grow(self, count: int) -> list[int]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        first = max(self.nodes) + 1
        threading.Event().wait(0.02)
        if not self.dies:
            self.nodes |= {number: FakeNode(number) for number in range(first, first + count)}
        self.at_once -= 1
        if self.fails or self.dies:
            raise BrokerError("not ready after 60 s")
        return list(range(first, first + count))


class NoFaults:
    """Nothing is broken by kaput."""

    active: tuple[Any, ...] = ()


@pytest.fixture
def cluster() -> GrowingCluster:
    """A double of three brokers."""
    return GrowingCluster()


@pytest.fixture
def grown(cluster: GrowingCluster) -> StandingCluster:
    made = StandingCluster(brokers=3)
    made._cluster, made._faults = cluster, NoFaults()  # type: ignore[assignment]
    return made


def test_nothing_is_added_while_a_broker_is_paused_or_down(
    grown: StandingCluster, cluster: GrowingCluster
) -> None:
    """Each is named, nothing is started, and afterwards it works."""
    cluster.nodes[1].stopped, cluster.nodes[2].running = True, False
    with pytest.raises(
        UsageError, match=r"cannot add a broker while broker 2 is down and broker 1 is paused$"
    ):
        grown.grow()
    assert list(cluster.nodes) == [1, 2, 3]
    cluster.nodes[1].stopped, cluster.nodes[2].running = False, True
    assert grown.grow() == [4] and grown.brokers == [1, 2, 3, 4]


def test_nothing_is_added_while_brokers_do_not_reach_each_other(
    grown: StandingCluster, cluster: GrowingCluster
) -> None:
    """A fault is named, in a sentence; without one it is the cluster's own trouble, and nothing is added."""
    cluster.apart = True
    with pytest.raises(BrokerError, match="not ready after 5 s"):
        grown.grow()
    grown._faults.active = [InjectedFault("1-isolate", "isolate", "broker 1", [1], 0, 0, "")]  # type: ignore[misc]
    with pytest.raises(
        UsageError, match=r"not every broker can reach every other one .active faults: 1-isolate; kaput fault"
    ):
        grown.grow()
    assert list(cluster.nodes) == [1, 2, 3]


def test_added_broker_that_is_not_ready_belongs_to_the_cluster(
    grown: StandingCluster, cluster: GrowingCluster
) -> None:
    """Also where it was not ready in time: it is known, and no second one gets its number."""
    cluster.fails = True
    with pytest.raises(
        LabError, match=r"not ready after 60 s\nbroker 4 is running and belongs to the cluster"
    ):
        grown.grow()
    assert grown.brokers == [1, 2, 3, 4]
    cluster.fails, cluster.dies = False, True
    with pytest.raises(LabError, match="none was added"):
        grown.grow()
    assert grown.brokers == [1, 2, 3, 4]
    cluster.dies = False
    assert grown.grow() == [5]


def test_concurrent_grow_calls_get_different_broker_ids(
    grown: StandingCluster, cluster: GrowingCluster
) -> None:
    added: list[int] = []
    threads = [threading.Thread(target=lambda: added.extend(grown.grow())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(added) == [4, 5, 6] and cluster.most_at_once == 1
