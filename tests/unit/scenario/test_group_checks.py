"""What must agree within a consumer group: each disagreement is found, at its path, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.errors import UsageError
from kaput.scenario.checks.scenario import check
from kaput.scenario.loader import load_file
from kaput.scenario.model import Group, Scenario
from kaput.scenario.source import dotted
from kaput.workload.supervision.launches import member_config


def found(*groups: dict[str, Any], kafka: str = "4.3.1", **more: Any) -> dict[str, str]:
    """Mistakes in groups of one topic, by their path below `workload.groups`."""
    raw = {
        **more,
        "version": 1,
        "title": "x",
        "cluster": {"kafka": kafka},
        "topics": [{"name": "orders"}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10}],
            "groups": [{"topics": ["orders"], "id": f"g{i}", **group} for i, group in enumerate(groups)],
        },
    }
    mistakes = check(Scenario.model_validate(raw))
    return {dotted(m.path).removeprefix("workload.groups."): m.text for m in mistakes}


@pytest.mark.parametrize(
    "group",
    [
        {"type": "consumer", "static": True, "commit": "before", "commit-every": 10, "processing": "5ms"},
        {"assignor": "cooperative-sticky", "commit-mode": "sync", "members": 20},
        {"config": {"partition.assignment.strategy": "range", "session.timeout.ms": 6000}},
        {"commit": "auto", "config": {"auto.commit.interval.ms": 100, "enable.auto.commit": True}},
        {"config": {"enable.auto.commit": True}},
        {"config": {"enable.auto.commit": "false"}},
        {"members": 4, "consumer-members": 2, "assignor": "range"},
        {"members": 2, "consumer-members": 2, "client": "java"},
    ],
)
def test_valid_groups_are_accepted(group: dict[str, Any]) -> None:
    assert found(group, {}) == {}


CONSUMER = {"type": "consumer"}


@pytest.mark.parametrize(
    ("group", "place", "said"),
    [
        ({"id": "g1"}, "1.id", "a second group with the id g1"),
        (
            {**CONSUMER, "assignor": "range"},
            "0.assignor",
            "in a group of type consumer the broker assigns partitions; leave it out",
        ),
        (
            {**CONSUMER, "config": {"session.timeout.ms": 6000}},
            "0.config.session.timeout.ms",
            "set group.consumer.session.timeout.ms in cluster.config",
        ),
        (
            {"assignor": "range", "config": {"partition.assignment.strategy": "range"}},
            "0.config.partition.assignment.strategy",
            "assignor is also given; write only one of the two",
        ),
        ({"config": {"group.protocol": "consumer"}}, "0.config.group.protocol", "use the key type"),
        ({"config": {"group.instance.id": "a"}}, "0.config.group.instance.id", "use the key static"),
        (
            {"commit": "after", "config": {"enable.auto.commit": True}},
            "0.config.enable.auto.commit",
            "true contradicts commit: after",
        ),
        (
            {"commit": "auto", "config": {"enable.auto.commit": False}},
            "0.config.enable.auto.commit",
            "false contradicts commit: auto",
        ),
        ({"consumer-members": 2}, "0.consumer-members", "the group has 1 members; write fewer"),
        ({**CONSUMER, "consumer-members": 1}, "0.consumer-members", "members of a classic group"),
        (
            {"consumer-members": 1, "config": {"session.timeout.ms": 6000}},
            "0.config.session.timeout.ms",
            "a group of type consumer has no such setting",
        ),
        ({"commit": "auto", "commit-every": 5}, "0.commit-every", "the client itself commits"),
        ({"commit": "auto", "commit-mode": "sync"}, "0.commit-mode", "the client itself commits"),
    ],
)
def test_conflicting_group_settings_are_rejected(group: dict[str, Any], place: str, said: str) -> None:
    """One mistake, at its place, with what to write."""
    mistakes = found(group, {})
    assert list(mistakes) == [place] and said in mistakes[place]


def test_consumer_group_protocol_requires_kafka_4_0() -> None:
    """KIP-848 came with Kafka 4.0; before that the sentence names the version that is there."""
    assert "not 3.9.2" in found(CONSUMER, kafka="3.9.2")["0.type"]


def test_members_with_the_highest_numbers_use_the_consumer_protocol() -> None:
    """A member that joins later too; the broker assigns its partitions. It needs Kafka 4.0."""
    group = Group(id="g", topics=["orders"], members=4, consumer_members=2, assignor="range")
    types = [group.as_member(number).type for number in (1, 2, 3, 4, 5)]
    assert types == ["classic", "classic", "consumer", "consumer", "consumer"]
    config = member_config("127.0.0.1:1", group.as_member(3), "member-3")
    assert config["group.protocol"] == "consumer" and "partition.assignment.strategy" not in config
    assert Group(id="g", topics=["orders"]).as_member(2).type == "classic"
    assert "not 3.9.2" in found({"members": 2, "consumer-members": 1}, kafka="3.9.2")["0.type"]


def test_member_of_another_version() -> None:
    """Also one that a step adds later, and one of a group with members of both protocols."""
    steps = {"faults": [{"at": "1s", "fault": "join", "target": "member 3 of g0"}]}
    older = {"members": 2, "member-versions": {2: "2.3.0", 3: "2.4.0"}}
    assert not found(older, **steps)
    group = Group.model_validate({"id": "g", "topics": ["orders"], **older})
    assert [group.as_member(number).client_version for number in (1, 2, 3)] == [None, "2.3.0", "2.4.0"]
    assert (
        group.members_in_words == "2 members, member 2 with librdkafka 2.3.0, member 3 with librdkafka 2.4.0"
    )
    assert "no such member: 3" in found(older)["0.member-versions.3"]
    assert "2.2 or newer here, not 1.9.2" in found({"member-versions": {1: "1.9.2"}})["0.member-versions.1"]
    java = {"members": 2, "client": "java", "consumer-members": 1}
    assert not found({**java, "member-versions": {1: "3.9.2"}})
    assert "4.0 or newer" in found({**java, "member-versions": {2: "3.9.2"}})["0.member-versions.2"]
    command = {"client": "command", "command": "x", "member-versions": {1: "2.3.0"}}
    assert "the command decides this" in found(command)["0.member-versions"]


_STRATEGY = "partition.assignment.strategy"


def test_member_with_settings_of_its_own() -> None:
    """Besides those of the group, also one that a step adds later; its strategy replaces the group's."""
    steps = {"faults": [{"at": "1s", "fault": "join", "target": "member 3 of g0"}]}
    rolling = {
        "members": 2,
        "assignor": "range",
        "config": {"client.rack": "a"},
        "member-config": {2: {"client.rack": "b"}, 3: {_STRATEGY: "roundrobin"}},
    }
    assert not found(rolling, **steps)
    group = Group.model_validate({"id": "g", "topics": ["orders"], **rolling})
    configs = [member_config("127.0.0.1:1", group.as_member(number), "m") for number in (1, 2, 3)]
    assert [(config["client.rack"], config[_STRATEGY]) for config in configs] == [
        ("a", "range"), ("b", "range"), ("a", "roundrobin"),
    ]  # fmt: skip
    words = f"2 members, member 2 with client.rack=b, member 3 with {_STRATEGY}=roundrobin"
    assert group.members_in_words == words
    assert "no such member: 3" in found(rolling)["0.member-config.3"]


