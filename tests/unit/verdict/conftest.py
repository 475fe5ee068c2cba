"""Scenarios and facts for the rules of the verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kaput.analysis.questions import questions
from kaput.evidence.fault_rows import FaultRow
from kaput.scenario.model import Scenario
from kaput.verdict import judge as judging
from kaput.verdict.facts import Facts

Make = Callable[..., Scenario]


def facts_of(**more: Any) -> Facts:
    """A sealed run of 1,000 messages, 990 of them acknowledged, unless given."""
    known = {"state": "sealed", "sent": 1000, "acked": 990} | more
    return Facts(**known)


def fault_row(
    id_: str,
    fault: str,
    target: str,
    confirmed: bool,
    proof: str,
    effective_ns: int | None = None,
    brokers: tuple[int, ...] = (),
    healed_ns: int | None = None,
) -> FaultRow:
    """A fault that was injected at 0."""
    return FaultRow(id_, fault, target, brokers, 0, effective_ns, healed_ns, confirmed, proof)


def judge(facts: Facts, scenario: Scenario | None) -> judging.Judgement:
    """By the rules of all questions."""
    rules = {name: rule for question in questions() for name, rule in question.rules.items()}
    return judging.judge(facts, scenario, rules)


@pytest.fixture
def scenario() -> Make:
    """One topic, one producer, as told: (expect, topic's config, cluster's config, steps, **producer)."""

    def make(
        expect: dict[str, Any] | None = None,
        topic: dict[str, Any] | None = None,
        cluster: dict[str, Any] | None = None,
        faults: list[Any] | None = None,
        stores: list[str] | None = None,
        replay: str = "exactly once",
        **producer: Any,
    ) -> Scenario:
        replays = {"exactly once": {}, "at-least-once": {"at-least-once": True}, "none": "none"}
        workload = {"replay": replays[replay]} if stores else {}
        return Scenario.model_validate(
            {
                "stores": {name: {} for name in stores or ()},
                "version": 1,
                "title": "t",
                "cluster": {"config": cluster or {}},
                "topics": [{"name": "orders", "config": topic or {}}],
                "workload": {"producers": [{"topic": "orders", "messages": 100, **producer}], **workload},
                "faults": [
                    {"at": "1s", "fault": each} if isinstance(each, str) else each for each in faults or []
                ],
                "expect": expect or {},
            }
        )

    return make
