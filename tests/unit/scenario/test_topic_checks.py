"""Faults on topics and the rest of a scenario: each disagreement is found, at its path."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario
from kaput.scenario.source import dotted


def found(
    *steps: dict[str, Any],
    group: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **producer: Any,
) -> dict[str, str]:
    """Mistakes of the steps, by their path below `faults`."""
    raw = {
        "cluster": cluster or {},
        "version": 1,
        "title": "x",
        "topics": [
            {"name": "orders", "partitions": 3},
            {"name": "prices", "config": {"cleanup.policy": "compact"}},
            {"name": "stock", "assignment": [[1, 2]]},
        ],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10, **producer}],
            "groups": [
                {"id": "billing", "topics": ["orders"]},
                group or {"id": "quotes", "topics": ["prices"]},
                {"id": "work", "topics": ["orders"], "type": "share"},
            ],
        },
        "faults": [{"at": "1s", **step} for step in steps],
    }
    return {dotted(m.path).removeprefix("faults."): m.text for m in check(Scenario.model_validate(raw))}


def test_topic_can_be_resized_repeatedly() -> None:
    """Each step names how many it is to have then."""
    grow = {"fault": "resize", "target": "topic orders"}
    assert found({**grow, "partitions": 6}, {**grow, "partitions": 50}) == {}


@pytest.mark.parametrize(
    ("step", "path", "text"),
    [
        ({"partitions": 3}, "0.partitions", "orders has 3 from the start and cannot have fewer"),
        ({"partitions": 6, "target": "topic order"}, "0.target", "order"),
        ({"target": "broker 1"}, "0.target", "resize hits a topic; write for example topic orders"),
        ({"partitions": 6, "for": "3s"}, "0.for", "the change made by resize is permanent; leave this out"),
        ({"fault": "kill"}, "0.target", "kill does not hit topics; change-config, delete-records, delete-"),
        ({"fault": "kill", "target": "broker 1", "partitions": 6}, "0.partitions", "takes no partitions"),
    ],
)  # fmt: skip
def test_invalid_resize_is_rejected(step: dict[str, Any], path: str, text: str) -> None:
    """At its key, with what would be right."""
    mistakes = found({"fault": "resize", "target": "topic orders", **step})
    assert list(mistakes) == [path] and text in mistakes[path]


def test_resize_rejects_round_robin_partitioner() -> None:
    """kaput's own counts on those that there are at the start."""
    step = {"fault": "resize", "target": "topic orders", "partitions": 6}
    assert "round-robin" in found(step, partitioner="round-robin")["0.target"]


@pytest.mark.parametrize("group", [None, "billing"])
def test_valid_delete_records_is_accepted(group: str | None) -> None:
    """All of them, or those that a group has committed, with any partitioner."""
    step = {"fault": "delete-records", "target": "topic orders", "committed-by": group}
    assert found(step, partitioner="round-robin") == {}


@pytest.mark.parametrize(
    ("step", "path", "text"),
    [
        ({"committed-by": "bill"}, "0.committed-by", "bill"),
        ({"committed-by": "quotes"}, "0.committed-by", "quotes does not read orders"),
        ({"committed-by": "work"}, "0.committed-by", "work is a share group, which commits no offsets"),
        ({"target": "topic prices"}, "0.target", "prices is compacted, so Kafka does not delete its records"),
        ({"partitions": 6}, "0.partitions", "delete-records takes no partitions; it takes committed-by"),
        ({"for": "3s"}, "0.for", "the change made by delete-records is permanent; leave this out"),
    ],
)  # fmt: skip
def test_invalid_delete_records_is_rejected(step: dict[str, Any], path: str, text: str) -> None:
    """At its key, with what would be right."""
    mistakes = found({"fault": "delete-records", "target": "topic orders", **step})
    assert list(mistakes) == [path] and text in mistakes[path]


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ({"type": "share"}, "share group quotes reads prices; write a group of another type"),
        ({"config": {"auto.offset.reset": "latest"}}, "group quotes reads prices from its end; write auto.o"),
        ({"produces": {"topic": "stock"}}, "pipe quotes reads prices; recreate needs a topic that no pipe"),
    ],
)  # fmt: skip
def test_recreate_rejects_groups_whose_position_in_the_new_topic_is_unknown(
    group: dict[str, Any], text: str
) -> None:
    """Of other groups it is known which of the two topics a delivery is from."""
    step = {"fault": "recreate", "target": "topic prices"}
    assert found(step) == {}
    assert text in found(step, group={"id": "quotes", "topics": ["prices"], **group})["0.target"]


