"""What must agree between blocks: each disagreement is found, at its path, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Cluster, Producers, Scenario, Topic
from kaput.scenario.source import dotted


def document() -> dict[str, Any]:
    """A scenario without a mistake, with one of everything that can disagree."""
    return {
        "version": 1,
        "title": "x",
        "cluster": {"brokers": 3},
        "topics": [
            {"name": "a", "partitions": 2, "replication-factor": 3, "assignment": [[1, 2, 3], [2, 3, 1]]},
            {"name": "single", "replication-factor": 1},
        ],
        "workload": {
            "producers": [{"topic": "a", "messages": 10, "count": 2}, {"topic": "single", "messages": 5}],
            "groups": [{"id": "g", "topics": ["a", "single"]}],
        },
        "faults": [{"at": {"message": 25}, "fault": "kill", "target": "leader-of a/1"}],
    }


def found(raw: dict[str, Any]) -> dict[str, str]:
    return {dotted(m.path): m.text for m in check(Scenario.model_validate(raw))}


def put(raw: dict[str, Any], path: str, value: Any) -> None:
    """Sets one value; config keys are written with / for the dots they hold."""
    *parents, last = [int(p) if p.isdigit() else p.replace("/", ".") for p in path.split(".")]
    block: Any = raw
    for part in parents:
        block = block[part] if isinstance(part, int) else block.setdefault(part, {})
    block[last] = value


def test_valid_scenario_passes_all_checks() -> None:
    """The base of all other cases is clean."""
    assert found(document()) == {}


@pytest.mark.parametrize(
    ("path", "value", "place", "said"),
    [
        ("cluster.kafka", "latest", "cluster.kafka", "not a version"),
        ("topics.1.name", "a", "topics.1.name", "a second topic"),
        ("topics.1.name", "__x", "topics.1.name", "Kafka's own"),
        ("topics.1.replication-factor", 4, "topics.1.replication-factor", "there are 3"),
        ("topics.0.assignment", [[1, 2, 3]], "topics.0.assignment", "1 lists of replicas for 2 partitions"),
        ("topics.0.assignment", [[1, 2, 3], [1, 2, 4]], "topics.0.assignment.1", "no such broker: 4"),
        ("topics.0.assignment", [[1, 2, 3], [1, 2, 2]], "topics.0.assignment.1", "only one replica"),
        ("topics.0.assignment", [[1, 2, 3], [1, 2]], "topics.0.assignment.1", "replication-factor is 3"),
        ("topics.0.assignment", [[1, 2, 3], []], "topics.0.assignment.1", "0 replicas"),
        (
            "topics.0.config",
            {"min.insync.replicas": "x"},
            "topics.0.config.min.insync.replicas",
            "not a number",
        ),
        ("cluster.config", {"min.insync.replicas": 0}, "cluster.config.min.insync.replicas", "not a number"),
        ("workload.producers.0.topic", "b", "workload.producers.0.topic", "no such topic: b"),
        ("workload.producers.0.duration", "5s", "workload.producers.0.duration", "messages is also given"),
        ("workload.producers.1", {"topic": "a"}, "workload.producers.1", "neither messages nor duration"),
        ("workload.producers.0.config", {"acks": 1}, "workload.producers.0.config.acks", "use the key acks"),
        (
            "workload.producers.0.config",
            {"enable.idempotence": True},
            "workload.producers.0.config.enable.idempotence",
            "use the key idempotence",
        ),
        (
            "workload.producers.0.config",
            {"bootstrap.servers": "x"},
            "workload.producers.0.config.bootstrap.servers",
            "leave it out",
        ),
        (
            "workload.producers.0.config",
            {"partitioner": "random"},
            "workload.producers.0.config.partitioner",
            "use the key partitioner",
        ),
        (
            "workload.groups.0.config",
            {"group.id": "x"},
            "workload.groups.0.config.group.id",
            "use the key id",
        ),
        ("workload.groups.0.topics", ["a", "c"], "workload.groups.0.topics.1", "no such topic: c"),
        ("workload.groups.0.topics", ["a", "a"], "workload.groups.0.topics.1", "twice"),
        ("faults.0.at", {"message": 26}, "faults.0.at.message", "more than the 25 messages"),
        ("faults.0.target", "leader-of b/0", "faults.0.target", "no such topic: b"),
        ("faults.0.target", "leader-of a/2", "faults.0.target", "a has 2, counted from 0"),
        ("faults.0.target", "followers-of single/0", "faults.0.target", "no followers"),
        ("faults.0.target", "broker 4", "faults.0.target", "brokers are 1 to 3"),
        ("faults.0.target", "broker 0", "faults.0.target", "brokers are 1 to 3"),
        ("faults.0.target", "coordinator-of h", "faults.0.target", "no such group: h"),
    ],
)
def test_each_inconsistency_is_reported_at_its_path(path: str, value: Any, place: str, said: str) -> None:
    """One change to a clean scenario brings exactly one mistake, where the change is."""
    raw = document()
    put(raw, path, value)
    if path == "topics.1.name":  # what used to name that topic is not the point here
        del raw["workload"]["producers"][1], raw["workload"]["groups"]
        raw["faults"] = []
    mistakes = found(raw)
    assert list(mistakes) == [place], mistakes
    assert said in mistakes[place]


def test_duplicate_group_id_is_rejected() -> None:
    """Its members would join the first one."""
    raw = document()
    raw["workload"]["groups"] *= 2
    assert list(found(raw)) == ["workload.groups.1.id"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"acks": 1}, "acks"),
        ({"config": {"max.in.flight": 6}}, "config.max.in.flight"),
        (
            {"config": {"max.in.flight.requests.per.connection": 100}},
            "config.max.in.flight.requests.per.connection",
        ),
        ({"config": {"retries": 0}}, "config.retries"),
    ],
)
def test_idempotence_rejects_incompatible_producer_settings(change: dict[str, Any], place: str) -> None:
    """Kafka refuses idempotence without all acks, with more than 5 in flight, or without retries."""
    raw = document()
    raw["workload"]["producers"][0] |= change
    assert found(raw) == {}
    raw["workload"]["producers"][0]["idempotence"] = True
    assert list(found(raw)) == [f"workload.producers.0.{place}"]


def test_message_trigger_requires_message_bounded_producers() -> None:
    """With producers bounded by time there may be no such message."""
    raw = document()
    raw["workload"]["producers"][1] = {"topic": "a", "duration": "5s"}
    assert list(found(raw)) == ["faults.0.at"]


@pytest.mark.parametrize("name", ["listeners", "node.id", "log.dirs", "process.roles", "zookeeper.connect"])
def test_per_node_broker_configs_cannot_be_set(name: str) -> None:
    """It would be the same in all of them, and none would come up."""
    with pytest.raises(ValidationError, match=f"kaput sets {name} itself, to a different value on each node"):
        Cluster.model_validate({"config": {name: "x", "num.partitions": 3}})
    assert Cluster.model_validate({"config": {"num.partitions": 3}}).config == {"num.partitions": 3}


def test_fault_at_or_after_end_of_workload_is_rejected() -> None:
    """Known where time bounds every producer; the moment of the end itself is too late as well."""
    raw = document()
    raw["workload"]["producers"] = [{"topic": "a", "duration": "5s"}]
    raw["faults"][0]["at"] = "4s"
    assert found(raw) == {}
    raw["faults"][0]["at"] = "5s"
    assert "lasts 5s" in found(raw)["faults.0.at"]


def test_minority_target_requires_three_brokers() -> None:
    """A minority of two brokers is nobody."""
    raw = document()
    raw["cluster"]["brokers"] = 2
    raw["topics"] = [{"name": "a", "replication-factor": 1}]
    raw["workload"] = {"producers": [{"topic": "a", "messages": 30}]}
    raw["faults"][0]["target"] = "minority"
    assert list(found(raw)) == ["faults.0.target"]


def test_zookeeper_mode_requires_kafka_3_9_or_older() -> None:
    """Without a version it is the last one that has it; a newer one is a mistake, an older one is not."""
    raw = document()
    raw["cluster"]["mode"] = "zookeeper"
    raw["cluster"].pop("kafka", None)
    assert Scenario.model_validate(raw).cluster.kafka == "3.9.2"
    assert found(raw) == {}
    raw["cluster"]["kafka"] = "3.6.0"
    assert found(raw) == {}
    raw["cluster"]["kafka"] = "4.3.1"
    (text,) = found(raw).values()
    assert text == "Kafka 4.3.1 has no ZooKeeper mode; leave it out or write 3.9.2"


def test_zookeeper_target_requires_zookeeper_mode() -> None:
    """In KRaft mode there is nobody to hit."""
    raw = document()
    raw["faults"][0]["target"] = "zookeeper"
    assert list(found(raw)) == ["faults.0.target"]
    raw["cluster"]["mode"] = "zookeeper"
    raw["cluster"].pop("kafka", None)
    assert found(raw) == {}


def test_node_ids_in_zookeeper_mode() -> None:
    """No voters and no dedicated controllers, but ZooKeeper nodes from 201 on; none of these in KRaft."""
    cluster = Cluster.model_validate({"mode": "zookeeper", "controllers": 3, "zookeepers": 3})
    assert cluster.voter_ids() == cluster.dedicated_controller_ids() == []
    assert cluster.zookeeper_ids() == [201, 202, 203]
    assert Cluster(zookeepers=3).zookeeper_ids() == []


SHARE = {"id": "g", "type": "share", "topics": ["a"]}


@pytest.mark.parametrize(
    ("group", "place", "said"),
    [
        ({"release-every": 5}, "release-every", "needs acknowledge: explicit"),
        ({"reject-every": 5}, "reject-every", "needs acknowledge: explicit"),
        ({"type": "classic", "acknowledge": "explicit"}, "acknowledge", "is for share groups"),
        ({"type": "classic", "group-config": {"a": 1}}, "group-config", "is for share groups"),
        (
            {"group-config": {"share.delivery.count.limit": "x"}},
            "group-config.share.delivery.count.limit",
            "'x'",
        ),
        (
            {"config": {"share.acknowledgement.mode": "explicit"}},
            "config.share.acknowledgement.mode",
            "acknowledge",
        ),
    ],
)
def test_share_group_settings_are_validated(group: dict[str, Any], place: str, said: str) -> None:
    """Its settings make sense together, and are no other group's."""
    raw = document()
    raw["workload"]["groups"] = [{**SHARE, **group}]
    ((path, text),) = found(raw).items()
    assert path == f"workload.groups.0.{place}"
    assert said in text


