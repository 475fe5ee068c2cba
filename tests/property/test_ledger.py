"""The analysis against the oracle, the engine against the analysis in SQL, on histories made from seeds.

Many histories share a folder, so that Spark is asked once for all of them; where they disagree, halves of them
are judged until the history is found that does so alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fakes.comparing import comparable, differences, tables
from kaput.analysis import assemble, inputs
from kaput.analysis.closer.full import NotSettled
from kaput.analysis.closer.look import Look
from kaput.analysis.dense.counted import count
from kaput.analysis.dense.work import Plan, cut, plan
from kaput.analysis.reference import pipeline as reference
from kaput.evidence.reading import check
from property.agreement import by_pipeline, culprits, parts_of
from property.worlds import together

SEED = 20_261
BATCH = 100


@pytest.mark.parametrize("batch", range(5))
def test_ledger_equals_oracle(batch: int, spark: SparkSession) -> None:
    """Fates, the count of every anomaly and the causes of losses are those of the plain definitions."""
    parts = parts_of(SEED, range(batch * BATCH, (batch + 1) * BATCH))
    found = culprits(parts, by_pipeline(spark))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


def test_engine_equals_sql(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the engine settles, the analysis in SQL finds the same: findings and every table."""
    history = together(parts_of(SEED, range(1_000, 1_080))).fault(1, 3, 6).fault(2, 20, 50)
    evidence = inputs.read(check(history.write(tmp_path)))
    work = plan(evidence.evidence)
    whole = _account(evidence, spark, work)
    # Chunks of two messages, each file a task: whatever may meet its neighbour does.
    for finest in (cut(evidence.evidence, 3, bits=1), cut(evidence.evidence, 3, bits=1, shuffled=True)):
        units = [[unit] for task in finest.tasks for unit in task]
        try:
            assert differences(_account(evidence, spark, replace(finest, tasks=units)), whole) == {}
        except NotSettled as error:
            assert "far apart" in str(error)
    expected = comparable(reference.analyse(evidence, spark)), tables(tmp_path)
    assert differences(whole, dict(enumerate(expected))) == {}


def _account(evidence: inputs.Inputs, spark: SparkSession, work: Plan) -> dict[int, object]:
    """What the engine finds, and the tables that it leaves."""
    found = assemble.findings(evidence, Look(spark, evidence, count(spark, evidence, work)).account_for())
    return dict(enumerate((comparable(found), tables(evidence.evidence.folder.path))))
