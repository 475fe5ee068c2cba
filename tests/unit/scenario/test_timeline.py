"""A scenario and a seed become explicit steps."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.loader import load_builtin
from kaput.scenario.model import Scenario
from kaput.scenario.targets import parse_target
from kaput.scenario.timeline import AfterStart, AtAttempt, Step, timeline, total_messages


def scenario(producers: list[dict[str, Any]], *faults: dict[str, Any]) -> Scenario:
    """A scenario with one topic, these producers and these faults."""
    return Scenario.model_validate(
        {
            "version": 1,
            "title": "x",
            "topics": [{"name": "t"}],
            "workload": {"producers": [{"topic": "t", **spec} for spec in producers]},
            "faults": [{"fault": "kill", **fault} for fault in faults],
        }
    )


def test_lagging_leader_kill_becomes_two_steps() -> None:
    """Ids by position and fault, times in ms, targets as written."""
    first, second = timeline(load_builtin("leader-kill-lagging-acks-1"), 7)
    assert first == Step(
        "1-pause", "pause", parse_target("followers-of orders/0"), AfterStart(4000), 4500, first.seed
    )
    assert second == Step(
        "2-kill", "kill", parse_target("leader-of orders/0"), AfterStart(6000), 11_000, second.seed
    )


@pytest.mark.parametrize(
    ("at", "trigger"),
    [
        ("250ms", AfterStart(250)),
        (3, AfterStart(3000)),
        ({"message": 12}, AtAttempt(12)),
        ("30%", AtAttempt(75)),
        ("0%", AtAttempt(1)),
        ("100%", AtAttempt(250)),
    ],
)
def test_triggers_with_message_bounded_producers(at: Any, trigger: AfterStart | AtAttempt) -> None:
    """A share is a share of all messages of all producers, and at least the first one."""
    load = scenario([{"messages": 100, "count": 2}, {"messages": 50}], {"at": at})
    assert timeline(load, 1)[0].trigger == trigger


def test_percentage_is_of_longest_duration_with_timed_producers() -> None:
    """One producer bounded by time is enough for times to rule."""
    load = scenario([{"duration": "10s"}, {"duration": "20s"}, {"messages": 5}], {"at": "30%"})
    assert timeline(load, 1)[0].trigger == AfterStart(6000)


def test_step_without_for_has_no_duration() -> None:
    """It lasts until everything has been sent."""
    assert timeline(scenario([{"messages": 5}], {"at": "1s"}), 1)[0].duration_ms is None


def test_total_message_count() -> None:
    """The messages of all producers, or None where time bounds one of them."""
    assert total_messages(scenario([{"messages": 100, "count": 3}, {"messages": 1}])) == 301
    assert total_messages(scenario([{"messages": 100}, {"duration": "1s"}])) is None


def test_same_seed_gives_same_steps_and_each_step_its_own_seed() -> None:
    """The same seed gives the same steps; another seed or step gives other choices."""
    load = scenario([{"messages": 5}], {"at": "1s"}, {"at": "1s"})
    seeds = [step.seed for seed in (1, 2) for step in timeline(load, seed)]
    assert timeline(load, 1) == timeline(load, 1)
    assert len(set(seeds)) == 4
