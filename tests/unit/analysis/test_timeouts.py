"""Which delivery timeout a producer has, by its client and its settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kaput.analysis.questions.availability import Timeouts
from kaput.clients.keep.producer import TIMEOUT_MS
from kaput.scenario.model import Scenario

MS = 1_000_000


def _scenario(producers: list[dict[str, Any]], **workload: Any) -> Any:
    topics = [{"name": "orders"}, {"name": "invoices"}]
    stores = {"files": {"kind": "sqlite"}}
    load = {"producers": [{"topic": "orders", "messages": 1} | one for one in producers], **workload}
    return Scenario.model_validate(
        {"version": 1, "title": "t", "topics": topics, "stores": stores, "workload": load}
    )


@pytest.mark.parametrize(
    ("producer", "timeout_ms"),
    [
        ({}, 300_000),
        ({"config": {"message.timeout.ms": 700}}, 700),
        ({"config": {"delivery.timeout.ms": "800"}}, 800),
        ({"client": "java"}, 120_000),
        ({"client": "java", "config": {"delivery.timeout.ms": 900}}, 900),
        ({"client": "command", "command": "x", "config": {"delivery.timeout.ms": 900}}, None),
        # librdkafka gives a message of a transaction no longer than the transaction.
        ({"transactions": {"size": 5}}, 60_000),
        ({"transactions": {"size": 5}, "config": {"transaction.timeout.ms": 8_000}}, 8_000),
        ({"transactions": {"size": 5}, "client": "java"}, 120_000),
        ({"on-failure": {"stores": ["files"]}}, TIMEOUT_MS),
    ],
)
def test_delivery_timeout_by_client_and_settings(producer: dict[str, Any], timeout_ms: int | None) -> None:
    """Of one whose client kaput does not know none."""
    given: Any = SimpleNamespace(scenario=_scenario([{"client": "java"}, producer]))
    timeouts = Timeouts.given_by(given)
    assert [timeouts.of(number) for number in (-1, 0, 1, 2)] == [
        None,
        120_000 * MS,
        None if timeout_ms is None else timeout_ms * MS,
        None,
    ]
    assert timeouts.known == (timeout_ms is not None)


def test_processes_of_pipes_have_their_pipes_timeouts() -> None:
    """Their numbers follow those of the producers, and are dealt to the pipes in turn."""
    pipes = [
        {"id": f"pipe-{n}", "topics": ["orders"], "produces": {"topic": "invoices", "config": config}}
        for n, config in enumerate(({"transaction.timeout.ms": 8_000}, {"message.timeout.ms": 5_000}))
    ]
    given: Any = SimpleNamespace(scenario=_scenario([{}], groups=pipes))
    timeouts = Timeouts.given_by(given)
    assert [timeouts.of(number) for number in range(5)] == [
        ms * MS for ms in (300_000, 8_000, 5_000, 8_000, 5_000)
    ]


def test_no_delivery_timeout_without_a_scenario() -> None:
    """There is nothing that names the clients."""
    given: Any = SimpleNamespace(scenario=None)
    assert not Timeouts.given_by(given).known and Timeouts.given_by(given).of(0) is None
