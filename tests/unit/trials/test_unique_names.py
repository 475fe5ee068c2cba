"""Names of its own for a trial that shares a cluster."""

from __future__ import annotations

import pytest

from kaput.scenario.builtin import builtin_names
from kaput.scenario.checks.scenario import check
from kaput.scenario.fault_kinds import PROTOCOL
from kaput.scenario.loader import load_builtin
from kaput.scenario.producers import partition_of, transactional_id
from kaput.scenario.timeline import AtEvent, timeline
from kaput.trials.batch import needs_own, why_alone, why_apart, with_unique_names


def test_unique_names_replace_topic_and_group_everywhere() -> None:
    found = with_unique_names(load_builtin("consumer-failover", []), "7-3")
    topic, group = found.topics[0].name, found.workload.groups[0]
    assert topic.endswith("-7-3")
    assert found.workload.producers[0].topic == topic
    assert group.topics == [topic]
    assert group.id.startswith(load_builtin("consumer-failover", []).workload.groups[0].id + "-7-3")


def test_fault_target_uses_the_unique_topic_name() -> None:
    found = with_unique_names(load_builtin("leader-kill-acks-1", []), "1-0")
    assert found.faults[0].target.text == "leader-of orders-1-0/0"


@pytest.mark.parametrize("tag", ["1-0", "1-1", "22-13"])
def test_renamed_group_keeps_its_coordinator_partition(tag: str) -> None:
    before = load_builtin("coordinator-kill", [])
    after = with_unique_names(before, tag)
    for old, new in zip(before.workload.groups, after.workload.groups, strict=True):
        assert old.id != new.id
        assert partition_of(old.id, 3) == partition_of(new.id, 3)


@pytest.mark.parametrize("tag", ["1-0", "1-1", "22-13"])
def test_renamed_transactional_id_keeps_its_coordinator_partition(tag: str) -> None:
    after = with_unique_names(load_builtin("transactions-coordinator-kill", []), tag)
    (step,) = [step for step in timeline(after, 1) if step.target.kind == "transaction-coordinator-of"]
    number = step.target.numbers[0]
    new = transactional_id(number, step.id_prefix)
    assert new != transactional_id(number)
    assert partition_of(new, 3) == partition_of(transactional_id(number), 3)


def test_topic_without_an_assignment_gets_a_fixed_one() -> None:
    scenario = load_builtin("leader-kill-acks-1", ["topics=[{name: orders, partitions: 4}]"])
    assert with_unique_names(scenario, "1-0").topics[0].assignment == [
        [1, 2, 3],
        [2, 3, 1],
        [3, 1, 2],
        [1, 2, 3],
    ]


@pytest.mark.parametrize("name", builtin_names())
def test_warmable_builtin_scenarios_are_valid_with_unique_names(name: str) -> None:
    scenario = load_builtin(name, [])
    if needs_own(scenario) is None:
        assert check(with_unique_names(scenario, "12-3"), existing=False) == []
        asks = {step.id for step in timeline(scenario, 0) if step.fault == PROTOCOL}
        asks |= {step.id for step in timeline(scenario, 0) if isinstance(step.trigger, AtEvent)}
        assert (why_alone(scenario) is not None) == bool(asks)
    else:
        beside = scenario.clusters or scenario.stores or scenario.plan or scenario.cluster.disk_mb
        assert beside or scenario.cluster.mode == "zookeeper"


@pytest.mark.parametrize(
    ("event", "meant"),
    [
        ("{event: election, of: orders/0}", "orders-1-0/0"),
        ("{event: isr-shrink, of: orders}", "orders-1-0"),
        ("{event: effect, of: 1-kill}", "1-kill"),
        ("{event: election}", None),
    ],
)
def test_event_trigger_uses_the_unique_topic_name(event: str, meant: str | None) -> None:
    faults = (
        "faults=[{at: 1s, fault: kill, target: leader-of orders/0, for: 3s}, "
        f"{{at: {event}, fault: pause, target: broker 2, for: 1s}}]"
    )
    at = with_unique_names(load_builtin("leader-kill-acks-1", [faults]), "1-0").faults[1].at
    assert not isinstance(at, str)
    assert at.of == meant


def test_scenario_with_stores_is_warmable_unless_a_store_is_a_target() -> None:
    assert why_alone(load_builtin("store-or-min-isr", [])) is None
    assert needs_own(load_builtin("kafka-away-store-dies", []))


def test_trials_differing_only_in_workload_can_share_a_cluster() -> None:
    one = load_builtin("leader-kill-acks-1", [])
    assert why_apart(one, load_builtin("leader-kill-acks-1", ["workload.producers.0.acks=all"])) is None
    assert why_apart(one, load_builtin("leader-kill-acks-1", ["cluster.brokers=5"]))
    assert why_apart(one, load_builtin("leader-kill-acks-1", ["faults.0.for=12s"]))
    assert why_apart(one, load_builtin("leader-kill-acks-1", ["topics.0.assignment=[[2, 3, 1]]"]))
