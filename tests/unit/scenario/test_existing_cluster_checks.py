"""Scenarios for a cluster that was there before: which faults it may have, and what its commands may say."""

from __future__ import annotations

import pytest

from kaput.core import NEWEST_KAFKA
from kaput.errors import UsageError
from kaput.scenario.fault_kinds import filled_in
from kaput.scenario.loader import find, resolve

COMMAND = ("faults.0.fault=command", "faults.0.inject=docker kill kafka-{broker}")


def said(name: str, *overrides: str, existing: bool = True) -> list[str]:
    """The mistakes of a built-in scenario with these changes."""
    try:
        resolve(find(name)[1], overrides, existing=existing)
    except UsageError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize(
    "name", ["noop", "member-kill", "zombie-member", "partition-resize", "slow-network-kill-acks-1"]
)
def test_client_and_topic_faults_run_on_existing_clusters(name: str) -> None:
    """Its own clients, the run's own topics, and nothing at all; the rest needs processes of its own."""
    refused = [
        line for line in said(name) if "needs a cluster that kaput started, not an existing one" in line
    ]
    assert bool(refused) == (name == "slow-network-kill-acks-1")


def test_unsupported_fault_is_reported_with_line_and_alternative() -> None:
    """A person who has a cluster learns how its brokers can be broken."""
    (line,) = said("leader-kill-acks-all")
    assert line == (
        "leader-kill-acks-all.yaml:29: faults.0.fault: kill needs a cluster that kaput started, "
        "not an existing one; write fault: command with inject, heal and prove, or leave it out with "
        "--set faults=[] (docs/EXISTING_CLUSTER.md)"
    )
    assert said("leader-kill-acks-all", "faults=[]") == []


def test_delete_records_is_rejected_on_existing_cluster() -> None:
    """On an existing one they may be somebody's."""
    step = ("faults.0.fault=delete-records", "faults.0.partitions=null")
    assert "needs a cluster that kaput started" in said("partition-resize", *step)[0]


@pytest.mark.parametrize(
    ("step", "possible"),
    [
        ("fault: move-leader, target: leader-of orders/0", True),
        ("fault: elect-preferred, target: leader-of orders/0", True),
        ("fault: move-replicas, target: follower-of orders/0", True),
        ("fault: move-replicas, target: leader-of orders/0, throttle: 8mbit", False),
        ("fault: move-leader, target: broker 1", False),
        ("fault: change-config, target: topic orders, config: {segment.bytes: 1048576}", True),
        ("fault: change-config, target: broker 1, config: {message.max.bytes: 1000000}", False),
        ("fault: recreate, target: topic orders", False),
        ("fault: quota, target: cluster, producer-rate: 1000", False),
    ],
)
def test_changes_by_request_concern_only_topics_of_the_run(step: str, possible: bool) -> None:
    """Partitions, replicas and settings of other topics, brokers and clients are left alone."""
    refused = said("noop", f"faults=[{{at: 1s, {step}}}]")
    assert ("needs a cluster that kaput started" not in " ".join(refused)) == possible, refused


def test_broker_ids_and_count_are_not_checked_on_existing_cluster() -> None:
    """Brokers may have any ids, and there may be any number of them."""
    assert said("noop", "cluster.brokers=1", "topics.0.assignment=[[0,7,8],[7,8,0],[8,0,7]]") == []
    assert said("leader-kill-acks-all", *COMMAND, "faults.0.target=broker 0") == []
    assert said("leader-kill-acks-all", *COMMAND, "faults.0.target=broker 0", existing=False) != []


def test_command_faults_require_an_existing_cluster() -> None:
    """kaput breaks its own brokers itself, and knows better what became of them."""
    (line,) = said("leader-kill-acks-all", *COMMAND, existing=False)
    assert "command is for existing clusters; give --bootstrap-servers" in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("faults.0.fault=command",), "a command line is missing; write inject: ..."),
        ((*COMMAND, "faults.0.prove='a \"b'"), "prove='a \"b': not a command line (No closing quotation)"),
        ((*COMMAND, "faults.0.heal=start {brokr}"), "no placeholder {brokr}; did you mean {broker}?"),
        ((*COMMAND, "faults.0.target=any", "faults.0.heal=a {topic}"), "{topic} exists only for targets"),
        ((*COMMAND, "faults.0.target=members of billing"), "commands work on brokers; write broker N"),
        ((*COMMAND, "faults.0.target=cluster"), "cluster is not a broker"),
        ((*COMMAND, "faults.0.delay=1s"), "command takes no delay; it takes timeout"),
        ((*COMMAND, "faults.0.timeout=x"), "'x' is not a duration"),
        (("faults.0.heal=x",), "kill takes no heal; fault: command does"),
    ],
)  # fmt: skip
def test_invalid_command_fault_is_rejected(changes: tuple[str, ...], words: str) -> None:
    """Each with what would be right."""
    assert any(words in line for line in said("leader-kill-acks-all", *changes))


def test_java_clients_require_client_version_on_existing_cluster() -> None:
    """Their jars are otherwise those of the cluster, which nobody knows."""
    java = ("faults=[]", "workload.producers.0.client=java")
    assert any(
        f"write client-version: {NEWEST_KAFKA}" in line for line in said("leader-kill-acks-all", *java)
    )
    own = said("leader-kill-acks-all", *java, "workload.producers.0.client-version=4.3.1")
    assert not any("client-version" in line for line in own)


def test_template_braces_in_commands_are_preserved() -> None:
    """docker and kubectl have templates of their own."""
    template = "docker inspect -f {{.State.Running}} kafka-{broker}"
    assert said("leader-kill-acks-all", *COMMAND, f"faults.0.prove='{template}'") == []
    assert filled_in(template, {"broker": "2"}) == [
        "docker",
        "inspect",
        "-f",
        "{{.State.Running}}",
        "kafka-2",
    ]


def test_placeholder_values_are_not_split_into_arguments() -> None:
    """Nor read by a shell, unless the command is one."""
    assert filled_in("ssh {host} 'kill {broker}'", {"host": "a b; rm", "broker": "1"}) == [
        "ssh",
        "a b; rm",
        "kill 1",
    ]
