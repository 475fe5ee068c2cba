"""Acknowledged messages below the start of a log: what retention or kafka-delete-records removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.histories import History
from fakes.judging import findings_in


def _history(missing: tuple[int, ...], start: int | None, **config: Any) -> History:
    """Six messages were acknowledged, all but some are stored; whether the log's start is on record."""
    history = History(topics=[{"name": "orders", "config": config}])
    for seq in range(6):
        history.sent(0, seq, seq)
        if seq not in missing:
            history.stored(seq, 0, seq)
    history.led(1, 0, 0, [1]).add(
        "end_offsets", topic="orders", partition=0, end_offset=6, drained_to=6, start_offset=start
    )
    return history


SHORT = {"retention.ms": 1000}
CASES: dict[str, tuple[History, str]] = {
    "the log's start is on record": (_history((0, 1), 2), "inconclusive"),
    "a start on record explains nothing behind it": (_history((0, 3), 1), "violated"),
    "nothing was deleted, whatever the retention": (_history((0, 1), 0, **SHORT), "violated"),
    "no start on record, a short retention": (_history((0, 1), None, **SHORT), "inconclusive"),
    "all of it": (_history(tuple(range(6)), None, **SHORT), "inconclusive"),
    "no start on record, retention by size": (
        _history((0, 1), None, **{"retention.bytes": 100}), "inconclusive"
    ),
    "no start on record, a hole in the middle": (_history((2, 3), None, **SHORT), "violated"),
    "no start on record, the usual retention": (_history((0, 1), None), "violated"),
    "no start on record, retention without an end": (
        _history((0, 1), None, **{"retention.ms": -1}), "violated"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_loss_below_the_log_start_is_inconclusive(name: str, tmp_path: Path) -> None:
    """Counted as lost, and not held against the cluster."""
    history, verdict = CASES[name]
    findings = findings_in(history.write(tmp_path))
    (lost,) = findings.anomaly("lost")
    assert (findings.verdict, lost.permitted) == (verdict, 0), findings.reasons
    assert lost.count == 6 - len(history.rows["log"])


@pytest.mark.parametrize("proven", [True, False])
def test_records_deleted_by_a_step_are_permitted_losses(proven: bool, tmp_path: Path) -> None:
    """As far as it is known to have been there: message 0 was delivered, message 1 never was. Without a step,
    something else has deleted it: it is removed, not lost.
    """
    history = _history((0, 1), 2).deleted("orders", 20, bit=proven)
    history.groups, history.blocks = {"billing": False}, {}
    findings = findings_in(history.handed(0, 0, 0, 10).write(tmp_path))
    (lost,), (vanished,) = findings.anomaly("lost"), findings.anomaly("vanished")
    assert (lost.count, lost.permitted) == ((2, 1) if proven else (1, 0))
    assert (vanished.count, vanished.permitted) == (1, 1)
    assert findings.verdict == "inconclusive", findings.reasons
    assert lost.causes == ({"deleted": 1, "unexplained": 1} if proven else {"unexplained": 1})
    removed = findings.anomaly("removed")[0]
    assert (removed.count, removed.permitted) == (1, 1)
    assert removed.causes == ({"step": 1} if proven else {"retention": 1})
    assert lost.examples[0].story.endswith("and the log now starts above that offset")


def test_deletion_step_only_excuses_its_own_topic(tmp_path: Path) -> None:
    """Records of the one were deleted, and the other's log begins above its first message."""
    history = _history((0,), 1).deleted("bills", 20)
    findings = findings_in(history.handed(0, 0, 0, 10).write(tmp_path))
    assert findings.anomaly("lost")[0].permitted == 0


def test_deleted_records_that_were_delivered_leave_no_doubt(tmp_path: Path) -> None:
    """Everything that is gone had been delivered before."""
    history = _history((0, 1), 2).deleted("orders", 20)
    history.groups = {"billing": True}
    for seq in range(6):
        history.handed(seq, 0, seq, 10 + seq / 10)
    findings = findings_in(history.write(tmp_path))
    assert findings.verdict == "held", findings.reasons
    assert not findings.notes and "no promise was broken" in findings.reasons[0]
