"""Scenarios with several clusters and mirrors between them: what follows from a file, and each mistake."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario, single_cluster
from kaput.scenario.source import dotted

TWO = {"dc1": {"controllers": 1, "network": "namespaces"}, "dc2": {"brokers": 1, "network": "namespaces"}}
MIRROR = {"from": "dc1", "to": "dc2", "topics": ["orders"], "groups": ["billing"]}


def raw(**changes: Any) -> dict[str, Any]:
    """A file with two clusters and a mirror."""
    return {
        "version": 1,
        "title": "x",
        "clusters": TWO,
        "mirrors": [MIRROR],
        "topics": [{"name": "orders", "partitions": 2}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10}],
            "groups": [
                {"id": "billing", "topics": ["orders"]},
                {"id": "spare", "topics": ["orders"], "cluster": "dc2"},
            ],
        },
        **changes,
    }


def read(**changes: Any) -> Scenario:
    """The same as a scenario."""
    return Scenario.model_validate(raw(**changes))


def mistakes(**changes: Any) -> dict[str, str]:
    return {dotted(each.path): each.text for each in check(read(**changes))}


def test_node_ids_are_unique_across_clusters() -> None:
    """The first cluster's are those of a single one; the second's are 1000 higher."""
    first, second = read().all_clusters.values()
    assert (first.broker_ids(), first.voter_ids()) == ([1, 2, 3], [101])
    assert (second.broker_ids(), second.voter_ids()) == ([1001], [1001])
    assert second.may_have(1001) and not second.may_have(1)
    assert read().cluster == first


def test_only_topics_that_are_gone_for_good_count_as_deleted() -> None:
    """And only in the cluster of the step."""
    steps = [("delete-topic", "topic dc2:orders"), ("recreate", "topic orders")]
    scenario = read(faults=[{"at": "1s", "fault": fault, "target": target} for fault, target in steps])
    assert scenario.deleted_topics("dc1") == []
    assert [topic.name for topic in scenario.deleted_topics("dc2")] == ["orders"]


def test_blocks_without_cluster_default_to_the_first() -> None:
    """Topics, producers and groups; the recorded scenario says so, and reads back the same."""
    scenario = read()
    assert [each.cluster for each in scenario.topics] == ["dc1"]
    assert [each.cluster for each in scenario.workload.producers] == ["dc1"]
    assert [each.cluster for each in scenario.workload.groups] == ["dc1", "dc2"]
    dumped = scenario.dump()
    assert "cluster" not in dumped and list(dumped["clusters"]) == ["dc1", "dc2"]
    assert Scenario.model_validate(dumped).dump() == dumped and not check(Scenario.model_validate(dumped))


def test_single_cluster_scenario_records_no_cluster_name() -> None:
    """Nothing of several clusters is in what is recorded of it."""
    one = Scenario.model_validate({**raw(clusters={}, mirrors=[]), "workload": {"producers": [
        {"topic": "orders", "messages": 10}]}})  # fmt: skip
    assert not check(one) and list(one.all_clusters) == [""]
    assert not {"clusters", "mirrors"} & set(one.dump())
    assert all(
        "cluster" not in block for block in (*one.dump()["topics"], *one.dump()["workload"]["producers"])
    )


@pytest.mark.parametrize(("policy", "name"), [("identity", "orders"), ("default", "dc1.orders")])
def test_mirror_creates_topics_on_the_target_cluster(policy: str, name: str) -> None:
    """With the partitions of the source, and no more replicas than the target has brokers."""
    scenario = read(mirrors=[MIRROR | {"policy": policy}], workload=raw()["workload"] | {"groups": []})
    copy = scenario.topic(f"dc2:{name}")
    assert copy is not None and (copy.partitions, copy.replication_factor) == (2, 1)
    assert [each.full_name for each in scenario.all_topics()] == ["dc1:orders", f"dc2:{name}"]
    assert scenario.topic(name, "dc2") == copy and scenario.topic("orders") == scenario.topics[0]


def test_mirrors_can_be_chained() -> None:
    """From the first cluster to the second, and on to the third."""
    onward = {"from": "dc2", "to": "dc3", "topics": ["orders"]}
    scenario = read(clusters=TWO | {"dc3": {"network": "namespaces"}}, mirrors=[onward, MIRROR])
    assert not check(scenario)
    assert scenario.topic("dc3:orders") is not None


def test_scenario_is_split_into_single_cluster_scenarios() -> None:
    """With its own topics and clients, and those topics that mirrors make, where they are asked for."""
    scenario = read()
    first, second = (single_cluster(scenario, name) for name in ("dc1", "dc2"))
    assert first.cluster.broker_ids() == [1, 2, 3] and second.cluster.broker_ids() == [1001]
    assert not first.clusters and not first.mirrors and not check(first)
    assert [each.id for each in first.workload.groups] == ["billing"]
    assert [each.id for each in second.workload.groups] == ["spare"]
    assert second.workload.producers == second.topics == []
    (copy,) = single_cluster(scenario, "dc2", copied=True).topics
    assert (copy.name, copy.cluster) == ("orders", None)
    single = Scenario.model_validate(first.dump())
    assert single_cluster(single, "") is single


def test_exactly_once_mirror_makes_scenario_transactional() -> None:
    """So that the log is read as readers with read_committed see it, too."""
    assert not read().transactional
    assert read(mirrors=[MIRROR | {"exactly-once": True}]).transactional


def test_topic_defined_on_target_is_not_duplicated_by_mirror() -> None:
    """A topic of the same name in the target is the scenario's own."""
    topics = [*raw()["topics"], {"name": "orders", "cluster": "dc2", "replication-factor": 1}]
    scenario = read(topics=topics)
    assert not check(scenario)
    assert [each.full_name for each in scenario.all_topics()] == ["dc1:orders", "dc2:orders"]