@pytest.mark.parametrize("static", [False, True])
def test_two_members_may_have_the_same_instance_id(static: bool) -> None:
    """As after a copied configuration."""
    same = {"members": 2, "static": static, "member-config": {2: {"group.instance.id": "g-member-1"}}}
    assert not found(same) and not found(same | {"type": "consumer"})
    group = Group.model_validate({"id": "g", "topics": ["orders"], **same})
    ids = [member_config("s", group.as_member(n), f"member-{n}").get("group.instance.id") for n in (1, 2)]
    assert ids == ["g-member-1" if static else None, "g-member-1"]
    assert [group.same_instance(number) for number in (1, 2)] == ([[2], [1]] if static else [[], []])


def test_a_member_that_a_step_adds_may_have_the_same_instance_id() -> None:
    """Member 3 by its name."""
    own = {"static": True, "member-config": {1: {"group.instance.id": "g-member-3"}}}
    group = Group.model_validate({"id": "g", "topics": ["orders"], "members": 2} | own)
    assert (group.same_instance(1), group.same_instance(1, [1, 3])) == ([], [3])


@pytest.mark.parametrize(
    ("group", "path", "text"),
    [
        ({"member-config": {1: {"group.id": "x"}}}, "1.group.id", "use the key id"),
        ({"member-config": {1: {"auto.offset.reset": "latest"}}}, "1.auto.offset.reset", "the whole group"),
        ({"type": "consumer", "member-config": {1: {_STRATEGY: "range"}}}, f"1.{_STRATEGY}", "type consumer"),
        ({"type": "share", "member-config": {1: {"share.acknowledgement.mode": "explicit"}}},
         "1.share.acknowledgement.mode", "use the key acknowledge"),
        ({"client": "java", "member-config": {1: {"key.deserializer": "x"}}}, "1.key.deserializer",
         "kaput sets this itself; leave it out"),
        ({"type": "share", "client": "java", "member-config": {1: {"session.timeout.ms": 9}}},
         "1.session.timeout.ms", "brokers set the session timeout of a share group"),
        ({"client": "java", "member-config": {1: {"queued.min.messages": 1}}}, "1.queued.min.messages",
         "this is librdkafka's name; Java's clients have no such setting"),
        ({"member-config": {1: {"sasl.password": "x"}}}, "1.sasl.password", "secrets do not belong"),
        ({"type": "share", "member-config": {1: {"group.instance.id": "x"}}}, "1.group.instance.id",
         "a share group has no static members"),
    ],
)  # fmt: skip
def test_invalid_settings_of_a_member(group: dict[str, Any], path: str, text: str) -> None:
    assert text in found(group)[f"0.member-config.{path}"]


