"""Changes of leader as sentences."""

from __future__ import annotations

from typing import Any

from kaput.evidence.findings import Findings
from kaput.report.leaders import leader_sentences


def test_a_leader_that_came_back_is_told_as_what_it_is(raw: dict[str, Any]) -> None:
    """It took over from nobody, and there were no two leaders."""
    change = {
        "topic": "orders", "partition": 0, "elected_ns": 600_000_000, "epoch": 2, "leader": 1,
        "first_ack_ns": 900_000_000, "last_deposed_ack_ns": 51_000_000, "deposed_acks": 1200, "lost": 1100,
        "old_leader": 1, "offsets_used_twice": 3,
    }  # fmt: skip
    assert leader_sentences(Findings.model_validate(raw | {"leader_changes": [change]})) == [
        "orders/0: broker 1 came back and led again (epoch 2), its first acknowledgement 300 ms after the "
        "election, without 1,200 that it had acknowledged before, 1,100 of them lost."
    ]
