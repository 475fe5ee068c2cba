"""The analysis against the oracle on histories made from seeds.

Many histories share a folder, so that Spark is asked once for all of them; where they disagree, halves of
them are judged until the history is found that does so alone. `make test` judges some of the batches, `make
test-all` the others (marked `long`), which differ in their numbers alone; `make soak` thousands of histories.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from fakes.comparing import comparable, differences, tables
from fakes.histories import History, write_table
from fakes.in_process import InProcess
from fakes.oracle import Oracle
from fakes.oracle_stores import Stores
from kaput.analysis import document
from kaput.analysis.engine.pieces import Parts
from kaput.analysis.facts import inputs
from kaput.analysis.pipeline import count
from kaput.analysis.questions import questions
from kaput.analysis.run import BIG, Plan, plan
from kaput.analysis.runs.tables import units
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from property.agreement import by_pipeline, culprits, disagreement, parts_of
from property.exchanges import Exchange
from property.keepers import Keeper
from property.latecomers import Latecomer
from property.mixtures import Mixture
from property.recreated import Recreated
from property.shares import Depot, Queue
from property.twins import SIDE_BY_SIDE, Twin, beside
from property.worlds import together

SEED = 20_261
BATCH = 100


def _some(numbers: Sequence[int], now: int) -> list[Any]:
    """All of them; those after the first `now` are long."""
    return [pytest.param(n, marks=[pytest.mark.long] * (i >= now)) for i, n in enumerate(numbers)]


@pytest.mark.parametrize("batch", _some(range(5), now=1))
def test_ledger_equals_oracle(batch: int, spark: SparkContext) -> None:
    """Fates, the count of every anomaly and the causes of losses are those of the plain definitions."""
    parts = parts_of(SEED, range(batch * BATCH, (batch + 1) * BATCH))
    found = culprits(parts, by_pipeline(spark))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


def test_share_groups_equal_oracle() -> None:
    """What became of their records, many queues in one folder."""
    parts = [Queue(SEED, number) for number in range(4_000, 4_150)]
    found = culprits(parts, by_pipeline(InProcess()))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


@pytest.mark.parametrize("batch", _some(range(2), now=1))
def test_share_groups_with_kills_equal_oracle(batch: int) -> None:
    """What killed members may have been handed, and what was acquired without a delivery on record."""
    parts = [Depot(SEED, number) for number in range(6_000 + 50 * batch, 6_050 + 50 * batch)]
    # Each has a group of its own, named by its number, of which the messages of the others are not delivered.
    assert disagreement(parts, by_pipeline(InProcess()), apart=False) == {}


def test_transactions_equal_oracle() -> None:
    """What became of them, and of what pipes made, many exchanges in one folder."""
    parts = [Exchange(SEED, number) for number in range(5_000, 5_150)]
    found = culprits(parts, by_pipeline(InProcess()))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


def test_late_groups_equal_oracle() -> None:
    """What they never had to read, many of them in one folder."""
    parts = [Latecomer(SEED, number) for number in range(6_000, 6_060)]
    found = culprits(parts, by_pipeline(InProcess()))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


def test_recreated_topics_equal_oracle() -> None:
    """What was in the old topic, and what of the new one, many of them in one folder."""
    parts = [Recreated(SEED, number) for number in range(9_000, 9_060)]
    found = culprits(parts, by_pipeline(InProcess()))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


def test_kept_messages_equal_oracle() -> None:
    """What became of them in all and by store, what replays doubled and sent late, and what of it is
    permitted: nothing else of idempotent producers.
    """
    parts = [Keeper(SEED, number) for number in range(8_000, 8_220)]
    permitted: dict[str, int] = {}

    def judge(folder: RunFolder) -> Findings:
        findings = by_pipeline(InProcess())(folder)
        permitted.update({a.name: a.permitted for a in findings.anomalies})
        return findings

    assert disagreement(parts, judge) == {}
    stores = [Stores(Oracle(together([part]))) for part in parts]
    assert permitted["duplicate"] == sum(one.duplicates()[1] for one in stores) > 10
    assert sum(one.by_replay(s) > 1 for one in stores for s in one.oracle.sends if one.had(s)) > 10
    assert permitted["reordered"] == sum(one.reordered() for one in stores) > 50
    assert permitted["lost-in-store"] == 0
    shown = sum((Counter(one.fates()) for one in stores), Counter())
    assert min(shown.values()) > 10 and len(shown) == 4


@pytest.mark.parametrize("first", _some(range(7_000, 7_120, 60), now=1))
def test_mixed_histories_equal_oracle(first: int) -> None:
    """What follows from losses, where elections, transactions, a pipe and groups of every type meet."""
    parts = [Mixture(SEED, number) for number in range(first, first + 60)]
    found = culprits(parts, by_pipeline(InProcess()))
    assert {f"seed {SEED}, history {part.number}": told for part, told in found} == {}


@pytest.mark.parametrize("first", _some(range(2_000, 2_036, 3), now=1))
def test_findings_do_not_depend_on_task_boundaries(first: int, tmp_path: Path) -> None:
    """Tasks of few rows, many parts, rows in any order: whatever may be apart from its neighbour is."""
    history = together(
        [
            *parts_of(SEED, range(first, first + 3)),
            Queue(SEED, first),
            Exchange(SEED, first),
            Latecomer(SEED, first),
            Mixture(SEED, first),
            *(Keeper(SEED, 9 * first + more) for more in range(9)),
        ]
    )
    assert _differences_by_cut(history, tmp_path, first) == {}


@pytest.mark.parametrize("first", _some(range(0, 16, SIDE_BY_SIDE), now=1))
def test_mirror_findings_do_not_depend_on_task_boundaries(first: int, tmp_path: Path) -> None:
    """What mirrors did and what was at home, wherever a task has a share of it."""
    history = beside([Twin(SEED, first + n) for n in range(SIDE_BY_SIDE)])
    assert _differences_by_cut(history, tmp_path, first) == {}


def _differences_by_cut(history: History, path: Path, first: int) -> dict[str, object]:
    """By the way in which the rows are cut, what is then found that is not found in the whole."""
    different: dict[str, object] = {}
    folder = history.write(path)
    evidence = inputs.read(check(folder))
    whole = _found(evidence, InProcess(), plan(evidence.evidence))
    for way in ("in order", "shuffled"):
        random = Random(f"{first}/{way}")
        for table in BIG:
            rows = list(history.rows[table])
            if way == "shuffled":
                random.shuffle(rows)
            shutil.rmtree(folder.table(table), ignore_errors=True)
            for number, cut in enumerate(_cuts(rows, random)):
                write_table(folder, table, cut, f"part-{number}")
        evidence = inputs.read(check(folder))
        tasks = [[unit] for table in BIG for unit in units(evidence.evidence, table)]
        random.shuffle(tasks)
        found = _found(evidence, InProcess(), Plan(tasks, Parts(3, 4), plan(evidence.evidence).step_ns))
        if told := differences(found, whole):
            different[way] = told
    return different


def test_single_disagreement_is_isolated() -> None:
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


def _cuts(rows: list[dict[str, Any]], random: Random) -> Iterator[list[dict[str, Any]]]:
    """The rows in files of one to 15, and one file where there are none."""
    begin = 0
    while begin == 0 or begin < len(rows):
        end = begin + random.randint(1, 15)
        yield rows[begin:end]
        begin = end


def _found(evidence: inputs.Inputs, spark: Any, work: Plan) -> dict[int, object]:
    """What the analysis finds, and the tables that it leaves, with a row for each message."""
    found = document.findings(count(spark, evidence, work, "messages"), questions())
    return dict(enumerate((comparable(found), tables(evidence.evidence.folder.path))))
