"""Options of faults: which fault takes which, what they default to, and what is said when one is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka.protocol.api_key import ApiKey

from fakes.steps import NETWORK_FAULTS
from kaput.errors import UsageError
from kaput.scenario.apis import API_KEYS
from kaput.scenario.fault_kinds import KINDS, Options, defaults_of
from kaput.scenario.loader import load_builtin, load_file
from kaput.scenario.model import Scenario
from kaput.scenario.steps import FaultStep, with_defaults
from kaput.scenario.targets import parse_target
from kaput.scenario.values import position_ms

FILE = """version: 1
title: fine
cluster: {{controllers: {controllers}, network: {network}}}
topics:
  - {{name: a}}
workload:
  producers: [{{topic: a, messages: 10}}]
faults:
  - at: 1s
    target: broker 1
    {step}
"""


def said(tmp_path: Path, step: str, network: str = "namespaces", controllers: str = "1") -> list[str]:
    """The mistakes of a scenario with that step, without the file's name; none for a good one."""
    path = tmp_path / "x.yaml"
    path.write_text(FILE.format(step=step.replace("; ", "\n    "), network=network, controllers=controllers))
    try:
        load_file(path)
    except UsageError as error:
        return [line.removeprefix(f"{path}:") for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize("fault", [name for name in KINDS if defaults_of(name)])
def test_omitted_options_get_defaults_in_recorded_scenario(fault: str) -> None:
    """The recorded scenario has every default of the fault, and no other option; it reads back the same."""
    step = FaultStep.model_validate({"at": "1s", "fault": fault})
    dumped = step.model_dump(mode="json", by_alias=True, exclude_none=True)
    defaults = {key for key, value in defaults_of(fault).items() if value is not None}
    assert set(dumped) == {"at", "fault", "target", *defaults}
    assert FaultStep.model_validate(dumped) == step
    assert step.options == FaultStep.model_validate(dumped).options


def test_fault_without_options_resolves_to_none() -> None:
    """Nothing is resolved into steps that take nothing."""
    assert FaultStep.model_validate({"at": "1s", "fault": "kill"}).options == Options()


def test_options_are_converted_to_fault_parameters() -> None:
    """Durations in ms, a single word as a list of one."""
    step = {"at": "1s", "fault": "delay", "delay": "1s", "jitter": 0, "from": "clients"}
    options: Any = FaultStep.model_validate(step).options
    assert (options.delay, options.jitter, options.parties) == (1000, 0, ("clients",))


@pytest.mark.parametrize(
    "step",
    [
        "fault: isolate; how: reject",
        "fault: cut; from: [controllers, broker 2]; direction: in",
        "fault: partition; clients-with: others",
        "fault: flap; up: 1s; down: 500ms; from: clients",
        "fault: loss; percent: 0.5",
        "fault: reset; from: brokers",
        "fault: bandwidth; rate: 1.5 Mbit; direction: out",
        "fault: delay; delay: 20ms; jitter: 0",
        "fault: protocol; api: EndTxn; delay: 5s; nth: 1",
        "fault: protocol; api: Heartbeat; what: error; error: NOT_COORDINATOR; share: 10",
        "fault: protocol; api: Fetch; what: drop-response; from: [broker 2, clients]",
    ],
)
def test_valid_fault_options_are_accepted(tmp_path: Path, step: str) -> None:
    """Each fault with its options."""
    assert said(tmp_path, step) == []


@pytest.mark.parametrize(
    ("step", "line", "words"),
    [
        ("fault: isolate; percent: 5", 12, "isolate takes no percent; it takes how"),
        ("fault: kill; from: clients", 12, "kill takes no from; it takes no options"),
        ("fault: loss; percnt: 5", 12, "no such key; did you mean percent?"),
        ("fault: cut; duration: 5s", 12, "no such key; did you mean for?"),
        ("fault: kill; untill: 5s", 12, "no such key; choose from at, fault, target, for, optional"),
        ("fault: kill; percnt: 5", 12, "no such key; choose from at, fault, target, for, optional"),
        ("fault: loss; percent: 0", 12, "number above 0"),
        ("fault: loss; percent: 101", 12, "write at most 100"),
        ("fault: cut; from: client", 12, "'client' is not a party; did you mean clients?"),
        ("fault: cut; from: [brokers, rack 1]", 12, "'rack 1' is not a party"),
        ("fault: cut; from: broker 9", 12, "no such broker: 9; brokers are 1 to 3"),
        ("fault: move-leader; to: 9", 12, "no such broker: 9; brokers are 1 to 3"),
        (
            "fault: move-leader; to: broker-2",
            12,
            "'broker-2' is not the number of a broker; write for example",
        ),
        ("fault: move-leader; to: end", 12, "'end' is not the number of a broker; write for example to: 2"),
        ("fault: move-leader; to: -1", 12, "-1 is not the number of a broker; write for example to: 2"),
        ("fault: move-leader; to: true", 12, "True is not the number of a broker"),
        ("fault: seek; to: ends", 12, "'ends' is no offset and no time; write end, beginning, 1200, 10s ago"),
        ("fault: seek; to: 1969-12-31T23:59:59.999Z", 12, "is before 1970; write beginning"),
        ("fault: seek; to: -4", 12, "-4 is no offset and no time"),
        ("fault: cut; from: broker 1", 12, "broker 1 cannot be cut from itself"),
        ("fault: cut; from: zookeeper", 12, "no ZooKeeper in mode kraft; write controllers"),
        ("fault: cut; direction: out of", 12, "did you mean out?"),
        ("fault: bandwidth; rate: 12", 12, "12 is not a bandwidth"),
        (
            "fault: protocol; delay: 5s",
            11,
            "protocol is about one kind of request; write for example api: EndTxn",
        ),
        (
            "fault: protocol; api: EndTxm; delay: 5s",
            12,
            "'EndTxm' is not a request to nodes; did you mean EndTxn?",
        ),
        ("fault: protocol; api: EndTxn", 11, "what: delay needs it; write delay: 5s"),
        ("fault: protocol; api: EndTxn; what: duplicate; delay: 5s", 14, "what: duplicate takes no delay"),
        ("fault: protocol; api: EndTxn; what: error", 11, "needs it; write error: NOT_COORDINATOR"),
        ("fault: protocol; api: Metadata; what: error; error: NOT_COORDINATOR", 13, "Produce, Fetch, ListO"),
        (
            "fault: protocol; api: EndTxn; what: error; error: NOT_LEADER_OR_FOLLOWER",
            14,
            "Kafka never answers EndTxn with NOT_LEADER_OR_FOLLOWER; with these it does: CONCURRENT_TRANS",
        ),
        (
            "fault: protocol; api: EndTxn; what: error; error: NOT_THERE",
            14,
            "'NOT_THERE' is not a known error",
        ),
        ("fault: protocol; api: EndTxn; delay: 5s; nth: 1; share: 5", 15, "leave one of them out"),
        ("fault: delay; delay: 10ms; jitter: 20ms", 13, "more than the delay of 10ms"),
    ],
)
def test_invalid_fault_option_is_reported_with_line(tmp_path: Path, step: str, line: int, words: str) -> None:
    """One mistake each, where it stands."""
    (found,) = said(tmp_path, step)
    assert found.startswith(f"{line}: "), found
    assert words in found


def test_protocol_fault_rejects_indistinguishable_clients(tmp_path: Path) -> None:
    """By the network that there is, and by who asks whom."""
    step = "fault: protocol; api: Fetch; delay: 1s"
    (found,) = said(tmp_path, f"{step}; from: broker 2", network="loopback")
    assert "on loopback all nodes have one address; write clients, brokers" in found
    path = tmp_path / "y.yaml"
    text = FILE.format(step=step.replace("; ", "\n    "), network="loopback", controllers="1")
    path.write_text(text.replace("broker 1", "controller"))
    with pytest.raises(UsageError, match="clients send no requests to controllers; write from: brokers"):
        load_file(path)


def test_proxies_are_enabled_only_where_a_step_needs_them(tmp_path: Path) -> None:
    """Only in front of what clients use, if no step is about what nodes ask each other."""
    steps = [{"fault": "protocol", "at": "0s", "api": "Fetch", "delay": "1s"}]
    data = yaml.safe_load(FILE.format(step="fault: noop", network="loopback", controllers="1"))
    assert Scenario.model_validate(data).cluster.proxies == "none"
    assert Scenario.model_validate({**data, "faults": steps}).cluster.proxies == "clients"
    both = [*steps, {**steps[0], "from": "brokers"}]
    resolved = Scenario.model_validate({**data, "faults": both})
    assert resolved.cluster.proxies == "everybody"
    assert Scenario.model_validate(resolved.dump()) == resolved


def test_api_keys_match_kafka() -> None:
    """Names and numbers are those that kafka-python has."""
    assert {name: ApiKey[name].value for name in API_KEYS} == API_KEYS


def test_partition_of_all_nodes_is_rejected(tmp_path: Path) -> None:
    """There must be another side."""
    path = tmp_path / "x.yaml"
    text = FILE.format(step="fault: partition", network="namespaces", controllers="1")
    path.write_text(text.replace("broker 1", "all"))
    with pytest.raises(UsageError, match="the other is empty"):
        load_file(path)


@pytest.mark.parametrize("fault", sorted(NETWORK_FAULTS))
def test_network_faults_are_rejected_on_loopback(tmp_path: Path, fault: str) -> None:
    """Said at the fault, with what to write instead."""
    (found,) = said(tmp_path, f"fault: {fault}", network="loopback")
    assert found == f"11: faults.0.fault: {fault} breaks the network; write cluster.network: namespaces"


def test_cut_from_combined_controllers_is_rejected(tmp_path: Path) -> None:
    """They have one address."""
    (found,) = said(tmp_path, "fault: cut; from: controllers", controllers="combined")
    assert "write cluster.controllers: 1" in found


def test_fault_options_can_be_overridden_with_set() -> None:
    """`--set` reaches them like any key."""
    scenario = load_builtin(
        "leader-cut-from-controllers-acks-1", ["faults.0.from=brokers", "faults.0.how=reject"]
    )
    assert scenario.faults[0].options.parties == ("brokers",)
    assert scenario.faults[0].options.how == "reject"  # type: ignore[attr-defined]


def test_null_option_gets_its_default() -> None:
    """As if it were not there; what is given stays."""
    step = {"fault": "partition", "target": "minority", "clients-with": None, "how": "reject"}
    assert with_defaults(step) == {**step, "clients-with": "both"}


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("group billing", "did you mean members of billing?"),
        ("orders", "write broker N, leader-of T/P"),  # not producer N, which has letters in common
        ("brokers 1", "did you mean broker N?"),
    ],
)
def test_target_that_is_none_leads_to_the_form_that_was_meant(target: str, near: str) -> None:
    with pytest.raises(ValueError, match="is not a target") as raised:
        parse_target(target)
    assert near in str(raised.value)


def test_time_before_1970_is_that_of_every_record() -> None:
    """For Kafka -1 is the end, and -2 the beginning."""
    assert position_ms("36500d ago", now_ms=1_800_000_000_000) == 0
    assert position_ms("10s ago", now_ms=1_800_000_000_000) == 1_799_999_990_000
