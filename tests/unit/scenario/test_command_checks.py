"""Clients that are any program: what their blocks may say."""

from __future__ import annotations

from typing import Any

import pytest

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario


def mistakes(
    producer: dict[str, Any], group: dict[str, Any], faults: list[dict[str, Any]] | None = None
) -> list[str]:
    """Of a scenario with one producer and one group."""
    document = {
        "version": 1,
        "title": "t",
        "topics": [{"name": "orders"}],
        "workload": {
            "producers": [{"topic": "orders", "messages": 100, **producer}],
            "groups": [{"id": "g", "topics": ["orders"], **group}],
        },
        "faults": faults or [],
    }
    found = check(Scenario.model_validate(document))
    return [f"{'.'.join(map(str, mistake.path))}: {mistake.text}" for mistake in found]


COMMAND = {"client": "command", "command": "python 'a client.py' produce"}


def test_command_clients_are_accepted() -> None:
    """Of producers and groups, with what it is given."""
    assert mistakes({**COMMAND, "partitioner": "round-robin", "config": {"linger": 5}}, COMMAND) == []
    assert mistakes({"client": "librdkafka"}, {}) == []


@pytest.mark.parametrize(
    ("producer", "group", "said"),
    [
        ({"client": "command"}, {}, "producers.0.client: a command line is missing"),
        ({"client": "command", "command": " "}, {}, "producers.0.client: a command line is missing"),
        ({"command": "x"}, {}, "producers.0.command: client: librdkafka takes no command"),
        ({**COMMAND, "command": "x '"}, {}, "producers.0.command: not a command line (No closing quotation)"),
        (
            {**COMMAND, "partitioner": "murmur2"},
            {},
            "producers.0.partitioner: murmur2 is a partitioner of librdkafka",
        ),
        ({}, {**COMMAND, "type": "share"}, "groups.0.type: only kaput's own members support share groups"),
        ({}, {**COMMAND, "commit-every": 5}, "groups.0.commit-every: the command decides this"),
        ({}, {**COMMAND, "processing": "5ms"}, "groups.0.processing: the command decides this"),
    ],
)
def test_invalid_command_client_is_reported_at_its_path(
    producer: dict[str, Any], group: dict[str, Any], said: str
) -> None:
    """And says what to write."""
    (mistake,) = mistakes(producer, group)
    assert mistake.startswith(f"workload.{said}")


def test_faults_on_command_clients_are_accepted() -> None:
    """All but slow, which only kaput's own members can be."""
    for fault in ("kill", "stop", "pause"):
        assert mistakes({}, COMMAND, [{"at": "1s", "fault": fault, "target": "member 1 of g"}]) == []
    for fault in ("kill", "pause"):
        step = {"at": "1s", "fault": fault, "target": "producer 0", "for": "1s"}
        assert mistakes(COMMAND, {}, [step]) == mistakes({}, {}, [step]) == []
    (mistake,) = mistakes({}, COMMAND, [{"at": "1s", "fault": "slow", "target": "member 1 of g"}])
    assert mistake == "faults.0.fault: slow changes the pace of kaput's own members, not of client: command"
