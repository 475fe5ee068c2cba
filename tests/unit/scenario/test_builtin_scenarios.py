"""The built-ins keep what their names and the field reports promise."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from fakes.steps import NETWORK_FAULTS
from kaput.scenario.builtin import builtin_names, builtin_text
from kaput.scenario.events import Moment
from kaput.scenario.loader import load_builtin
from kaput.scenario.model import parse_duration_ms
from kaput.scenario.source import parse
from kaput.scenario.timeline import total_messages

# What Kafka and librdkafka get wrong.
BROKEN = {
    "commit-without-leader", "disk-loss", "stale-end-transaction", "topic-recreated-without-coordinator",
}  # fmt: skip
COUNTED = {"topic-recreated", "topic-recreated-without-coordinator"}  # stop at an exact message, so few
SESSION_MS = 9_000  # a killed broker is replaced when its session has expired


@pytest.mark.parametrize("name", builtin_names())
def test_every_builtin_scenario_is_complete(name: str) -> None:
    """Title, description, tags, an expected verdict, and at least 10,000 messages if it is not exact."""
    scenario = load_builtin(name)
    assert scenario.title and scenario.description and scenario.tags
    assert scenario.expect.verdict == ("violated" if name in BROKEN else "held")
    assert (total_messages(scenario) or 0) >= (250 if name in COUNTED else 10_000)


@pytest.mark.parametrize("name", builtin_names())
def test_libyaml_reads_it_as_python_does(name: str) -> None:
    """The data, and the line of each value of the timeline."""
    fast, slow = (parse(name, builtin_text(name), trusted=trusted) for trusted in (True, False))
    assert fast.data == slow.data and fast.duplicates == slow.duplicates == []
    places = [
        ("faults", number, key) for number, step in enumerate(slow.data.get("faults", [])) for key in step
    ]
    assert [fast.line(place) for place in places] == [slow.line(place) for place in places]


ELECTING = ("leader-", "one-way-", "minority-", "flapping-", "slow-network-")


@pytest.mark.parametrize("name", [n for n in builtin_names() if n.startswith(ELECTING)])
def test_leader_fault_outlasts_broker_session_timeout(name: str) -> None:
    """A fixed leader, a dedicated controller, no way back before the session ends, no unclean election."""
    scenario = load_builtin(name)
    fault: Any = scenario.faults[-1]
    away = fault.down if fault.fault == "flap" else fault.for_
    assert away is not None and away > SESSION_MS
    assert scenario.cluster.controllers == 1
    assert scenario.cluster.config["auto.leader.rebalance.enable"] is False
    assert scenario.cluster.config["unclean.leader.election.enable"] is False
    assert scenario.topics[0].assignment is not None and scenario.topics[0].assignment[0] == [1, 2, 3]


@pytest.mark.parametrize("name", [n for n in builtin_names() if n.startswith(ELECTING)])
def test_zookeeper_session_expires_within_the_fault(name: str) -> None:
    """Kafka's own 18 s where the fault is long enough, otherwise as long as in KRaft mode."""
    scenario = load_builtin(name, ["cluster.mode=zookeeper"])
    assert scenario.cluster.kafka == "3.9.2"
    fault: Any = scenario.faults[-1]
    away = fault.down if fault.fault == "flap" else fault.for_
    assert away is not None and away > scenario.cluster.config.get("zookeeper.session.timeout.ms", 18_000)


PAIRED = [n.removesuffix("1") for n in builtin_names() if n.endswith("-acks-1") and n != "leader-kill-acks-1"]


@pytest.mark.parametrize("name", PAIRED)
def test_acks_1_and_acks_all_pair_differs_only_in_acks(name: str) -> None:
    """What acks=1 loses, acks=all keeps under the same faults and the same load."""
    one, all_ = load_builtin(f"{name}1"), load_builtin(f"{name}all")
    assert one.faults == all_.faults and one.cluster == all_.cluster
    assert one.workload.producers[0].model_copy(update={"acks": "all"}) == all_.workload.producers[0]
    assert all_.expect.lost == 0  # type: ignore[attr-defined]


def breaks_the_network(name: str) -> bool:
    """Whether one of its steps is a fault of the network."""
    kinds = re.findall(r"\bfault: ([\w-]+)", builtin_text(name).partition("\nfaults:")[2])
    return not NETWORK_FAULTS.isdisjoint(kinds)


