"""Faults on members and the groups of a scenario: each disagreement is found, at its path."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.errors import UsageError
from kaput.scenario.checks.scenario import check
from kaput.scenario.loader import load_file
from kaput.scenario.model import Scenario
from kaput.scenario.source import dotted


def found(*steps: dict[str, Any]) -> dict[str, str]:
    """Mistakes of the steps, by their path below `faults`."""
    groups = [
        {"id": "billing", "topics": ["orders"], "members": 3},
        {"id": "my group", "topics": ["orders"], "static": True},
    ]
    raw = {
        "version": 1,
        "title": "x",
        "topics": [{"name": "orders"}],
        "workload": {"producers": [{"topic": "orders", "messages": 10}], "groups": groups},
        "faults": [{"at": "1s", **step} for step in steps],
    }
    return {dotted(m.path).removeprefix("faults."): m.text for m in check(Scenario.model_validate(raw))}


@pytest.mark.parametrize(
    "steps",
    [
        [{"fault": fault, "target": "member 3 of billing"} for fault in ("kill", "stop", "pause", "leave")],
        [{"fault": "slow", "target": "members of billing", "processing": "1s"}],
        [{"fault": "kill", "target": "any member of my group"}],
        [
            {"fault": "join", "target": "member 4 of billing"},
            {"fault": "kill", "target": "member 4 of billing"},
        ],
        [
            {"fault": "kill", "target": "any member of billing"},
            {"fault": "join", "target": "member 2 of billing"},
        ],
        [{"fault": "kill", "target": "coordinator-of my group"}],
    ],
)
def test_valid_member_faults_are_accepted(steps: list[dict[str, Any]]) -> None:
    """Members that are there, those that join, groups whose ids have spaces."""
    assert found(*steps) == {}


@pytest.mark.parametrize(
    ("step", "place", "said"),
    [
        ({"fault": "kill", "target": "member 4 of billing"}, "0.target", "billing has 1 to 3, and no step"),
        ({"fault": "kill", "target": "member 0 of billing"}, "0.target", "no such member: 0"),
        ({"fault": "kill", "target": "members of biling"}, "0.target", "no such group: biling; did you mean"),
        ({"fault": "isolate", "target": "members of billing"}, "0.target", "isolate hits brokers"),
        ({"fault": "noop", "target": "members of billing"}, "0.target", "noop hits brokers"),
        (
            {"fault": "leave"},
            "0.target",
            "write for example member 1 of billing",
        ),
        ({"fault": "slow", "target": "broker 1"}, "0.target", "slow hits members of groups"),
        ({"fault": "join", "target": "members of billing"}, "0.target", "write member 4 of billing"),
        ({"fault": "join", "target": "member 2 of billing"}, "0.target", "exists from the start"),
        ({"fault": "join", "target": "member 0 of billing"}, "0.target", "numbered from 1"),
        ({"fault": "leave", "target": "member 1 of my group"}, "0.fault", "write stop, or static: false"),
        (
            {"fault": "kill", "target": "member 1 of billing", "processing": "1s"},
            "0.processing",
            "kill takes no processing",
        ),
    ],
)
def test_invalid_member_fault_is_rejected_at_its_path(step: dict[str, Any], place: str, said: str) -> None:
    """At its place, with what to write."""
    mistakes = found(step)
    mistakes.pop("0.fault" if step["fault"] == "isolate" else "", None)  # there is no network to break
    assert list(mistakes) == [place] and said in mistakes[place]


def test_invalid_targets_are_reported_with_line_and_suggestion(tmp_path: Any) -> None:
    """Like every other mistake in a file."""
    path = tmp_path / "s.yaml"
    path.write_text(
        "version: 1\ntitle: x\ntopics: [{name: orders}]\nworkload:\n"
        "  producers: [{topic: orders, messages: 10}]\n  groups: [{id: g, topics: [orders]}]\nfaults:\n"
        "  - {at: 1s, fault: kill, target: membr 1 of g}\n"
        "  - {at: 1s, fault: kill, target: any members of g}\n"
        "  - {at: 1s, fault: lave, target: member 1 of g}\n"
    )
    with pytest.raises(UsageError) as caught:
        load_file(path)
    said = str(caught.value)
    for text in (":8: ", "member N of G", ":9: ", "any member of G", ":10: ", "leave"):
        assert text in said, said
