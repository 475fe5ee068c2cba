"""The analysis against the oracle, the engine against the analysis in SQL, on histories made from seeds.

Many histories share a folder, so that Spark is asked once for all of them; where they disagree, halves of
them are judged until the history is found that does so alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fakes.comparing import comparable, differences, tables
from fakes.in_process import InProcess
from kaput.analysis import assemble, inputs
from kaput.analysis.closer.full import NotSettled
from kaput.analysis.closer.look import Look
from kaput.analysis.dense.counted import count
from kaput.analysis.dense.work import Plan, cut, plan
from kaput.analysis.reference import pipeline as reference
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
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
    history = together(parts_of(SEED, range(1_000, 1_040)))
    evidence = inputs.read(check(history.write(tmp_path)))
    whole = _account(evidence, spark, plan(evidence.evidence))
    expected = comparable(reference.analyse(evidence, spark)), tables(tmp_path)
    assert differences(whole, dict(enumerate(expected))) == {}


def test_any_cut_finds_the_same(tmp_path: Path) -> None:
    """Chunks of two messages, each file a task: whatever may meet its neighbour does. No Spark is needed."""
    settled = 0
    for first in range(2_000, 2_060, 3):
        history = together(parts_of(SEED, range(first, first + 3)))
        evidence = inputs.read(check(history.write(tmp_path / str(first))))
        whole = _account(evidence, InProcess(), plan(evidence.evidence))
        for finest in (cut(evidence.evidence, 3, bits=1), cut(evidence.evidence, 3, bits=1, shuffled=True)):
            units = [[unit] for task in finest.tasks for unit in task]
            try:
                found = _account(evidence, InProcess(), replace(finest, tasks=units))
            except NotSettled as error:
                assert "far apart" in str(error)
                continue
            assert differences(found, whole) == {}, first
            settled += 1
    assert settled > 10


def test_a_single_disagreement_is_found_among_many() -> None:
    """A judge that overlooks the records of one topic disagrees on the history of that topic alone."""
    parts = parts_of(SEED, range(3_000, 3_016))
    (wrong,) = [part for part in parts if part.number == 3_006]
    sound = by_pipeline(InProcess())

    def overlooking(folder: RunFolder) -> Findings:
        path = folder.table("log") / "part-0.parquet"
        log = pq.read_table(path)
        pq.write_table(log.filter(pc.field("topic") != wrong.topics[0]["name"]), path)
        return sound(folder)

    ((part, told),) = culprits(parts, overlooking)
    assert part is wrong
    assert any(path.startswith("fates/") for path in told)


def _account(evidence: inputs.Inputs, spark: Any, work: Plan) -> dict[int, object]:
    """What the engine finds, and the tables that it leaves."""
    found = assemble.findings(evidence, Look(spark, evidence, count(spark, evidence, work)).account_for())
    return dict(enumerate((comparable(found), tables(evidence.evidence.folder.path))))