@pytest.mark.parametrize(
    ("step", "path", "text"),
    [
        ({"fault": "deny", "target": "topic orders"}, "0.fault", "write cluster.security: scram-tls"),
        ({"fault": "change-config", "target": "topic orders"}, "0.fault", "settings are missing"),
        ({"fault": "change-config", "target": "topic orderz", "config": {"a": 1}}, "0.target", "orderz"),
        (
            {"fault": "change-config", "target": "all", "config": {"ssl.key.password": "x"}},
            "0.config.ssl.key.password", "brokers show no secrets",
        ),
        ({"fault": "quota", "target": "cluster"}, "0.fault", "a rate is missing"),
        ({"fault": "kill", "target": "leader-of __consumer_offsets/0"}, "0.target", "is coordinator-of G"),
        ({"fault": "kill", "target": "leader-of __share_group_state/0"}, "0.target", "has no word"),
        ({"fault": "move-leader", "target": "controller"}, "0.target", "hits brokers, not the controller"),
        ({"fault": "elect-preferred", "target": "any", "for": "3s"}, "0.for", "elect-preferred is permanent"),
        ({"fault": "reset-offsets", "target": "member 1 of quotes"}, "0.target", "write members of quotes"),
        ({"fault": "reset-offsets", "target": "members of work"}, "0.target", "a share group commits no"),
        ({"fault": "seek", "target": "member 1 of work"}, "0.target", "a share group commits no"),
        ({"fault": "seek", "target": "member 1 of quotes", "to": 4, "back": 2}, "0.back", "to says already"),
        ({"fault": "seek", "target": "member 1 of quotes", "for": "3s"}, "0.for", "seek is permanent"),
    ],
)  # fmt: skip
def test_invalid_changes_of_a_cluster_are_rejected(step: dict[str, Any], path: str, text: str) -> None:
    """At their keys, with what would be right."""
    mistakes = found(step)
    assert list(mistakes) == [path] and text in mistakes[path]


@pytest.mark.parametrize(
    "step",
    [
        {"fault": "change-config", "target": "topic orders", "config": {"segment.bytes": 9}, "for": "3s"},
        {"fault": "change-config", "target": "all", "config": {"log.retention.ms": 9}},
        {"fault": "quota", "target": "cluster", "producer-rate": 9, "for": "3s"},
        {"fault": "move-leader", "target": "leader-of orders/0", "to": 2},
        {"fault": "move-replicas", "target": "leader-of stock/0", "throttle": "8mbit"},
        {"fault": "reset-offsets", "target": "members of quotes", "back": 10},
        {"fault": "seek", "target": "member 1 of quotes", "back": 10},
        {"fault": "seek", "target": "member 1 of quotes", "forward": 10},
        {"fault": "seek", "target": "member 1 of quotes", "to": "latest"},
        {"fault": "reset-offsets", "target": "members of quotes", "to": "1.5 h ago"},
        {"fault": "reset-offsets", "target": "members of quotes", "to": "2026-01-31"},
        {"fault": "reset-offsets", "target": "members of quotes", "to": 1200},
        {"fault": "recreate", "target": "topic stock", "for": "3s"},
    ],
)
def test_valid_changes_of_a_cluster_are_accepted(step: dict[str, Any]) -> None:
    """Those that last until their heal, and those that stay."""
    assert found(step) == {}