@pytest.mark.parametrize(
    "step",
    [
        {"fault": "isolate", "target": "cluster dc1", "from": "dc2"},
        {"fault": "isolate", "target": "cluster dc1"},
        {"fault": "cut", "target": "cluster dc1", "from": ["cluster dc2", "clients"], "direction": "in"},
        {"fault": "cut", "target": "broker 1", "from": "mirror dc1->dc2"},
        {"fault": "kill", "target": "mirror dc1->dc2", "for": "1s"},
        {"fault": "kill", "target": "cluster dc2"},
        {"fault": "bandwidth", "target": "mirror dc1->dc2", "rate": "500kbit", "direction": "in"},
        {"fault": "cut", "target": "mirror dc1->dc2", "from": "dc1", "for": "1s"},
        {"fault": "pause", "target": "leader-of dc2:orders/1", "for": "1s"},
        {"fault": "kill", "target": "broker 1001"},
        {"fault": "delete-topic", "target": "topic orders"},
    ],
)
def test_valid_faults_on_clusters_and_mirrors(step: dict[str, Any]) -> None:
    assert mistakes(faults=[{"at": "1s", **step}]) == {}


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"cluster": {}}, "cluster", "clusters is also given; write only one of the two"),
        ({"clusters": {}}, "mirrors", "mirrors need several clusters"),
        ({"clusters": TWO | {"clients": TWO["dc2"]}}, "clusters.clients", "a reserved word"),
        ({"clusters": TWO | {"dc3": {}}}, "clusters.dc3.network", "loopback in dc3 and namespaces in dc1"),
        ({"clusters": {"dc1": {"mode": "zookeeper"}}}, "clusters.dc1.mode", "need mode: kraft"),
        ({"mirrors": [MIRROR | {"to": "dc3"}]}, "mirrors.0.to", "no such cluster: dc3; did you mean"),
        ({"mirrors": [MIRROR, MIRROR]}, "mirrors.1", "mirror dc1->dc2 is listed twice"),
        ({"mirrors": [MIRROR | {"groups": ["bilingo"]}]}, "mirrors.0.groups.0", "did you mean billing?"),
        (
            {"mirrors": [MIRROR | {"topics": ["orders", "order"]}]},
            "mirrors.0.topics.1",
            "did you mean orders?",
        ),
        ({"mirrors": [MIRROR | {"refresh": "1500ms"}]}, "mirrors.0.refresh", "whole seconds"),
        (
            {"mirrors": [MIRROR | {"config": {"sync.group.offsets.enabled": True}}]},
            "mirrors.0.config.sync.group.offsets.enabled",
            "use the key groups",
        ),
        (
            {"topics": [{"name": "orders", "cluster": "dc"}]},
            "topics.0.cluster",
            "no such cluster: dc; did you",
        ),
        ({"topics": [{"name": "orders"}] * 2}, "topics.1.name", "a second topic named dc1:orders"),
    ],
)
def test_invalid_clusters_or_mirrors_are_rejected(changes: dict[str, Any], path: str, text: str) -> None:
    """At its key, with what would be right."""
    found = mistakes(**changes)
    assert path in found and text in found[path]


