"""The analysis against the oracle, the engine against the analysis in SQL, on what Hypothesis thinks of."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession

from fakes.histories import History
from fakes.oracle import Oracle
from kaput.analysis import assemble, inputs
from kaput.analysis.closer.look import Look
from kaput.analysis.dense.counted import count
from kaput.analysis.pipeline import analyse
from kaput.analysis.reference import pipeline as reference
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from property.strategies import histories


def _summary(findings: Findings) -> dict[str, object]:
    return {
        "fates": {(f.outcome, f.stored): f.count for f in findings.fates},
        "run": {a.name: a.count for a in findings.anomalies if a.group is None},
        "groups": {
            g.group: {
                "fates": {(f.outcome, f.stored, f.delivered): f.count for f in g.fates},
                "after commit": g.redelivered_after_commit,
                "counts": {a.name: a.count for a in findings.anomalies if a.group == g.group},
            }
            for g in findings.groups
        },
    }


def _expected(history: History) -> dict[str, object]:
    oracle = Oracle(history)
    return {
        "fates": dict(oracle.fates()),
        "run": oracle.run_counts(),
        "groups": {
            group: {
                "fates": dict(oracle.group_fates(group)),
                "after commit": oracle.redelivered_after_commit(group),
                "counts": oracle.group_counts(group),
            }
            for group in oracle.groups
        },
    }


def _differences(found: object, expected: object) -> dict[str, object]:
    """Where two summaries differ, as path -> (found, expected)."""
    if not isinstance(found, dict) or not isinstance(expected, dict):
        return {} if found == expected else {"": (found, expected)}
    return {
        f"{key}/{path}": pair
        for key in [*found, *(key for key in expected if key not in found)]
        for path, pair in _differences(found.get(key), expected.get(key)).items()
    }


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # shrinking would take minutes: the diff below says enough
    suppress_health_check=list(HealthCheck),
)
@given(history=histories())
def test_ledger_equals_oracle(spark: SparkSession, history: History) -> None:
    """Fates and the count of every anomaly are those of the plain definitions."""
    with tempfile.TemporaryDirectory() as path:
        findings = analyse(check(history.write(Path(path))), spark)
    assert _differences(_summary(findings), _expected(history)) == {}
    for anomaly in findings.anomalies:
        assert len(anomaly.examples) == min(anomaly.count, 10), anomaly.name


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(history=histories())
def test_engine_equals_sql(spark: SparkSession, history: History) -> None:
    """Whatever the engine settles, the analysis in SQL finds the same: findings and every table."""
    with tempfile.TemporaryDirectory() as path:
        evidence = inputs.read(check(history.write(Path(path))))
        found = assemble.findings(evidence, Look(spark, evidence, count(spark, evidence)).account_for())
        tables = _tables(Path(path))
        expected = reference.analyse(evidence, spark)
        assert _differences(_comparable(found), _comparable(expected)) == {}
        assert _differences(tables, _tables(Path(path))) == {}


def _comparable(findings: Findings) -> dict[str, object]:
    """The findings as keys and values, without what a story may choose among equals."""
    told = findings.model_dump()
    for anomaly in told["anomalies"]:
        for example in anomaly["examples"]:
            if anomaly["name"] in ("commit-ahead", "redelivered", "inconsistent-offset"):
                example.pop("story")
            if anomaly["name"] in ("corrupt", "inconsistent-offset"):
                example.pop("seq")
    return {key: dict(enumerate(value)) if isinstance(value, list) else value for key, value in told.items()}


def _tables(path: Path) -> dict[str, object]:
    """Every table that an analysis left, as sorted rows."""
    found: dict[str, object] = {}
    for directory in sorted((path / "analysis").iterdir()):
        rows = pq.read_table(directory).to_pylist()
        found[directory.name] = dict(enumerate(sorted(rows, key=repr)))
    return found