@pytest.mark.parametrize(
    ("step", "path", "text"),
    [
        ({"fault": "move-replicas", "target": "leader-of orders/0"}, "0.target", "orders has 3 replicas"),
        ({"fault": "move-replicas", "target": "broker 1"}, "0.target", "too few of 3 brokers are left"),
        ({"fault": "move-replicas", "target": "all"}, "0.target", "too few of 3 brokers are left"),
        ({"fault": "move-replicas", "target": "followers-of prices/0"}, "0.target", "prices has 3 replicas"),
        ({"fault": "move-leader", "target": "leader-of stock/0", "to": 3}, "0.to", "write one of 1, 2"),
        ({"fault": "move-leader", "target": "leader-of stock/0", "to": 1}, "0.to", "leads stock/0 from"),
        ({"fault": "move-leader", "target": "leader-of orders/0", "to": 4}, "0.to", "no such broker: 4"),
        ({"fault": "move-leader", "target": "broker 1", "to": 1}, "0.to", "broker 1 is the one that leads"),
        ({"fault": "move-leader", "target": "follower-of orders/0"}, "0.target", "write leader-of orders/0"),
        ({"fault": "elect-preferred", "target": "followers-of orders/0"}, "0.target", "write leader-of orde"),
        (
            {"fault": "reassign", "target": "cluster", "replication-factor": 2}, "0.replication-factor",
            "every partition has 2 or more from the start",
        ),
    ],
)  # fmt: skip
def test_move_without_a_broker_to_go_to_is_rejected(step: dict[str, Any], path: str, text: str) -> None:
    """At its key, with what would be right."""
    mistakes = found(step)
    assert list(mistakes) == [path] and text in mistakes[path]


_GONE = {"fault": "delete-topic", "target": "topic prices"}


@pytest.mark.parametrize(
    ("step", "deleted"),
    [
        ({"at": "3s", "fault": "recreate", "target": "topic prices"}, True),
        ({"at": "3s", "fault": "resize", "target": "topic prices", "partitions": 9}, True),
        ({"at": "3s", "fault": "kill", "target": "leader-of prices/0"}, True),
        ({"at": {"event": "effect", "of": "1-delete-topic"}, "fault": "recreate", "target": "topic prices"},
         True),
        ({"at": "1s", "fault": "recreate", "target": "topic prices"}, False),
        ({"at": "50%", "fault": "recreate", "target": "topic prices"}, False),
        ({"at": "3s", "fault": "recreate", "target": "topic stock"}, False),
    ],
)  # fmt: skip
def test_deleted_topic_takes_no_later_step(step: dict[str, Any], deleted: bool) -> None:
    """As far as the file says which is later; where brokers create topics, a client may bring it back."""
    text = "1-delete-topic has deleted prices by then; write an earlier time, or recreate there"
    mistakes = found({**_GONE, "at": "2s"}, step)
    assert mistakes == ({"1.target": text} if deleted else {})
    assert not found({**_GONE, "at": "2s"}, step, cluster={"config": {"auto.create.topics.enable": True}})


def test_step_before_the_deletion_by_share_of_the_load_is_no_mistake() -> None:
    recreate = {"fault": "recreate", "target": "topic prices"}
    assert not found({**_GONE, "at": "80%"}, {**recreate, "at": "20%"})
    assert list(found({**_GONE, "at": "20%"}, {**recreate, "at": "80%"})) == ["1.target"]