@pytest.mark.parametrize("name", [name for name in builtin_names() if breaks_the_network(name)])
def test_workload_outlasts_every_network_fault(name: str) -> None:
    """A fault that ends after the last message would not be seen to heal."""
    scenario = load_builtin(name)
    for spec, step in itertools.product(scenario.workload.producers, scenario.faults):
        if step.fault in NETWORK_FAULTS:
            assert isinstance(step.at, str) and step.for_ is not None
            assert spec.messages is not None and isinstance(spec.rate, float)
            assert parse_duration_ms(step.at) + step.for_ < spec.messages / spec.rate * 1000


@pytest.mark.parametrize(("name", "brokers"), [("2x1", 2), ("10x1", 10), ("10x10", 10)])
def test_broker_failover_spreads_load_evenly_over_brokers(name: str, brokers: int) -> None:
    """One partition and one replica a broker, messages in turns: killing one hits 1/N."""
    scenario = load_builtin(f"broker-failover-{name}")
    assert scenario.topics[0].assignment == [[broker] for broker in range(1, brokers + 1)]
    assert {spec.partitioner for spec in scenario.workload.producers} == {"round-robin"}
    assert scenario.cluster.controllers == 1


@pytest.mark.parametrize(
    ("name", "other", "differs"),
    [
        ("unclean-election", "unclean-election-elr", {"cluster"}),
        ("power-loss", "power-loss-flush", {"topics"}),
        ("replication-factor-1", "replication-factor-1-fixed", {"faults"}),
    ],
)
def test_scenario_with_remedy_differs_only_in_the_remedy(name: str, other: str, differs: set[str]) -> None:
    """Whatever else the two runs show, nothing else was changed."""
    one, two = (load_builtin(each).dump() for each in (name, other))
    words = {"title", "description", "expect"}
    assert {key for key in one if one[key] != two[key]} - words == differs


@pytest.mark.parametrize("name", ["unclean-election", "unclean-election-elr"])
def test_both_followers_can_register_at_once_when_the_leader_dies(name: str) -> None:
    """Whatever the machine: a broker cannot register before its former session is over. The leader dies when
    broker 2 is started, so that neither can join its ISR, and broker 3 is started then, too.
    """
    scenario = load_builtin(name)
    session = int(scenario.cluster.config["broker.session.timeout.ms"])
    third, second, leader = scenario.faults
    assert [step.target.text for step in scenario.faults] == ["broker 3", "broker 2", "broker 1"]
    at = [parse_duration_ms(str(step.at)) for step in (third, second)]
    back = [start + (step.for_ or 0) for start, step in zip(at, (third, second), strict=True)]
    assert at[0] + 3_000 <= at[1], "what the two acknowledge without broker 3"
    assert all((step.for_ or 0) > session for step in (third, second))
    assert back[1] + 1_000 <= back[0] <= back[1] + 3_000
    assert isinstance(leader.at, Moment) and (leader.at.event, leader.at.of) == ("heal", "2-stop")
    assert (leader.for_ or 0) > session


def test_the_eligible_broker_registers_after_the_dead_leader_is_fenced() -> None:
    """The leader's session ends first, also if the controller, which looks for ended sessions eight times in
    one, has just done so. The third broker's has ended when it is started, after the leader's death.
    """
    scenario = load_builtin("unclean-election-elr-late")
    session = int(scenario.cluster.config["broker.session.timeout.ms"])
    third, leader = scenario.faults[:2]
    assert [step.target.text for step in scenario.faults] == ["broker 3", "broker 1", "broker 2"]
    stopped, killed, restarted = (parse_duration_ms(str(step.at)) for step in scenario.faults)
    assert restarted - killed > session / 8 and (leader.for_ or 0) > session
    assert (third.for_ or 0) > session and stopped + (third.for_ or 0) >= killed


# What they show is no limit: any loss is permitted and none is promised, or the title is a question.
NOTHING_TO_EXPECT = {"leader-kill-acks-0", "leader-kill-acks-1", "min-isr-matrix"}


def test_every_title_is_held_by_an_expectation() -> None:
    """One that a run can miss, beside Kafka's promise."""
    expected = {name: set(load_builtin(name).dump()["expect"]) - {"verdict"} for name in builtin_names()}
    assert {name for name, limits in expected.items() if not limits} == NOTHING_TO_EXPECT
