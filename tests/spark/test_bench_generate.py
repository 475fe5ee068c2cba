"""What `kaput bench generate` says will be found is found, no more and no less: once by Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from fakes.in_process import InProcess
from fakes.kinds_of_anomalies import NOT_PLANTED
from kaput.analysis.pipeline import analyse
from kaput.bench.generate import generate, shape_of
from kaput.bench.plan import PlantingPlan, Shape
from kaput.evidence import reading
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.schemas import TABLES
from kaput.scenario.checks.scenario import check
from kaput.scenario.loader import read_resolved

SLABS = "ten producers in eight slabs"
CASES = {
    SLABS: (shape_of(50_000, 10, 10, 1, seed=1, slab_messages=7_000), 0.0001),
    "uneven producers, three groups": (
        shape_of(50_000, 7, 4, 3, seed=2, uneven=True, slab_messages=9_000),
        0.0005,
    ),
    "one partition, thick with anomalies": (shape_of(50_000, 3, 1, 2, seed=3, slab_messages=20_000), 0.001),
    "no group": (shape_of(50_000, 4, 4, 0, seed=4), 0.001),
}


def _make(path: Path, shape: Shape, rate: float) -> dict[str, Any]:
    return generate(PlantingPlan(shape, rate), path, lambda _done, _all: None)


@pytest.mark.long  # its siblings: the same without Spark, and spark/test_any_shape.py
def test_spark_finds_generated_anomalies_exactly(tmp_path: Path, spark: SparkContext) -> None:
    """Of every kind, in several tasks."""
    _assert_found(*CASES[SLABS], tmp_path, spark)


@pytest.mark.parametrize("case", CASES)
def test_generated_anomalies_assert_found_exactly(case: str, tmp_path: Path) -> None:
    """Fates, anomalies and verdict, in the run and in each group."""
    _assert_found(*CASES[case], tmp_path, InProcess())


def _assert_found(shape: Shape, rate: float, tmp_path: Path, spark: Any) -> None:
    expected = _make(tmp_path, shape, rate)
    planted = [count for name, count in expected["anomalies"].items() if name not in NOT_PLANTED]
    assert all(planted) or not shape.groups
    findings = analyse(reading.check(RunFolder(tmp_path)), spark)
    _compare(findings, expected)
    assert (findings.totals.log_records, findings.totals.sent) == (_rows(tmp_path, "log"), 50_000)
    lost, duplicate = _recount(tmp_path)
    assert (lost, duplicate) == (expected["anomalies"]["lost"], expected["anomalies"]["duplicate"])


def test_a_clean_run_holds(tmp_path: Path) -> None:
    """Nothing planted, nothing found; and the folder follows the contract."""
    shape = shape_of(50_000, 5, 3, 2, seed=9, slab_messages=20_000)
    expected = _make(tmp_path, shape, 0.0)
    assert expected["verdict"] == "held"
    _compare(analyse(reading.check(RunFolder(tmp_path)), InProcess()), expected)
    assert check(read_resolved(tmp_path / "scenario.yaml")) == []
    for name in ("sends", "log", "deliveries", "group_events"):
        for path in (tmp_path / "evidence" / name).glob("*.parquet"):
            assert pq.read_schema(path).equals(TABLES[name].schema)


def _compare(findings: Findings, expected: dict[str, Any]) -> None:
    counts: Counter[str] = Counter()
    for anomaly in findings.anomalies:
        counts[anomaly.name] += anomaly.count
    assert counts == Counter(expected["anomalies"])
    assert {f"{f.outcome}/{f.stored}": f.count for f in findings.fates} == expected["fates"]
    assert findings.verdict == expected["verdict"]
    for group in findings.groups:
        planned = expected["groups"][group.group]
        assert {f"{f.outcome}/{f.stored}/{f.delivered}": f.count for f in group.fates} == planned["fates"]
        of_group = {a.name: a.count for a in findings.anomalies if a.group == group.group}
        assert of_group == planned["anomalies"]


def _recount(path: Path) -> tuple[int, int]:
    """Lost and duplicate with sets and a counter, as Kafka's own system tests would."""
    sends, log = (pq.read_table(path / "evidence" / name).to_pylist() for name in ("sends", "log"))
    acked = {(row["producer"], row["seq"]) for row in sends if row["outcome"] == "acked"}
    sent = {(row["producer"], row["seq"]) for row in sends}
    stored = Counter((row["producer"], row["seq"]) for row in log if row["producer"] is not None)
    return len(acked - stored.keys()), sum(n > 1 for who, n in stored.items() if who in sent)


def _rows(path: Path, name: str) -> int:
    return sum(pq.read_metadata(file).num_rows for file in (path / "evidence" / name).glob("*.parquet"))
