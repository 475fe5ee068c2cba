"""One poll of a cluster, with nodes that answer as brokers do, or not at all."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from types import SimpleNamespace as Answer
from typing import Any

import pytest

from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered
from kaput.errors import LabError, UsageError
from kaput.monitor.signals import SIGNALS
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.monitor.sources.nodes import NodeJob

SEEDS = "h:1,h:2"


class Brokers:
    """So many brokers, of which some are away; broker 1 leads orders/0 and the quorum."""

    def __init__(self, count: int) -> None:
        self.ids = list(range(1, count + 1))
        self.away: set[int] = set()
        self.refuses = False
        self.direct: set[int] = set()  # who answers for the controller even so
        self.asked: list[tuple[int, str]] = []
        self.silent: dict[Endpoint, LabError] = {}
        self.requests = 0
        self.has_controller = True

    def begin(self) -> None:
        self.silent, self.asked = {}, []

    def close(self) -> None:
        """Nothing to let go."""

    def forget_all_but(self, endpoints: set[Endpoint]) -> None:
        """Nothing to forget."""

    def supports(self, endpoint: Endpoint, number: int) -> bool:
        return True

    def run(self, jobs: Mapping[Hashable, NodeJob]) -> dict[Hashable, Any]:
        found: dict[Hashable, Any] = {}
        for key, job in jobs.items():
            if job.endpoint in self.silent:
                continue
            try:
                found[key] = job.work(lambda request, job=job: self._answer(job, request))
            except LabError as error:
                if not job.forwarded:
                    self.silent[job.endpoint] = error
        return found

    def _answer(self, job: NodeJob, request: Any) -> Any:
        broker, name = job.endpoint.port, type(request).__name__
        self.asked.append((broker, name))
        if self.refuses:
            raise AccessRefused("wrong password")
        if broker in self.away or (job.forwarded and not self.has_controller and broker not in self.direct):
            raise Unanswered(f"h:{broker} is away")
        return getattr(self, name)(request)

    def MetadataRequest(self, request: Any) -> Any:
        alive = [broker for broker in self.ids if broker not in self.away]
        partition = Answer(
            partition_index=0, leader_id=alive[0], leader_epoch=1, replica_nodes=self.ids, isr_nodes=alive
        )
        return Answer(
            controller_id=1,
            brokers=[Answer(node_id=broker, host="h", port=broker) for broker in alive],
            topics=[Answer(name="orders", topic_id="id", partitions=[partition])],
        )

    def ListGroupsRequest(self, request: Any) -> Any:
        return Answer(error_code=0, groups=[])

    def DescribeQuorumRequest(self, request: Any) -> Any:
        partition = Answer(error_code=0, leader_id=1, leader_epoch=1, high_watermark=5, current_voters=[])
        nodes = [Answer(node_id=9, listeners=[Answer(host="h", port=9)])]
        return Answer(error_code=0, topics=[Answer(partitions=[partition])], nodes=nodes)

    def ListPartitionReassignmentsRequest(self, request: Any) -> Any:
        return Answer(error_code=0, topics=[])

    def DescribeConfigsRequest(self, request: Any) -> Any:
        setting = Answer(name="min.insync.replicas", value="2")
        return Answer(results=[Answer(resource_name="orders", error_code=0, configs=[setting])])

    def DescribeLogDirsRequest(self, request: Any) -> Any:
        return Answer(error_code=0, results=[Answer(error_code=0, total_bytes=10, usable_bytes=5)])


def state(brokers: Brokers) -> ClusterState:
    return ClusterState(SEEDS, nodes=brokers)  # type: ignore[arg-type]


def polled(found: ClusterState) -> dict[tuple[str, ...], float]:
    samples = found.poll()
    assert all(set(sample.labels) == set(SIGNALS[sample.name].labels) for sample in samples)
    return {(s.name.removeprefix("kaput_"), *s.labels.values()): s.value for s in samples}


def test_brokers_are_discovered_through_any_bootstrap_server() -> None:
    brokers = Brokers(3)
    brokers.away = {1}
    found = polled(state(brokers))
    assert {b: found["broker_up", b] for b in "123"} == {"1": 0, "2": 1, "3": 1}
    assert found["under_replicated_partitions", "2"] == 1 and found["under_min_isr_partitions",] == 0
    assert found["cluster_reachable",] == 1


def test_groups_polled_on_all_brokers_and_metadata_in_rotation() -> None:
    """Of many brokers each is heard of in each poll; views are asked for in turn."""
    brokers = Brokers(12)
    one = state(brokers)
    one.poll()
    viewed = []
    for _ in range(3):
        brokers.begin()
        found = polled(one)
        assert {b for b, name in brokers.asked if name == "ListGroupsRequest"} == set(brokers.ids)
        viewed.append({b for b, name in brokers.asked if name == "MetadataRequest"})
        assert sum(found["broker_answers", str(b)] for b in brokers.ids) == 12
    assert [len(some) for some in viewed] == [5, 5, 5] and set().union(*viewed) == set(brokers.ids)


def test_unreachable_cluster_is_unknown_until_it_recovers() -> None:
    brokers = Brokers(3)
    one = state(brokers)
    before = polled(one)
    brokers.away = {1, 2, 3}
    found = polled(one)
    assert (found["cluster_reachable",], one.reached) == (0, False)
    assert {found["broker_answers", b] for b in "123"} == {0}
    unknown = {key for key in before if key[0] not in ("cluster_reachable", "broker_answers")}
    unknown.remove(("unclean_elections_total",))
    assert unknown and all(math.isnan(found[key]) for key in unknown)
    assert len(one.troubles) == 3
    brokers.away = set()
    assert polled(one) == before


def test_unreachable_cluster_at_start_has_no_other_signals() -> None:
    brokers = Brokers(3)
    brokers.away = {1, 2, 3}
    assert polled(state(brokers)) == {("cluster_reachable",): 0}


def test_missing_controller_counts_as_zero_active_controllers() -> None:
    brokers = Brokers(3)
    brokers.has_controller = False
    found = polled(state(brokers))
    assert found["active_controllers",] == 0 and math.isnan(found["reassigning_partitions",])
    assert found["broker_answers", "1"] == 1


def test_discovered_controllers_are_queried_directly() -> None:
    """What brokers pass on to a controller that was cut off may hang, while another one is active."""
    brokers = Brokers(3)
    one = state(brokers)
    one.poll()
    brokers.has_controller, brokers.direct = False, {9}
    assert polled(one)["active_controllers",] == 1
    brokers.direct = set()
    assert polled(one)["active_controllers",] == 0
    brokers.has_controller = True
    assert polled(one)["active_controllers",] == 1


def test_topic_configs_are_not_fetched_on_every_poll() -> None:
    brokers = Brokers(3)
    one = state(brokers)
    assert polled(one)["spare_replicas", "orders"] == 1
    brokers.begin()
    assert polled(one)["spare_replicas", "orders"] == 1
    assert not {"DescribeConfigsRequest", "DescribeLogDirsRequest"} & {name for _, name in brokers.asked}


def test_access_refused_is_fatal_only_on_first_poll() -> None:
    brokers = Brokers(3)
    brokers.refuses = True
    with pytest.raises(AccessRefused):
        state(brokers).poll()
    brokers.refuses = False
    one = state(brokers)
    one.poll()
    brokers.refuses = True
    assert polled(one)["cluster_reachable",] == 0 and "wrong password" in one.troubles[0]


def test_invalid_bootstrap_servers_are_rejected() -> None:
    with pytest.raises(UsageError):
        ClusterState("nonsense")
