"""Whoever wrote the evidence, in whatever encoding: the findings are those of the plain folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fakes.comparing import comparable, differences
from fakes.histories import History, at
from fakes.writers import WRITERS, Writer, by_spark
from kaput.analysis import fates, inputs
from kaput.analysis.pipeline import analyse
from kaput.analysis.reference import pipeline as reference
from kaput.evidence.fates import Fates
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.evidence.schemas import TABLES

SPARKS = {
    "Spark": {},
    "Spark, pages v2": {"parquet_writer_version": "PARQUET_2_0"},
    "Spark, no dictionary": {"parquet_enable_dictionary": "false"},
}
IN_SQL = {"pyarrow, each file another", "pandas, object", "DuckDB, ENUM, V2", "Spark, pages v2"}


def _everything() -> History:
    """A row or more in every table, with words of all sorts, and losses that a replica was seen to hold."""
    history = History(
        producers=[{"topic": "orders", "acks": 1, "count": 3}],
        topics=[{"name": name, "partitions": 2} for name in ("orders", "bills.v2")],
        groups={"billing": True, "ärger 'n' \\ \"quotes\"": False},
    )
    history.acked(0, 0, 0, attempt_ns=at(10), done_ns=at(11))
    for seq, ms in ((1, 150), (2, 500), (3, 1100)):
        history.sent(0, seq, seq, attempt_ns=at(ms), done_ns=at(ms + 1))
    history.acked(1, 0, 1, leader_epoch=1, attempt_ns=at(600), done_ns=at(601))
    history.acked(1, 1, 2, leader_epoch=1, attempt_ns=at(1200), done_ns=at(1201))
    for seq, error in enumerate(["TIMED_OUT", "purged: größer", None, "TIMED_OUT"]):
        outcome = "failed" if seq == 1 else "unknown"
        history.sent(2, seq, None, outcome, topic="bills.v2", partition=seq % 2, error=error)
    history.stored(0, 2, 0, topic="bills.v2").stored(1, None, None, topic="bills.v2", intact=False)
    for group in history.groups:
        for member in ("m1", "m2-\N{SNOWMAN}"):
            who = {"group": group, "member": member}
            history.event("joined", 1, **who, topic=None, partition=None).event("assigned", 2, 0, **who)
            history.handed(0, 0, 0, 20, **who).handed(2, 1, 1, 1300, **who)
            history.event("committed", 1400, 3, **who).event("revoked", 1500, **who)
    history.led(1, 0, 0, [1, 2, 3]).led(2, 1, 400, [2, 3])
    history.add("cluster_events", kind="fenced", broker=1, at_ns=at(390), source="metadata log")
    for seq in (1, 2):
        where = {"topic": "orders", "partition": 0, "offset": seq, "leader_epoch": 0}
        history.add("replica_log", broker=1, producer=0, seq=seq, seen_ns=at(1000), **where)
    for labels in ([("node", "1")], []):
        history.add("samples", at_ns=at(5), source="lab", name="x", labels=labels, value=1.5)
    return history.fault(1, 100, 1000, fault="isolate").read_to_end()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[_Plain]:
    """The folder as kaput's own schema has it, and what is found in it."""
    yield _Plain(_everything().write(tmp_path_factory.mktemp("plain")), spark)


class _Plain:
    def __init__(self, folder: RunFolder, spark: SparkSession) -> None:
        self.folder = folder
        self.findings, self.fates = _judged(folder, spark)

    def rewritten(self, path: Path, writer: Writer) -> RunFolder:
        """The same rows in another's files, in every table."""
        for name in TABLES:
            table = pq.read_table(self.folder.table(name), schema=TABLES[name].schema)
            directory = path / "evidence" / name
            directory.mkdir(parents=True)
            writer(table, directory)
        for file in (self.folder.manifest_path, self.folder.scenario_path):
            shutil.copy(file, path)
        return RunFolder(path)


def _judged(folder: RunFolder, spark: SparkSession) -> tuple[Findings, Fates]:
    evidence = check(folder)
    return analyse(evidence, spark), fates.count(evidence, spark)


@pytest.mark.parametrize("name", [*WRITERS, *SPARKS])
def test_findings_are_the_plain_ones(name: str, plain: _Plain, tmp_path: Path, spark: SparkSession) -> None:
    """All tables by one writer in one encoding: findings and fates; by some also what SQL finds."""
    folder = plain.rewritten(tmp_path, WRITERS.get(name) or by_spark(spark, **SPARKS[name]))
    found, counted = _judged(folder, spark)
    assert differences(comparable(found), comparable(plain.findings)) == {}
    assert counted == plain.fates
    if name in IN_SQL:
        in_sql = reference.analyse(inputs.read(check(folder)), spark)
        assert differences(comparable(in_sql), comparable(plain.findings)) == {}


def test_the_plain_folder_has_something_to_find(plain: _Plain) -> None:
    """Else all folders would be the same whatever was read."""
    (change,) = plain.findings.leader_changes
    assert (change.lost, change.lost_seen) == (3, {1: 2})
    assert {g.group for g in plain.findings.groups} == set(_everything().groups)
    counts = {a.name: a.count for a in plain.findings.anomalies if a.group in (None, "billing")}
    assert counts["corrupt"] and counts["redelivered"] and counts["recovered"]
