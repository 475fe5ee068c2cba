"""The analysis against the oracle, the engine against the analysis in SQL, on what Hypothesis thinks of."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import SparkSession

from fakes.comparing import comparable, differences, tables
from fakes.histories import History
from fakes.oracle import Oracle
from fakes.oracle_causes import Causes
from kaput.analysis import assemble, fates, inputs
from kaput.analysis.closer.full import NotSettled
from kaput.analysis.closer.look import Look
from kaput.analysis.dense.counted import count
from kaput.analysis.dense.work import Plan, cut, plan
from kaput.analysis.pipeline import analyse
from kaput.analysis.reference import pipeline as reference
from kaput.evidence.findings import Findings
from kaput.evidence.reading import check
from property.strategies import histories


def _summary(findings: Findings) -> dict[str, object]:
    (lost,) = findings.anomaly("lost")
    return {
        "fates": {(f.outcome, f.stored): f.count for f in findings.fates},
        "unread": sorted((u.topic, u.partition) for u in findings.unread_partitions),
        "run": {a.name: a.count for a in findings.anomalies if a.group is None},
        "lost": (dict(lost.causes), lost.permitted),
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
    causes, permitted = Causes(oracle).lost()
    return {
        "fates": dict(oracle.fates()),
        "unread": sorted(oracle.unread_partitions()),
        "run": oracle.run_counts(),
        "lost": (dict(causes), permitted),
        "groups": {
            group: {
                "fates": dict(oracle.group_fates(group)),
                "after commit": oracle.redelivered_after_commit(group),
                "counts": oracle.group_counts(group),
            }
            for group in oracle.groups
        },
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
        evidence = check(history.write(Path(path)))
        findings, alone = analyse(evidence, spark), fates.count(evidence, spark)
    assert differences(_summary(findings), _expected(history)) == {}
    assert (alone.totals, alone.fates) == (findings.totals, findings.fates)
    assert [(g.group, g.fates) for g in alone.groups] == [(g.group, g.fates) for g in findings.groups]
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
        work = plan(evidence.evidence)
        whole = _account(evidence, spark, work)
        # Chunks of two messages, each file a task: whatever may meet its neighbour does.
        for finest in (cut(evidence.evidence, 3, bits=1), cut(evidence.evidence, 3, bits=1, shuffled=True)):
            units = [[unit] for task in finest.tasks for unit in task]
            try:
                assert differences(_account(evidence, spark, replace(finest, tasks=units)), whole) == {}
            except NotSettled as error:
                assert "far apart" in str(error)
        expected = comparable(reference.analyse(evidence, spark)), tables(Path(path))
        assert differences(whole, dict(enumerate(expected))) == {}


def _account(evidence: inputs.Inputs, spark: SparkSession, work: Plan) -> dict[int, object]:
    """What the engine finds, and the tables that it leaves."""
    found = assemble.findings(evidence, Look(spark, evidence, count(spark, evidence, work)).account_for())
    return dict(enumerate((comparable(found), tables(evidence.evidence.folder.path))))
