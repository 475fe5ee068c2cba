"""Changes of leader as sentences."""

from __future__ import annotations

from typing import Any

from kaput.evidence.findings import Findings
from kaput.report.sections.leaders import leader_sentences


def test_returning_leader_is_not_described_as_a_change(raw: dict[str, Any]) -> None:
    """It took over from nobody, and there were no two leaders."""
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 2, "leader": 1,
        "first_ack_ns": 900_000_000, "last_deposed_ack_ns": 51_000_000, "deposed_acks": 1200, "lost": 1100,
        "old_leader": 1, "offsets_used_twice": 3,
    }  # fmt: skip
    assert leader_sentences(Findings.model_validate(raw | {"leader_changes": [change]})) == [
        "orders/0: broker 1 came back as leader (epoch 2), its first acknowledgement 300 ms after the "
        "election, without 1,200 messages that it had acknowledged, 1,100 of them lost."
    ]


def test_metadata_delay_is_shown_per_client(raw: dict[str, Any]) -> None:
    """One producer of a kind, several, and librdkafka alone, of which nothing is reported."""
    ours = {"client": "librdkafka", "producers": 1, "first_ms": 300.0, "last_ms": 300.0}
    java = {"client": "java 3.9.2", "producers": 3, "first_ms": 500.0, "last_ms": 2000.0}
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 1, "leader": 2,
        "old_leader": 1, "first_ack_ns": 900_000_000, "learned": [java, ours],
    }  # fmt: skip
    (both,) = leader_sentences(Findings.model_validate(raw | {"leader_changes": [change]}))
    assert (
        "300 ms after the election, known to 3 producers of java 3.9.2 500 ms to 2,000 ms after it and to "
        "librdkafka's producer 300 ms after it," in both
    )
    (own,) = leader_sentences(
        Findings.model_validate(raw | {"leader_changes": [change | {"learned": [ours]}]})
    )
    assert "known to" not in own
