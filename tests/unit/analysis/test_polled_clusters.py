"""Histories of clusters that were looked at from outside: what is a violation there, what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import MS, History, at
from fakes.judging import judged


def failover(acks: Any, second: int = 2, config: dict[str, Any] | None = None, epoch: int = 1) -> History:
    """Broker 1 acknowledges offsets 0 to 2 and is broken at 50 ms; who leads next was seen at 100 ms, up to
    60 ms after it began, and has only offset 0.
    """
    topic = {"name": "orders", "config": {"min.insync.replicas": 2} if config is None else config}
    history = History(producers=[{"topic": "orders", "acks": acks, "messages": 4}], topics=[topic])
    polled = {"source": "polling", "within_ns": 60 * MS}
    history.led(1, 0, -10, [1, 2, 3], **polled).led(second, epoch, 100, [2, 3], **polled)
    history.acked(0, 0, 0).sent(0, 1, 1).sent(0, 2, 2)
    history.acked(0, 3, 1, attempt_ns=at(120), done_ns=at(130), leader_epoch=epoch)
    return history.fault(1, 50, 400, fault="command", id="1-command")


@pytest.mark.parametrize(
    ("acks", "config", "verdict"),
    [
        ("all", None, "violated"),
        ("all", {"min.insync.replicas": 1}, "inconclusive"),
        ("all", {"min.insync.replicas": 2, "unclean.leader.election.enable": True}, "inconclusive"),
        (1, None, "held"),
    ],
)
def test_loss_by_a_deposed_leader_on_a_polled_cluster(
    tmp_path: Path, acks: Any, config: dict[str, Any] | None, verdict: str
) -> None:
    """Its cause is known from the epochs in the log; what the ISR was is not."""
    findings = judged(failover(acks, config=config), tmp_path)
    assert findings.anomaly("lost")[0].causes == {"deposed-leader": 2}
    assert findings.verdict == verdict, findings.reasons
    assert any("up to 60 ms before it was seen" in note for note in findings.notes)


def test_leader_outside_the_polled_isr_is_not_called_unclean(tmp_path: Path) -> None:
    """The ISR may have grown between two looks."""
    history = failover("all")
    history.rows["cluster_events"][0]["isr"] = [1]
    findings = judged(history, tmp_path)
    assert findings.anomaly("lost")[0].causes == {"deposed-leader": 2}
    history.rows["cluster_events"] = [{**row, "within_ns": None} for row in history.rows["cluster_events"]]
    history.rows["end_offsets"].clear()
    # A new replica that is elected at the end of its move is not alone in the ISR.
    assert judged(history, tmp_path / "moved").anomaly("lost")[0].causes == {"deposed-leader": 2}
    for row in history.rows["cluster_events"][1:]:
        row["isr"] = [row["leader"]]
    history.rows["end_offsets"].clear()
    assert judged(history, tmp_path / "recorded").anomaly("lost")[0].causes == {"unclean-election": 2}


def test_unobserved_epoch_leaves_the_leader_unknown(tmp_path: Path) -> None:
    """Between two epochs of broker 1 another one may have led, and overwritten what it had acknowledged."""
    seen = judged(failover(1, second=1), tmp_path / "seen")
    assert seen.anomaly("lost")[0].causes == {"leader-restarted": 2}
    history = failover(1, second=1, epoch=2)
    history.led(None, 1, 100, None, source="polling", within_ns=60 * MS)
    findings = judged(history, tmp_path / "missed")
    assert findings.verdict == "inconclusive", findings.reasons


def test_fault_is_matched_with_the_next_observed_election(tmp_path: Path) -> None:
    """Its time is that of the look."""
    (fault,) = judged(failover(1), tmp_path).faults
    assert (fault.election_ms, fault.lost) == (50, 2)


def test_no_precision_note_for_recorded_times(tmp_path: Path) -> None:
    history = failover(1)
    history.rows["cluster_events"] = [{**row, "within_ns": None} for row in history.rows["cluster_events"]]
    assert not any("polling" in note for note in judged(history, tmp_path).notes)
