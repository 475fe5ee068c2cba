"""A scenario on a cluster that was there before: what is not true of it is refused, the rest becomes true."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.cluster.admin import PartitionState
from kaput.cluster.admin.resources import ResourceSettings
from kaput.cluster.wire import addresses
from kaput.errors import UsageError
from kaput.runner.cluster_facts import ClusterFacts, check_unused, with_cluster_facts, with_settings
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario
from kaput.scenario.steps import FaultStep

KEY = "unclean.leader.election.enable"


def found(*brokers: int, **config: str) -> ClusterFacts:
    """A cluster of these brokers, with settings that all have (`_` for a dot)."""
    every = {key.replace("_", "."): value for key, value in config.items()}
    settings = {
        broker: ResourceSettings({"min.insync.replicas": "1", KEY: "false", **every}, every)
        for broker in brokers
    }
    places = {broker: (f"kafka-{broker}", 9092) for broker in brokers}
    return ClusterFacts(
        "id", "4.3", "kraft", places, dict.fromkeys(brokers), {"metadata.version": 29}, settings
    )


def scenario(**cluster: Any) -> Scenario:
    built = load_builtin("noop")
    return built.model_copy(update={"cluster": built.cluster.model_copy(update=cluster)})


def test_recorded_scenario_has_the_actual_cluster() -> None:
    """Whatever the file says of its own."""
    true = with_cluster_facts(
        scenario(kafka="3.9.2", brokers=7, controllers=3), found(0, 1, 2, log_cleanup_policy="compact")
    )
    assert (true.cluster.kafka, true.cluster.brokers, true.cluster.controllers) == ("4.3", 3, "combined")
    assert true.cluster.features == {"metadata.version": 29}
    assert true.cluster.config == {"min.insync.replicas": "1", KEY: "false", "log.cleanup.policy": "compact"}
    assert true.topics == scenario().topics


def test_broker_setting_that_differs_is_rejected() -> None:
    """kaput changes no broker; what they do not know of at all (ZooKeeper's) changes nothing."""
    wanted = scenario(config={KEY: True, "zookeeper.session.timeout.ms": 9000, "min.insync.replicas": 1})
    with pytest.raises(UsageError) as raised:
        with_cluster_facts(wanted, found(1, 2, 3))
    assert str(raised.value) == (
        f"cluster.config.{KEY}: the scenario has true, the cluster false; kaput does not "
        "change existing brokers; --set cluster.config={} accepts them as they are"
    )
    with pytest.raises(UsageError, match=r"cluster.features.x: the scenario has 1, the cluster 0"):
        with_cluster_facts(scenario(features={"x": 1}), found(1, 2, 3))


def test_missing_brokers_are_rejected() -> None:
    wanted = load_builtin("leader-kill-acks-all").model_copy(update={"cluster": scenario().cluster})
    with pytest.raises(UsageError, match=r"topics.0.assignment: no such broker: 3; the cluster has 0, 1, 2"):
        with_cluster_facts(wanted, found(0, 1, 2))
    with pytest.raises(UsageError, match=r"topics.0.replication-factor: 3 replicas need as many brokers"):
        with_cluster_facts(scenario(), found(0, 1))
    assert with_cluster_facts(scenario(), found(0, 1), kept={"orders"}).cluster.brokers == 2


def test_move_without_a_broker_to_go_to_is_rejected() -> None:
    """The file's cluster may have more brokers than the one that is there."""
    step = {"at": "1s", "fault": "move-replicas", "target": "leader-of orders/0"}
    moving = scenario(brokers=4).model_copy(update={"faults": [FaultStep.model_validate(step)]})
    assert with_cluster_facts(moving, found(1, 2, 3, 4)).cluster.brokers == 4
    with pytest.raises(UsageError, match=r"faults.0.target: orders has 3 replicas, and too few of 3 brokers"):
        with_cluster_facts(moving, found(1, 2, 3))
    assert with_cluster_facts(moving, found(1, 2, 3), kept={"orders"}).cluster.brokers == 3


def test_existing_topics_and_groups_are_not_used_by_default() -> None:
    """Topics may be used; groups never, since what they have read counts."""
    with pytest.raises(UsageError) as raised:
        check_unused(scenario(), {"orders", "others"}, {"billing"}, may_use=False)
    topic, group = str(raised.value).splitlines()
    assert topic.startswith("topic orders already exists") and "--use-existing-topic" in topic
    assert group.startswith("group billing already exists")
    assert check_unused(scenario(), {"orders", "others"}, {"others"}, may_use=True) == {"orders"}
    assert check_unused(scenario(), {"others"}, {"others"}, may_use=False) == frozenset()


def test_the_recorded_topics_have_their_effective_settings() -> None:
    """By which a loss is judged: what the file left out is what the cluster has."""
    effective = {"min.insync.replicas": "2", KEY: "true", "cleanup.policy": "delete", "x": "y"}
    states = {("orders", n): PartitionState(0, [0, 1], [0, 1]) for n in range(5)}
    (topic,) = with_settings(scenario(), {"orders": ResourceSettings(effective, {})}, states).topics
    assert (topic.partitions, topic.replication_factor) == (5, 2)
    assert topic.config == {"min.insync.replicas": "2", KEY: "true", "cleanup.policy": "delete"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a:1,b.c:65535", [("a", 1), ("b.c", 65535)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
    ],
)
def test_bootstrap_servers_are_parsed(text: str, wanted: list[tuple[str, int]]) -> None:
    """As Kafka's own clients read them."""
    assert addresses(text) == wanted


@pytest.mark.parametrize("text", ["", "a", "a:", "a:0", "a:70000", "a:1,,b:2", "http://a:1"])
def test_invalid_bootstrap_servers_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        addresses(text)