@pytest.mark.parametrize(
    ("step", "key", "text"),
    [
        ({"fault": "isolate", "target": "cluster dc3"}, "target", "no such cluster: dc3; did you mean dc"),
        ({"fault": "grow", "target": "cluster dc2"}, "target", "write target: cluster"),
        ({"fault": "isolate", "target": "cluster dc1", "from": "dc1"}, "from", "cannot be cut from itself"),
        ({"fault": "isolate", "target": "broker 1", "from": "dc2"}, "from", "unless it hits cluster NAME"),
        ({"fault": "cut", "target": "broker 1", "from": "dc3"}, "from", "no such cluster: dc3"),
        ({"fault": "kill", "target": "mirror dc2->dc1"}, "target", "no such mirror: dc2->dc1; did you mean"),
        ({"fault": "flap", "target": "mirror dc1->dc2"}, "target", "flap does not hit mirrors; kill"),
        ({"fault": "kill", "target": "broker 7"}, "target", "brokers are 1 to 3 and 1001 to 1001"),
        ({"fault": "kill", "target": "leader-of dc3:orders/0"}, "target", "no such cluster: dc3"),
        ({"fault": "kill", "target": "leader-of dc2:order/0"}, "target", "no such topic in dc2: order; did"),
        ({"fault": "kill", "target": "leader-of dc2:orders/2"}, "target", "orders has 2, counted from 0"),
    ],
)
def test_invalid_multi_cluster_fault_is_rejected(step: dict[str, Any], key: str, text: str) -> None:
    """At its key, with the nearest valid word."""
    found = mistakes(faults=[{"at": "1s", **step}])
    assert text in found[f"faults.0.{key}"]


def test_cluster_name_is_rejected_with_a_single_cluster() -> None:
    """Is a mistake wherever it is written."""
    found = mistakes(
        clusters={},
        mirrors=[],
        faults=[{"at": "1s", "fault": "cut", "from": "dc2", "target": "cluster dc1"}],
        topics=[{"name": "orders", "cluster": "dc1"}],
    )
    assert "has no name" in found["topics.0.cluster"] and "has no name" in found["faults.0.target"]
    assert "'dc2' is not a party; write controllers" in found["faults.0.from"]


def test_clusters_block_is_rejected_for_an_existing_cluster() -> None:
    """There, kaput starts no brokers."""
    found = {dotted(each.path): each.text for each in check(read(mirrors=[]), existing=True)}
    assert "does not start others" in found["clusters"] and "cluster" not in found


def test_mirror_expectation_requires_a_mirror() -> None:
    """Without one there is nothing to compare; another word is no expectation."""
    assert mistakes(expect={"mirror": "identical"}) == {}
    found = mistakes(expect={"mirror": "identical"}, mirrors=[])
    assert found["expect.mirror"] == "there is no mirror to compare; write mirrors:, or leave this out"
    with pytest.raises(ValidationError, match="Input should be 'identical'"):
        read(expect={"mirror": "good"})


def test_settings_of_a_topic_are_those_of_its_own_cluster() -> None:
    """Under the topic's name or the broker's; also of a topic that the scenario does not create."""
    config = {"log.flush.interval.messages": 1, "log.cleanup.policy": "compact", "min.insync.replicas": 2}
    of_dc2 = {**TWO, "dc2": {**TWO["dc2"], "config": config}}
    scenario = read(clusters=of_dc2, topics=[{"name": "orders"}, {"name": "bills", "cluster": "dc2"}])

    def settings(topic: str) -> list[str]:
        names = [("flush.messages", "log.flush.interval.messages"), ("cleanup.policy", "log.cleanup.policy")]
        found = [scenario.topic_setting(topic, own, "-", of_brokers) for own, of_brokers in names]
        return [*found, scenario.topic_setting(topic, "min.insync.replicas", "1")]

    assert settings("dc2:bills") == settings("dc2:unknown") == settings("dc2:orders") == ["1", "compact", "2"]
    assert settings("dc1:orders") == settings("orders") == ["-", "-", "1"]


def test_replicas_after_a_step_fit_the_cluster_that_it_is_in() -> None:
    """dc2 has one broker, and dc1 has three."""
    step = {"at": "1s", "fault": "reassign", "replication-factor": 3}
    assert "dc1" not in str(mistakes(faults=[step | {"target": "cluster dc1"}]).get("faults.0.target", ""))
    assert mistakes(faults=[step | {"target": "cluster dc2"}])