@pytest.mark.parametrize("cluster", [{"mode": "zookeeper"}, {"kafka": "4.1.2"}, {"kafka": "3.9.2"}])
def test_share_groups_require_kafka_4_2(cluster: dict[str, str]) -> None:
    """4.2 was the first with share groups that need not be switched on."""
    raw = document()
    raw["workload"]["groups"] = [SHARE]
    assert found(raw) == {}
    raw["cluster"] |= cluster
    assert "they need 4.2 or newer" in found(raw)["workload.groups.0.type"]


def test_share_group_delivery_count_limit_precedence() -> None:
    """Its own limit, else that of the brokers, else Kafka's; a limit is a number."""
    raw = document()
    raw["workload"]["groups"] = [
        SHARE,
        {**SHARE, "id": "h", "group-config": {"share.delivery.count.limit": 3}},
    ]
    scenario = Scenario.model_validate(raw)
    assert [scenario.delivery_limit(group) for group in scenario.workload.groups] == [5, 3]
    raw["cluster"]["config"] = {"group.share.delivery.count.limit": "7"}
    scenario = Scenario.model_validate(raw)
    assert [scenario.delivery_limit(group) for group in scenario.workload.groups] == [7, 3]
    raw["cluster"]["config"] = {"group.share.delivery.count.limit": 0}
    assert list(found(raw)) == ["cluster.config.group.share.delivery.count.limit"]


