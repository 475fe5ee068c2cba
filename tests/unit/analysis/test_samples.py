"""Samples that cannot be what they say: nobody trips over them, and a note tells of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.judging import judged

ODD = (float("nan"), float("inf"), float("-inf"), 1e30, -1e30, -5.0, 2.0**63)


def lagging(*values: float) -> History:
    """A group that was delivered its message, and samples of its lag."""
    history = History(groups={"billing": True}).acked(0, 0, 0).handed(0, 0, 0, 5)
    for ms, value in enumerate(values):
        labels = [("group", "billing"), ("topic", "orders"), ("partition", "0")]
        history.add("samples", at_ns=at(ms), source="lab", name="lag", labels=labels, value=value)
    return history


@pytest.mark.parametrize("value", ODD)
def test_impossible_lag_sample_is_ignored_with_a_note(value: float, tmp_path: Path) -> None:
    findings = judged(lagging(3, value, 1), tmp_path)
    assert findings.groups[0].lag.max == 3
    assert any(note.startswith("1 samples of lag") for note in findings.notes)
    assert findings.verdict == "held"


@pytest.mark.parametrize("value", ODD)
def test_impossible_offset_sample_is_ignored_with_a_note(value: float, tmp_path: Path) -> None:
    """A standstill is of the samples around it, as though it had not been taken."""
    history = lagging().stable(1, 5, 0).stable(1, 5, 40_000).stable(1, 5, 90_000)
    history.rows["samples"][2]["value"] = value
    findings = judged(history, tmp_path)
    assert {a.name: a.count for a in findings.anomalies if a.count} == {"hanging-transaction": 1}
    assert any(note.startswith("1 samples of lag") for note in findings.notes)


def test_unknown_metric_is_ignored_silently(tmp_path: Path) -> None:
    """A metric of another program is not looked at, and nothing is reported of it."""
    history = lagging(3)
    history.add("samples", at_ns=at(1), source="lab", name="heat", labels=[], value=float("nan"))
    findings = judged(history, tmp_path)
    assert (findings.groups[0].lag.max, findings.notes) == (3, [])
