"""Each anomaly is ruled on: cases without a ruling would leave the run held."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fakes.histories import History
from fakes.judging import judged
from kaput.analysis import pipeline
from kaput.analysis.engine.question import Cases, Find, Question
from kaput.analysis.questions import questions
from kaput.scenario.anomalies import ANOMALIES

# Neither is an error: a message with an unknown outcome that is stored, and at-least-once delivery.
NO_ERRORS = {"recovered", "redelivered"}


def test_each_anomaly_has_a_rule_or_is_never_permitted() -> None:
    ruled = {name for question in questions() for name in question.rules}
    never = {name for name, anomaly in ANOMALIES.items() if anomaly.never is not None}
    assert ruled | never == set(ANOMALIES) - NO_ERRORS


def test_each_anomaly_has_a_story() -> None:
    assert {name for question in questions() for name in question.stories} == set(ANOMALIES)


class InRows(Question):
    """Yields cases in the stage rows."""

    def of_rows(self, rows: object) -> list[Find]:
        return [Cases("lost", pl.DataFrame({"n": [1]}))]


def test_cases_in_rows_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only sums come back from there: the examples would be lost."""
    monkeypatch.setattr(pipeline, "questions", lambda: [*questions(), InRows()])
    history = History(producers=[{"topic": "orders", "acks": 1}], topics=[{"name": "orders"}])
    history.acked(0, 0, 0)
    with pytest.raises(AssertionError, match="cases cannot be found in rows"):
        judged(history, tmp_path)