def test_topic_has_as_many_replicas_as_the_lists_of_its_assignment_have() -> None:
    """A number that is given as well is checked against them."""
    assert Topic.model_validate({"name": "t", "assignment": [[2, 1]]}).replication_factor == 2
    given = {"name": "t", "assignment": [[2, 1]], "replication-factor": 3}
    assert Topic.model_validate(given).replication_factor == 3


def test_topic_has_as_many_partitions_as_its_assignment_has_lists() -> None:
    """Unless it says otherwise, which is a mistake then."""
    assert Topic.model_validate({"name": "t", "assignment": [[1, 2], [2, 3]]}).partitions == 2
    assert Topic.model_validate({"name": "t"}).partitions == 1


@pytest.mark.parametrize(
    ("text", "ms"), [("-20000d", -20_000 * 86_400_000), ("2h", 7_200_000), ("40000d", None), ("-2s", None)]
)
def test_timestamps_may_be_as_far_as_1970(text: str, ms: int | None) -> None:
    """Seconds that were taken for milliseconds are a report of its own; a century is a typo."""
    producer = {"topic": "t", "messages": 1, "timestamps": text}
    if ms is None:
        with pytest.raises(ValidationError):
            Producers.model_validate(producer)
    else:
        assert Producers.model_validate(producer).timestamps == ms
