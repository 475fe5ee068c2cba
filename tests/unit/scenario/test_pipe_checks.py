"""Groups that consume, transform and produce, in a scenario: what they may be given, and which producers they
are.
"""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Group, Scenario, member_transactional_id, pipes, producer_number, spec_of
from kaput.scenario.source import dotted

MADE = {"produces": {"topic": "invoices", "size": 7, "config": {"transaction.timeout.ms": 5000}}}


def scenario(group: dict[str, Any], producer: dict[str, Any] | None = None) -> Scenario:
    """Two producers, a group of this kind, a plain one, and another pipe."""
    raw = {
        "version": 1,
        "title": "x",
        "topics": [{"name": name} for name in ("orders", "invoices", "letters")],
        "workload": {
            "producers": [{"topic": "orders", "messages": 10, "count": 2, **(producer or {})}],
            "groups": [
                {"id": "billing", "topics": ["orders"], **group},
                {"id": "plain", "topics": ["orders"]},
                {"id": "writing", "topics": ["orders"], "produces": {"topic": "letters"}},
            ],
        },
    }
    return Scenario.model_validate(raw)


def found(group: dict[str, Any], producer: dict[str, Any] | None = None) -> dict[str, str]:
    mistakes = check(scenario(group, producer))
    return {dotted(m.path).removeprefix("workload.groups.0."): m.text for m in mistakes}


def test_each_pipe_process_has_its_own_producer_number() -> None:
    """Numbered after the scenario's, in turns; and what was promised to any of them is known."""
    read = scenario(MADE)
    assert check(read) == [] and read.transactional
    billing, writing = pipes(read)
    assert [group.id for group in (billing, writing)] == ["billing", "writing"]
    numbers = [producer_number(read, group, process) for process in (0, 1) for group in (billing, writing)]
    assert numbers == [2, 3, 4, 5]
    assert producer_number(read, billing.as_member(1), 1) == 4
    specs = [spec_of(read, number) for number in (0, *numbers)]
    assert [spec.topic for spec in specs if spec] == ["orders", *["invoices", "letters"] * 2]
    mine = spec_of(read, 4)
    assert mine is not None and mine.transactions is not None
    assert (mine.acks, mine.idempotence, mine.transactions.size) == ("all", True, 7)
    assert mine.transaction_timeout_ms == 5000
    assert member_transactional_id("billing", "member-1") != member_transactional_id("billing", "member-2")
    assert Scenario.model_validate(read.dump()) == read


def test_unknown_producer_number_has_no_spec() -> None:
    """Without pipes there are the scenario's; none has a negative number."""
    read = scenario({})
    only = read.model_copy(update={"workload": read.workload.model_copy(update={"groups": []})})
    assert not only.transactional
    assert [spec_of(only, number) is None for number in (None, -1, 0, 1, 2)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert spec_of(read, -1) is None


@pytest.mark.parametrize(
    ("group", "path", "said"),
    [
        ({"produces": {"topic": "invoice"}}, "produces.topic", "no such topic: invoice"),
        ({"produces": {"topic": "orders"}}, "produces.topic", "reads orders itself"),
        ({**MADE, "type": "share"}, "produces", "a share group commits no offsets"),
        (
            {**MADE, "client": "command", "command": "x"},
            "produces",
            "only kaput's own members can transform records",
        ),
        ({**MADE, "commit-every": 5}, "commit-every", "its transactions commit the offsets"),
        ({**MADE, "commit": "before"}, "commit", "its transactions commit the offsets"),
        ({**MADE, "topics": ["letters"]}, "topics.0", "written in transactions"),
        (
            {"produces": {"topic": "invoices", "config": {"transactional.id": "x"}}},
            "produces.config.transactional.id",
            "kaput sets this itself",
        ),
        (
            {"produces": {"topic": "invoices", "config": {"transaction.timeout.ms": 900_001}}},
            "produces.config.transaction.timeout.ms",
            "more than brokers allow",
        ),
    ],
)
def test_invalid_pipe_is_reported_at_its_path(group: dict[str, Any], path: str, said: str) -> None:
    """With the path, and what to write instead."""
    assert said in found(group)[path]


def test_transactional_input_topic_is_rejected() -> None:
    assert "written in transactions" in found(MADE, {"transactions": {"size": 5}})["topics.0"]


def test_plain_group_is_not_a_pipe() -> None:
    """Nothing is asked of it."""
    assert found({"commit-every": 5}) == {}
    assert pipes(scenario({}))[0] == Group.model_validate(
        {"id": "writing", "topics": ["orders"], "produces": {"topic": "letters"}}
    )
