"""Producers that send in transactions, in a scenario: what they may be told, and which are aborted."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kaput.scenario.checks.scenario import check
from kaput.scenario.model import Scenario
from kaput.scenario.producers import Transactions
from kaput.scenario.source import dotted


def scenario(producer: dict[str, Any], **step: Any) -> Scenario:
    """One producer of this kind, and another without transactions."""
    raw = {
        "version": 1,
        "title": "x",
        "topics": [{"name": "orders"}],
        "workload": {
            "producers": [
                {"topic": "orders", "messages": 10, **producer},
                {"topic": "orders", "messages": 10},
            ]
        },
        "faults": [{"at": "1s", "fault": "noop", **step}] if step else [],
    }
    return Scenario.model_validate(raw)


def found(producer: dict[str, Any], **step: Any) -> dict[str, str]:
    """Mistakes by their path."""
    mistakes = check(scenario(producer, **step))
    return {dotted(m.path).removeprefix("workload.producers.0."): m.text for m in mistakes}


SIZED = {"transactions": {"size": 5, "abort": "20%"}}


def test_transactions_imply_idempotence() -> None:
    """A sound block, its other settings passed through, and what the whole scenario says of it."""
    read = scenario({**SIZED, "config": {"transaction.timeout.ms": 5000}})
    assert check(read) == []
    assert read.workload.producers[0].idempotence and not read.workload.producers[1].idempotence
    assert [spec.transaction_timeout_ms for spec in read.workload.producers] == [5_000, 60_000]
    assert read.transactional
    assert Scenario.model_validate(read.dump()) == read


@pytest.mark.parametrize(
    ("producer", "place", "said"),
    [
        ({**SIZED, "acks": 1}, "acks", "idempotence needs acks all"),
        ({**SIZED, "idempotence": False}, "idempotence", "transactions need idempotence"),
        (
            {**SIZED, "config": {"transactional.id": "x"}},
            "config.transactional.id",
            "use the key transactions",
        ),
        (
            {**SIZED, "config": {"transaction.timeout.ms": 900_001}},
            "config.transaction.timeout.ms",
            "at most 900000",
        ),
        (
            {"config": {"transaction.timeout.ms": 5_000}},
            "config.transaction.timeout.ms",
            "do not use transactions",
        ),
    ],
)
def test_conflicting_transactional_settings_are_rejected(
    producer: dict[str, Any], place: str, said: str
) -> None:
    """Each mistake is found at its place, and nothing else."""
    mistakes = found(producer)
    assert list(mistakes) == [place]
    assert said in mistakes[place]


@pytest.mark.parametrize("block", [{"size": 0}, {"abort": "101%"}, {"abort": "often"}, {"abort": True}])
def test_invalid_transactions_block_is_rejected(block: dict[str, Any]) -> None:
    """Of at least one message, and a share is a share."""
    with pytest.raises(ValidationError):
        scenario({"transactions": block})


@pytest.mark.parametrize(
    ("target", "fault", "said"),
    [
        ("producer 0", "pause", None),
        ("transaction-coordinator-of producer 0", "kill", None),
        ("producer 2", "pause", "no such producer: 2; producers are 0 to 1"),
        ("producer 0", "stop", "stop does not hit producers; kill and pause do"),
        ("transaction-coordinator-of producer 1", "kill", "producer 1 does not use transactions"),
    ],
)
def test_fault_targets_on_producers(target: str, fault: str, said: str | None) -> None:
    """A producer itself may be paused; whoever coordinates its transactions, anything."""
    mistakes = found(SIZED, target=target, fault=fault)
    assert (list(mistakes.values()) == []) if said is None else said in mistakes["faults.0.target"]


@pytest.mark.parametrize(("share", "count"), [("10%", 100), ("0%", 0), (0, 0), ("33%", 330), ("100%", 1_000)])
def test_aborted_transactions_are_spread_evenly(share: Any, count: int) -> None:
    """Of a thousand transactions so many are aborted, of each hundred a tenth of that, give or take one."""
    block = Transactions.model_validate({"abort": share})
    numbers = [number for number in range(1_000) if block.aborts(number)]
    assert len(numbers) == count
    assert all(abs(sum(n // 100 == i for n in numbers) - count / 10) <= 1 for i in range(10))


def test_producers_sharing_a_process_reject_faults_and_transactions() -> None:
    """A fault would hit all of them; and only kaput's own plain producers can share one."""
    mistakes = found({"per-process": 2, "count": 2}, target="producer 0", fault="pause")
    assert mistakes == {"faults.0.target": "producer 0 shares its process with others; write per-process: 1"}
    assert "without transactions" in found({**SIZED, "per-process": 2})["per-process"]
