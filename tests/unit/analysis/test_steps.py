"""The course of a run in steps: its sums are those of the findings, and it does not grow with messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.histories import History
from fakes.in_process import InProcess
from kaput.analysis.engine import steps
from kaput.analysis.pipeline import analyse
from kaput.analysis.runs.run import NULL
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from property.agreement import parts_of
from property.worlds import together

_MS = 1_000_000
MOMENTS = st.lists(st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(0, 10**10), max_size=60)


@given(at_ns=MOMENTS, ordered=st.booleans())
def test_everything_is_counted_in_its_step(at_ns: list[int], ordered: bool) -> None:
    """Whatever the times are, damaged ones too, nothing is left out; sound ones are in their own step."""
    given_ns = np.array(sorted(at_ns) if ordered else at_ns, np.int64)
    found = steps.counted("acked", given_ns, 100 * _MS)
    assert found["times"].sum() == len(at_ns)
    sound = {at // (100 * _MS) * 100 * _MS for at in at_ns if abs(at) < 2**62}
    assert sound <= set(found["at_ns"])


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3 * 10**9), st.integers(-(10**6), 10**8)), min_size=1, max_size=200
    ),
    ordered=st.booleans(),
)
def test_percentiles_of_steps_are_close_and_the_longest_is_exact(
    rows: list[tuple[int, int]], ordered: bool
) -> None:
    """Besides those that are counted one by one."""
    rows = sorted(rows) if ordered else rows
    done, us = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    found = steps.percentiles(*steps.graded("acked", done, us, 10**9)).rows_by_key("at_ns", named=True)
    by_step: dict[int, list[float]] = {}
    for at, long in rows:
        by_step.setdefault(at // 10**9 * 10**9, []).append(long / 1000)
    assert set(found) == set(by_step)
    for at, exact in by_step.items():
        (row,) = found[at]
        exact.sort()
        assert row["max"] == pytest.approx(exact[-1])
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            wanted = exact[int(np.ceil(share * len(exact))) - 1]
            assert row[name] == pytest.approx(max(0, wanted), rel=0.02, abs=0.001) or wanted < 0


def test_ack_without_a_time_has_no_latency() -> None:
    """A null among acknowledgements' times is no time."""
    graded, longest = steps.graded("acked", np.array([5, NULL]), np.array([5, 7]), 10)
    assert graded["times"].to_list() == [1] and longest["us"].to_list() == [5]


def test_steps_get_wider_with_the_run() -> None:
    """Two thousand seconds in steps of 100 ms; longer runs in wider ones, however many messages they have."""
    second = 10**9
    assert steps.width_ns(2_000 * second, few=False) == 100 * _MS
    assert steps.width_ns(2_001 * second, few=False) == second
    assert steps.width_ns(10**6 * second, few=False) == 100 * second
    assert steps.width_ns(10**6 * second, few=True) == 100 * _MS
    assert steps.width_ns(None, few=False) == second


def _analysed(history: History, path: Path) -> tuple[Findings, dict[int, pl.DataFrame], RunFolder]:
    folder = history.write(path)
    spark: Any = InProcess()
    findings = analyse(check(folder), spark)
    found = {
        int(directory.name.removeprefix("step_ms=")): pl.read_parquet(directory / "*.parquet")
        for directory in (folder.analysis / "timeline").iterdir()
    }
    return findings, found, folder


def test_sums_over_steps_are_those_of_the_findings(tmp_path: Path) -> None:
    """In a history of everything, at each width."""
    findings, levels, folder = _analysed(together(parts_of(7, range(60))), tmp_path)
    totals = findings.totals
    (lost,) = findings.anomaly("lost")
    rates = pl.read_parquet(folder.analysis / "rates" / "*.parquet")
    assert {100, 1000} <= set(levels)
    for rows in levels.values():
        sums = rows.select(pl.col("sent", "acked", "failed", "unknown", "lost", "delivered").sum()).row(0)
        delivered = rates["delivered"].sum()
        assert sums == (totals.sent, totals.acked, totals.failed, totals.unknown, lost.count, delivered)
        assert rows["ack_max_ms"].max() == pytest.approx(findings.latency_ms.ack.max)
        assert rows["end_to_end_max_ms"].max() == pytest.approx(findings.latency_ms.end_to_end.max)
        assert rows["at_ns"].is_sorted() and rows["at_ns"].n_unique() == rows.height
        assert (rows["ack_p50_ms"].drop_nulls() <= rows["ack_p99_ms"].drop_nulls()).all()


def test_the_widest_steps_fit_a_table(tmp_path: Path) -> None:
    """An hour with a message each second: steps get wider until few are left."""
    history = History()
    for seq in range(3_600):
        history.acked(0, seq, seq, attempt_ns=seq * 10**9, done_ns=seq * 10**9 + 1_000)
    _, levels, _ = _analysed(history.read_to_end(), tmp_path)
    assert {width: rows.height for width, rows in levels.items()} == {
        100: 3_600,
        1_000: 3_600,
        10_000: 360,
        100_000: 36,
    }


def test_events_are_in_the_order_of_time(tmp_path: Path) -> None:
    """Elections and what groups did; nothing of topics that are not the run's."""
    history = History(groups={"billing": True}).acked(0, 0, 0).led(1, 0, -5, [1, 2]).led(2, 1, 5, [2])
    history.led(1, 0, -4, [1], topic="other")
    _, _, folder = _analysed(history.read_to_end(), tmp_path)
    rows = pq.read_table(folder.analysis / "events").to_pylist()
    assert [(row["kind"], row["leader"], row["isr"]) for row in rows] == [
        ("leader", 1, [1, 2]),
        ("leader", 2, [2]),
    ]