def test_invalid_group_keys_are_reported_with_line_and_suggestion(tmp_path: Any) -> None:
    """Like every other mistake in a file."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "version: 1\ntitle: x\ntopics: [{name: orders}]\nworkload:\n"
        "  producers: [{topic: orders, messages: 10}]\n  groups:\n"
        "    - {id: a, topics: [orders], assignor: cooperative_sticky}\n"
        "    - {id: b, topics: [orders], comit: before}\n"
        "    - {id: c, topics: [orders], type: classical, processing: fast}\n"
    )
    with pytest.raises(UsageError) as caught:
        load_file(path)
    said = str(caught.value)
    for text in (":7: ", "cooperative-sticky", ":8: ", "did you mean commit", ":9: ", "classic", "duration"):
        assert text in said


def test_default_group_settings() -> None:
    """Classic, librdkafka's assignor, committed after the records, asynchronously, by time, at full speed."""
    group = Group(id="g", topics=["orders"])
    assert (group.type, group.assignor, group.static) == ("classic", None, False)
    assert (group.commit, group.commit_mode, group.commit_every, group.processing) == ("after", "async", 0, 0)


def test_dead_letters_do_not_go_to_a_topic_of_the_scenario() -> None:
    """They would count as messages that are stored twice; before 4.4 there are none."""
    name = "errors.deadletterqueue.topic.name"

    def said(topic: str, kafka: str) -> dict[str, str]:
        return found({"type": "share", "group-config": {name: topic}}, kafka=kafka)

    assert said("dlq.orders", "4.4.0") == {}
    (own,) = said("orders", "4.4.0").items()
    assert own[0] == f"0.group-config.{name}" and "would count as stored twice" in own[1]
    (older,) = said("dlq.orders", "4.3.1").values()
    assert older == "Kafka 4.3.1 has no dead-letter topics; they need 4.4 or newer"
