"""Why an acknowledged message is gone, and what follows from that: every case in tests/fakes/failovers.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from fakes.failovers import CASES
from fakes.histories import side_by_side
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.reading import check


@pytest.mark.parametrize("name", CASES)
def test_a_loss_has_its_cause_and_verdict(name: str, tmp_path: Path, played: InProcess) -> None:
    """What the evidence can tell of a loss, and whether that is permitted, forbidden, or open."""
    case = CASES[name]
    history = replace(case.history, rows={table: list(rows) for table, rows in case.history.rows.items()})
    findings = analyse(check(history.read_to_end().write(tmp_path)), played)
    (lost,) = findings.anomaly("lost")
    assert (lost.count, lost.causes) == (1, {case.cause: 1})
    assert findings.verdict == case.verdict, findings.reasons
    assert lost.permitted == (case.verdict == "held")
    assert any(case.words in reason for reason in findings.reasons), findings.reasons
    (shared,) = findings.anomaly("inconsistent-offset")
    assert set(shared.causes) <= {case.cause}


def test_every_case_keeps_its_cause_beside_the_others(tmp_path: Path, spark: SparkContext) -> None:
    """All cases as one run: each has the cause that it has alone."""
    histories = [case.history for case in CASES.values()]
    evidence = check(side_by_side(histories).read_to_end().write(tmp_path))
    analyse(evidence, spark, ledger="messages")
    lost = {
        row["producer"]: row["cause"] for row in pq.read_table(tmp_path / "analysis" / "lost").to_pylist()
    }
    assert [lost[number] for number in range(len(CASES))] == [case.cause for case in CASES.values()]
