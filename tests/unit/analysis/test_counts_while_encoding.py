"""What is counted while rows are encoded, and the course of a run that is made of it, on a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from kaput.analysis.engine.question import SumPart
from kaput.analysis.engine.steps import COUNTS, GRADES, LONGEST, graded
from kaput.analysis.questions import time_series
from kaput.analysis.questions.availability import topics_read
from kaput.analysis.questions.logs import Logs
from kaput.analysis.runs.encoding import Encoded
from kaput.analysis.runs.run import NULL

S = 1_000_000_000


def test_send_run_ends_at_its_last_attempt_or_outcome() -> None:
    """Whichever is later; an outcome without a time is none, and only one of these is an acknowledgement."""
    runs = pl.DataFrame({"row": [0, 2, 4, 5], "outcome": ["acked", "acked", "failed", "unknown"]})
    runs = runs.with_columns(pl.lit(7, pl.Int64).alias(name) for name in ("producer", "topic", "place"))
    attempts, dones = [10, 20, 30, 31, 40, 50], [15, 12, 80, 70, 60, NULL]
    rows = {"attempts": np.array(attempts, np.int64), "dones": np.array(dones, np.int64)}
    of: Any = SimpleNamespace(coded=SimpleNamespace(runs=runs, rows=rows))
    found = time_series._sent(of).select("begin_ns", "last_attempt_ns", "end_ns", "last_ack_ns")
    assert found.rows() == [(10, 20, 20, 15), (30, 31, 80, 80), (40, 40, 60, None), (50, 50, 50, None)]


@pytest.mark.parametrize("step_s", [1, 10])
def test_acks_are_counted_per_second_at_any_step_width(step_s: int) -> None:
    """Steps that are no wider than that were counted with their latencies already."""
    runs = pl.DataFrame({"row": [0], "n": [2], "outcome": ["acked"]})
    times = np.array([S // 2, S + S // 2], np.int64)
    sends = Encoded("sends", runs, {"attempts": times, "dones": times})
    latencies = graded("acked", times, np.array([5, 5], np.int64), step_s * S)
    known = SimpleNamespace(step_ns=step_s * S)
    of: Any = SimpleNamespace(coded=sends, acked=sends, graded=latencies, known=known)
    assert sorted(time_series._steps(of).select("what", pl.col("at_ns") // S, "times").rows()) == [
        *(("acked", 0, 1), ("acked", 1, 1), ("attempted", 0, 1), ("attempted", 1, 1))
    ]


def _counted(*rows: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame([(at * S, what, n) for at, what, n in rows], schema=COUNTS.columns, orient="row")


def _levels() -> list[tuple[int, list[tuple[int, int, int]]]]:
    """In s: the width of each level, and its rows as (at, sent, lost)."""
    none = {
        "graded": pl.DataFrame(schema=dict.fromkeys(GRADES.columns, pl.Int64) | {"what": pl.String}),
        "longest": pl.DataFrame(schema=dict.fromkeys(LONGEST.columns, pl.Int64) | {"what": pl.String}),
    }
    sums = {part: none[name] for name in none for part in time_series._SUMS[name][1]} | {
        "steps": _counted((0, "attempted", 3), (3, "attempted", 1), (11, "attempted", 5)),
        "steps_lost": _counted((3, "lost", 2)),
    }
    run: Any = SimpleNamespace(work=SimpleNamespace(step_ns=S), sums=sums)
    return [
        (level.width_ns // S, [(at // S, *n) for at, *n in level.rows.select("at_ns", "sent", "lost").rows()])
        for level in time_series.levels(run)
    ]


def test_step_width_grows_tenfold_until_rows_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two levels at least; the last may have as many rows as a table has."""
    fine = (1, [(0, 3, 0), (3, 1, 2), (11, 5, 0)])
    wider = (10, [(0, 4, 2), (10, 5, 0)])
    assert _levels() == [fine, wider]
    monkeypatch.setattr(time_series, "TABLE_ROWS", 2)
    assert _levels() == [fine, wider]
    monkeypatch.setattr(time_series, "TABLE_ROWS", 1)
    assert _levels() == [fine, wider, (100, [(0, 9, 2)])]


@pytest.mark.parametrize(
    ("producer", "seq", "intact", "foreign"),
    [(0, 5, True, 0), (None, 5, True, 3), (0, None, True, 3), (None, None, True, 3), (None, None, False, 0)],
)
def test_record_without_producer_or_seq_is_foreign(
    producer: int | None, seq: int | None, intact: bool, foreign: int
) -> None:
    row = {"place": 7, "epoch": 1, "n": 3, "offset": 10, "intact": intact, "producer": producer, "seq": seq}
    runs = pl.DataFrame([row], schema_overrides={"producer": pl.Int64, "seq": pl.Int64})
    of: Any = SimpleNamespace(table="log", coded=SimpleNamespace(runs=runs))
    (part,) = Logs().of_rows(of)
    assert isinstance(part, SumPart)
    assert part.rows.to_dicts() == [
        {"place": 7, "epoch": 1, "records": 3, "foreign": foreign, "low": 10, "high": 12}
    ]


def test_group_without_known_topics_may_read_any() -> None:
    """Of one with topics those that the run has."""
    reads = {"any": None, "some": ["bills", "gone"]}
    given: Any = SimpleNamespace(groups=["any", "some"], reads=reads, scenario=None)
    named = topics_read(given, ["orders", "bills"])
    assert named == {0: None, 1: [1]}