@pytest.mark.parametrize("key", ["target", "to"])
def test_only_replica_and_new_broker_cannot_lead(key: str) -> None:
    """A step that adds or moves replicas may change that."""
    single = {"name": "orders", "partitions": 3, "replication-factor": 1}
    step = {"at": "1s", "fault": "move-leader", "target": "leader-of orders/0"}
    grow = {"at": "1s", "fault": "grow", "target": "cluster"}
    steps = [step] if key == "target" else [grow, {**step, "to": 4}]
    raw = {
        "version": 1,
        "title": "x",
        "topics": [single if key == "target" else {"name": "orders"}],
        "workload": {"producers": [{"topic": "orders", "messages": 10}]},
    }
    (mistake,) = check(Scenario.model_validate({**raw, "faults": steps}))
    assert mistake.path[-1] == key and ("factor 1" if key == "target" else "without replicas") in mistake.text
    more = {"at": "1s", "fault": "reassign", "target": "cluster", "replication-factor": 4}
    steps = [grow, more, *steps[-1:]]
    assert check(Scenario.model_validate({**raw, "faults": steps})) == []


@pytest.mark.parametrize(
    ("cluster", "target", "refused"),
    [
        ({}, "broker 1", True),
        ({}, "topic orders", False),
        ({"kafka": "4.0.0"}, "broker 1", False),
        ({"kafka": "4.0.0", "features": {"eligible.leader.replicas.version": 1}}, "broker 1", True),
        ({"features": {"eligible.leader.replicas.version": 0}}, "broker 1", False),
        ({"features": {"metadata.version": 25}}, "broker 1", False),
    ],
)
def test_min_isr_of_a_broker_cannot_change_while_replicas_are_eligible(
    cluster: dict[str, Any], target: str, refused: bool
) -> None:
    """Kafka refuses it: "cannot be altered while ELR is enabled"; not of topics, nor without the feature."""
    mistakes = found(
        {"fault": "change-config", "target": target, "config": {"min.insync.replicas": 2}}, cluster=cluster
    )
    mistakes = {path: text for path, text in mistakes.items() if path.startswith("0.")}
    assert list(mistakes) == (["0.config.min.insync.replicas"] if refused else [])
    assert not refused or "eligible.leader.replicas.version: 0" in str(mistakes)


@pytest.mark.parametrize(
    ("fault", "target"),
    [
        ("resize", "cluster"), ("change-config", "members of billing"), ("reassign", "topic orders"),
        ("join", "topic orders"), ("elect-preferred", "zookeeper"), ("move-replicas", "producer 0"),
        ("seek", "topic orders"),
    ],
)  # fmt: skip
def test_target_that_the_fault_does_not_hit_is_one_mistake(fault: str, target: str) -> None:
    """It was two, of which one made a guess."""
    config = {"config": {"segment.bytes": 9}} if fault == "change-config" else {}
    step = {"at": "1s", "fault": fault, "target": target, **config}
    raw = {
        "version": 1,
        "title": "x",
        "topics": [{"name": "orders"}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10}],
            "groups": [{"id": "billing", "topics": ["orders"]}],
        },
    }
    assert [dotted(m.path) for m in check(Scenario.model_validate({**raw, "faults": [step]}))] == [
        "faults.0.target"
    ]


@pytest.mark.parametrize(
    ("first", "second", "meanwhile"),
    [
        ({}, {"at": "5s"}, True),
        ({"for": "3s"}, {"at": "3s", "for": "3s"}, True),
        ({"for": "3s"}, {"at": "4s"}, False),
        ({"for": "3s"}, {"at": "50%"}, False),
        ({"for": "3s"}, {"at": {"event": "heal", "of": "1-change-config"}}, False),
        ({"target": "all", "config": {"retention.ms": 9}}, {"target": "broker 2"}, False),
        ({"target": "all"}, {"target": "broker 2"}, True),
        ({"target": "broker 1"}, {"target": "broker 2"}, False),
    ],
)
def test_setting_is_not_changed_by_two_steps_at_a_time(
    first: dict[str, Any], second: dict[str, Any], meanwhile: bool
) -> None:
    """Each would restore at its heal what the other one had set."""
    step = {"fault": "change-config", "target": "topic orders", "config": {"segment.bytes": 9}}
    mistakes = found({**step, **first}, {**step, **second})
    assert list(mistakes) == (["1.config.segment.bytes"] if meanwhile else []), mistakes
