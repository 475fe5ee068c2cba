"""The plan of a scenario: each mistake, and what a step means where it does not say."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.checks.plan import moved_groups
from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario
from kaput.scenario.plan import KEYS, PlanStep
from kaput.scenario.source import dotted

MIRROR = {"from": "dc1", "to": "dc2", "topics": ["orders"], "groups": ["billing"]}
BACK = {"from": "dc2", "to": "dc1", "topics": ["orders"], "groups": ["billing"], "start": "by-plan"}
PLAN = [
    {"step": "notice", "when": "unreachable for 3s"},
    {"step": "decide", "takes": "5s"},
    {"step": "fence", "cluster": "dc1"},
    {"step": "promote", "mirror": "dc1->dc2"},
    {"step": "move-producers", "to": "dc2"},
    {"step": "move-groups", "to": "dc2", "positions": "translated"},
    {"step": "heal"},
    {"step": "mirror-back", "mirror": "dc2->dc1"},
    {"step": "fail-back", "to": "dc1"},
]


def raw(plan: list[dict[str, Any]] = PLAN, **changes: Any) -> dict[str, Any]:
    """A file with two clusters, both mirrors, and a plan."""
    return {
        "version": 1,
        "title": "x",
        "clusters": {"dc1": {"brokers": 1}, "dc2": {"brokers": 1}},
        "mirrors": [MIRROR, BACK],
        "topics": [{"name": "orders", "replication-factor": 1}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10}],
            "groups": [{"id": "billing", "topics": ["orders"]}],
        },
        "plan": plan,
        **changes,
    }


def mistakes(plan: list[dict[str, Any]] = PLAN, **changes: Any) -> dict[str, str]:
    return {dotted(each.path): each.text for each in check(Scenario.model_validate(raw(plan, **changes)))}


def test_complete_plan_is_valid_and_round_trips() -> None:
    """Every step once; what is recorded says the same."""
    scenario = Scenario.model_validate(raw())
    assert mistakes() == {} and {step.step for step in scenario.plan} == set(KEYS)
    dumped = scenario.dump()
    assert Scenario.model_validate(dumped).dump() == dumped
    assert dumped["plan"][0] == {"step": "notice", "when": "unreachable for 3s"}
    assert "plan" not in Scenario.model_validate(raw([])).dump()


def test_plan_step_defaults() -> None:
    """Three seconds for outcomes, fifteen for a mirror; every group that can be moved."""
    scenario = Scenario.model_validate(raw())
    step = scenario.plan[5]
    assert (step.settle_s, step.wait_s, step.unreachable_ms) == (3.0, 15.0, None)
    assert scenario.plan[0].unreachable_ms == 3000
    assert [group.id for group in moved_groups(step, scenario)] == ["billing"]
    assert moved_groups(scenario.plan[4], scenario) == []


@pytest.mark.parametrize(
    ("step", "path", "text"),
    [
        ({"step": "fence"}, "cluster", "fence needs it"),
        ({"step": "fence", "cluster": "dc3"}, "cluster", "no such cluster: dc3"),
        ({"step": "move-producers", "to": "dc2", "takes": "3s"}, "takes", "move-producers takes no takes"),
        ({"step": "heal", "to": "dc2"}, "to", "heal takes no to; it takes no options"),
        ({"step": "promote", "mirror": "dc1->dc3"}, "mirror", "no such mirror: dc1->dc3"),
        ({"step": "mirror-back", "mirror": "dc1->dc2"}, "mirror", "dc1->dc2 runs from the start"),
        ({"step": "move-groups", "to": "dc2", "groups": ["x"]}, "groups.0", "no such group: x"),
        ({"step": "notice", "at": "3s", "when": "unreachable for 3s"}, "when", "at is also given"),
        ({"step": "notice", "at": "30%"}, "at", "a plan uses times, not shares or messages"),
    ],
)
def test_invalid_plan_step_is_reported_at_its_key(step: dict[str, Any], path: str, text: str) -> None:
    assert mistakes([PLAN[0], step])[f"plan.1.{path}"].startswith(text)


def test_plan_is_checked_against_the_rest_of_the_scenario() -> None:
    """No clusters, no moment, no topic to go to, clients that stay, positions that nobody translates."""
    one = mistakes(clusters={}, mirrors=[])
    assert one["plan"].startswith("a plan moves clients between clusters")
    assert mistakes([{"step": "heal"}])["plan.0"].startswith("the first step needs a moment")
    move = [PLAN[0], {"step": "move-producers", "to": "dc2"}, {"step": "move-groups", "to": "dc2"}]
    assert mistakes(move, mirrors=[])["plan.1.to"].startswith("dc2 has no topic orders")
    assert mistakes(move, mirrors=[MIRROR | {"groups": []}])["plan.2.positions"].startswith(
        "no mirror to dc2 translates the positions of billing"
    )
    work: dict[str, Any] = {
        "producers": [{"topic": "orders", "messages": 10, "transactions": {"size": 5}}],
        "groups": [{"id": "billing", "topics": ["orders"], "type": "share"}],
    }
    named = [move[0], move[1], move[2] | {"groups": ["billing"]}]
    stays = mistakes(named, workload=work)
    assert stays["plan.1.step"] == "no producer can be moved: a transaction is part of one cluster"
    assert stays["plan.2.groups.0"] == "billing cannot be moved: a share group's state is not mirrored"


def test_when_condition_is_normalized_or_rejected() -> None:
    """Anything else says what would be right."""
    assert PlanStep(step="notice", when="unreachable for 3000ms").when == "unreachable for 3s"
    with pytest.raises(ValueError, match="write for example unreachable for 3s"):
        PlanStep(step="notice", when="dead for 3s")
