"""What removes records of a topic: a step of the timeline, retention, compaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario, compacts, deletes, retains_little
from kaput.verdict.contracts import min_isr, unclean_allowed


def _scenario(target: str = "topic dc1:orders", fault: str = "resize", **config: Any) -> Scenario:
    raw = {
        "version": 1,
        "title": "x",
        "clusters": {"dc1": {}, "dc2": {"config": {"log.retention.ms": 1000}}},
        "mirrors": [{"from": "dc1", "to": "dc2", "topics": ["orders"]}],
        "topics": [{"name": "orders", "config": config}],
        "workload": {"producers": [{"topic": "orders", "messages": 10}]},
        "faults": [{"at": "1s", "fault": fault, "target": target}],
    }
    return Scenario.model_validate(raw)


def test_resize_step_affects_only_its_topic() -> None:
    """Of the cluster that it names, else of the first; deleting records adds no partition."""
    named = _scenario("topic dc2:orders")
    assert (named.resizes("orders", "dc1"), named.resizes("orders", "dc2")) == (False, True)
    first = _scenario("topic orders")
    assert (first.resizes("orders", "dc1"), first.resizes("orders", "dc2")) == (True, False)
    assert not _scenario(fault="delete-records").resizes("orders", "dc1")


def test_cluster_retention_applies_to_topics_without_their_own() -> None:
    """Where the topic has none of its own."""
    scenario = _scenario()
    assert (retains_little(scenario, "dc1:orders"), retains_little(scenario, "dc2:orders")) == (False, True)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (True, False, False)),
        ({"retention.ms": 1000}, (True, False, True)),
        ({"cleanup.policy": "compact", "retention.ms": 1000}, (False, True, False)),
        ({"cleanup.policy": "compact,delete", "retention.bytes": 9}, (True, True, True)),
    ],
)
def test_topic_cleanup_policy_and_retention(
    config: dict[str, Any], expected: tuple[bool, bool, bool]
) -> None:
    """Whether it deletes, compacts, and retains little."""
    scenario = _scenario(**config)
    assert tuple(ask(scenario, "dc1:orders") for ask in (deletes, compacts, retains_little)) == expected


def test_settings_that_a_step_changes_count_while_they_are_set() -> None:
    """The topic's own for this topic, brokers' for each topic without its own; the weaker one decides."""
    change = {"at": "1s", "fault": "change-config", "target": "topic messages", "for": "1s"}
    config = {"min.insync.replicas": 1, "retention.ms": 1000, "unclean.leader.election.enable": True}
    found = load_builtin("consumer-failover", [f"faults={json.dumps([{**change, 'config': config}])}"])
    assert (min_isr(found, "messages"), unclean_allowed(found, "messages")) == (1, True)
    assert retains_little(found, "messages")
    change |= {"target": "all", "config": {"log.retention.ms": 1000}}
    found = load_builtin("consumer-failover", [f"faults={json.dumps([change])}"])
    assert retains_little(found, "messages") and not unclean_allowed(found, "messages")
    assert min_isr(found, "messages") == 2


def test_acks_all_requires_no_more_replicas_than_there_are() -> None:
    """As brokers do, also where a step raises the minimum; more of them once a step adds replicas."""
    one = ["topics.0.replication-factor=1", "topics.0.config.min.insync.replicas=2", "faults=[]"]
    assert min_isr(load_builtin("consumer-failover", one), "messages") == 1
    grown = {"at": "1s", "fault": "reassign", "target": "cluster", "replication-factor": 3}
    assert (
        min_isr(load_builtin("consumer-failover", [*one[:2], f"faults={json.dumps([grown])}"]), "messages")
        == 2
    )
