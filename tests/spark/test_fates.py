"""`kaput analyze --only fates` says what the findings say of fates, whatever shape evidence has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fakes.histories import History
from fakes.oracle import Oracle
from kaput.analysis.dense import fates as job
from kaput.analysis.dense.work import cut
from kaput.analysis.fates import count
from kaput.analysis.pipeline import analyse
from kaput.bench.generate import generate, shape_of
from kaput.bench.plan import Plan
from kaput.errors import EvidenceError
from kaput.evidence.fates import Fates
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import Evidence, check
from spark.test_shapes import SHAPES


def _cells(found: Fates | Findings) -> dict[str, dict[str, int]]:
    cells = {"": {f"{f.outcome}/{f.stored}": f.count for f in found.fates}}
    for group in found.groups:
        cells[group.group] = {f"{f.outcome}/{f.stored}/{f.delivered}": f.count for f in group.fates}
    return cells


def _same(evidence: Evidence, spark: SparkSession) -> Fates:
    """The fates alone, cut in several ways, beside the findings."""
    expected = analyse(evidence, spark)
    found = count(evidence, spark)
    assert (found.run, found.totals) == (expected.run, expected.totals)
    assert _cells(found) == _cells(expected)
    for bits in (1, 16, 40):
        for shuffled in (False, True):
            work = cut(evidence, 3, bits=bits, shuffled=shuffled)
            units = [[unit] for task in work.tasks for unit in task]
            assert _cells(count(evidence, spark, work=replace(work, tasks=units))) == _cells(expected)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_fates_are_those_of_the_findings(
    shape: Callable[[], History], tmp_path: Path, spark: SparkSession
) -> None:
    """On shapes that the engine has to be told apart by."""
    history = shape()
    if not history.rows["end_offsets"]:
        history.read_to_end()
    found = _same(check(history.write(tmp_path)), spark)
    assert found.totals.sent == len(history.rows["sends"])


def _odd() -> History:
    """Two topics of which one was not read, damaged and foreign records, a phantom, sends to nowhere."""
    topics = [{"name": "orders"}, {"name": "bills", "partitions": 2}]
    history = History(topics=topics, groups={"billing": True, "audit": False})
    for seq in range(0, 40):
        history.acked(0, seq, seq, topic="orders", partition=0)
        history.acked(1, seq * 3, seq, topic="bills", partition=seq % 2)
        history.handed(seq, 0, seq, 100 + seq)
    history.stored(40, 0, 3).stored(41, None, None).stored(42, None, None, intact=False).stored(43, 0, 999)
    history.stored(44, 0, 7, intact=False)
    history.sent(0, 40, 50).sent(0, 41, None, "failed", partition=None, error="TOO_LARGE")
    history.sent(1, 1, None, "unknown", topic="bills", partition=1)
    history.sent(1, 2, None, "unknown", topic="bills", partition=None)
    history.handed(3, 0, 3, 500, group="audit").handed(3, 0, 3, 600).handed(90, 5, 5, 700)
    history.add("end_offsets", topic="orders", partition=0, end_offset=45, drained_to=45)
    history.add("end_offsets", topic="bills", partition=0, end_offset=40, drained_to=40)
    return history.add("end_offsets", topic="bills", partition=1, end_offset=40, drained_to=39)


def test_unread_is_told_from_lost(tmp_path: Path, spark: SparkSession) -> None:
    """By the definitions, too, and not by the engine alone."""
    history = _odd()
    found = _same(check(history.write(tmp_path)), spark)
    oracle = Oracle(history)
    cells = {"": {"/".join(key): n for key, n in oracle.fates().items()}}
    cells |= {g: {"/".join(key): n for key, n in oracle.group_fates(g).items()} for g in oracle.groups}
    assert _cells(found) == cells
    assert found.totals.unread == 2 and found.totals.foreign_records == 1


def test_partitions_are_looked_at_only_where_one_was_not_read(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The footers tell that all were read; one partition that no offsets are known of changes that."""
    asked: list[bool] = []
    run = job.run

    def watched(spark: SparkSession, work: job.Plan, order: job.Asked) -> job.Sums:
        asked.append(order.places)
        return run(spark, work, order)

    monkeypatch.setattr(job, "run", watched)
    history = History(groups={"billing": True}).acked(0, 0, 0).acked(0, 1, 1).handed(0, 0, 0, 5)
    count(check(history.read_to_end().write(tmp_path / "read")), spark)
    history.handed(0, 0, 1, 6, partition=9)
    count(check(history.write(tmp_path / "unread")), spark)
    assert asked == [False, True]


@pytest.mark.parametrize("bits", [1, 16, 40])
@pytest.mark.parametrize("shuffled", [False, True])
def test_message_sent_twice_is_no_evidence(
    bits: int, shuffled: bool, tmp_path: Path, spark: SparkSession
) -> None:
    """As in the whole analysis: refused, and named; whether the rows are neighbours or not."""
    history = History()
    for seq in (0, 1, 2, 3, 3, 2):
        history.sent(0, seq, seq)
    evidence = check(history.read_to_end().write(tmp_path))
    with pytest.raises(EvidenceError, match="message 2 of producer 0 has more than one row"):
        count(evidence, spark, work=cut(evidence, 2, bits=bits, shuffled=shuffled))


def test_generated_evidence(tmp_path: Path, spark: SparkSession) -> None:
    """Planted fates are found, and nothing is written; without a ledger everything else still is."""
    shape = shape_of(50_000, 7, 4, 3, seed=2, uneven=True, slab_messages=9_000)
    expected = generate(Plan(shape, 0.0005), tmp_path, spark, lambda _done, _all: None)
    before = sorted(tmp_path.rglob("*"))
    evidence = check(RunFolder(tmp_path))
    found = count(evidence, spark)
    assert sorted(tmp_path.rglob("*")) == before
    planned = {"": expected["fates"]} | {g: of["fates"] for g, of in expected["groups"].items()}
    assert _cells(found) == planned
    assert json.loads(found.to_json())["schema"] == "kaput.fates/1"
    whole = analyse(evidence, spark)
    assert (tmp_path / "analysis" / "ledger").is_dir()
    assert analyse(evidence, spark, ledger=False) == whole
    left = {path.name for path in (tmp_path / "analysis").iterdir()}
    assert left == {"rates", "lost", "windows"}


def test_command_prints_and_leaves_nothing(tmp_path: Path) -> None:
    """Several runs are a list; what is lost is no reason for another status than 0."""
    for name in ("one", "two"):
        History(groups={"billing": True}).acked(0, 0, 0).sent(0, 1, 1).read_to_end().write(tmp_path / name)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kaput = Path(sys.executable).with_name("kaput")
    command = [kaput, "analyze", tmp_path / "one", tmp_path / "two", "--only", "fates"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=120)
    documents = json.loads(done.stdout)
    assert [(f["totals"]["sent"], len(f["groups"])) for f in documents] == [(2, 1)] * 2
    lost = {"outcome": "acked", "stored": "0", "count": 1}
    assert all(lost in document["fates"] for document in documents)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
