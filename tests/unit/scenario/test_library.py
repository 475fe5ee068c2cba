"""The built-ins keep what their names and the field reports promise."""

from __future__ import annotations

import pytest

from kaput.scenario.builtin import builtin_names
from kaput.scenario.loader import load_builtin
from kaput.scenario.timeline import total_messages

SESSION_MS = 9_000  # a killed broker is replaced when its session has expired


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_is_complete(name: str) -> None:
    """Title, description, tags, an expected verdict, and at least 10,000 messages."""
    scenario = load_builtin(name)
    assert scenario.title and scenario.description and scenario.tags
    assert scenario.expect.verdict == "held"
    assert (total_messages(scenario) or 0) >= 10_000


@pytest.mark.parametrize("name", [n for n in builtin_names() if n.startswith("leader-")])
def test_a_killed_leader_stays_down_long_enough_for_an_election(name: str) -> None:
    """A fixed leader, a dedicated controller, no way back before the session ends, no unclean election."""
    scenario = load_builtin(name)
    kill = scenario.faults[-1]
    assert kill.fault == "kill" and kill.for_ is not None and kill.for_ > SESSION_MS
    assert scenario.cluster.controllers == 1
    assert scenario.cluster.config["auto.leader.rebalance.enable"] is False
    assert scenario.cluster.config["unclean.leader.election.enable"] is False
    assert scenario.topics[0].assignment == [[1, 2, 3]]


@pytest.mark.parametrize("name", [n for n in builtin_names() if n != "noop"])
def test_in_zookeeper_mode_a_session_is_as_long_as_in_kraft(name: str) -> None:
    """The same kill then lasts longer than the session in both modes."""
    scenario = load_builtin(name, ["cluster.mode=zookeeper"])
    assert scenario.cluster.kafka == "3.9.2"
    assert scenario.cluster.config["zookeeper.session.timeout.ms"] == SESSION_MS


def test_the_lagging_twins_differ_in_acks_alone() -> None:
    """Same load, same faults: only the promise differs, and what it keeps."""
    one, all_ = (load_builtin(f"leader-kill-lagging-acks-{acks}") for acks in ("1", "all"))
    assert one.faults == all_.faults
    assert one.workload.producers[0].model_copy(update={"acks": "all"}) == all_.workload.producers[0]
    assert (one.expect.lost, all_.expect.lost) == (">0", 0)


@pytest.mark.parametrize(("name", "brokers"), [("2x1", 2), ("10x1", 10), ("10x10", 10)])
def test_each_broker_stands_for_its_share(name: str, brokers: int) -> None:
    """One partition and one replica a broker, messages in turns: killing one hits 1/N."""
    scenario = load_builtin(f"broker-failover-{name}")
    assert scenario.topics[0].assignment == [[broker] for broker in range(1, brokers + 1)]
    assert {spec.partitioner for spec in scenario.workload.producers} == {"round-robin"}
    assert scenario.cluster.controllers == 1
