"""Each anomaly is ruled on: cases without a ruling would leave the run held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fakes.histories import History
from fakes.judging import judged
from kaput.analysis import pipeline
from kaput.analysis.engine.question import Cases, Find, Question
from kaput.analysis.questions import questions
from kaput.scenario.anomalies import ANOMALIES, AnomalyKind


def test_each_anomaly_has_a_rule() -> None:
    assert {name for question in questions() for name in question.rules} == set(ANOMALIES)


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


@pytest.mark.parametrize(("by", "counts"), [("topic", {"orders": 2}), ("producer", {"0": 2}), ("run", {})])
def test_an_anomaly_is_also_counted_by_what_it_declares(
    by: Any, counts: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(ANOMALIES, "duplicate", AnomalyKind("Stored more than once.", by=by))  # type: ignore[attr-defined]
    history = History().acked(0, 0, 0).acked(0, 1, 1).stored(2, 0, 0).stored(3, 0, 1)
    (duplicate,) = judged(history, tmp_path).anomaly("duplicate")
    assert (duplicate.count, duplicate.counts) == (2, counts)
