"""By any writer and in any encoding of the evidence the findings are those of the plain folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from fakes.comparing import comparable, differences
from fakes.everything import everything
from fakes.in_process import InProcess
from fakes.writers import WRITERS, Writer, by_spark
from kaput.analysis.pipeline import analyse
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from kaput.evidence.schemas import TABLES

SPARKS = {
    "Spark": {},
    "Spark, pages v2": {"parquet_writer_version": "PARQUET_2_0"},
    "Spark, no dictionary": {"parquet_enable_dictionary": "false"},
}
# Each is another width, version or codec of one that is read sooner.
LONG = {
    *(f"pyarrow, dictionary {sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)),
    *("pyarrow, DELTA_LENGTH_BYTE_ARRAY", "pandas, str", "pandas, object", "Polars, String"),
    *("DuckDB, VARCHAR, V2", "DuckDB, ENUM, V2"),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> _Plain:
    """The folder as kaput's own schema has it, and what is found in it."""
    return _Plain(everything().write(tmp_path_factory.mktemp("plain")))


class _Plain:
    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.findings = analyse(check(folder), InProcess())

    def rewritten(self, path: Path, writer: Writer) -> RunFolder:
        """The same rows in another's files, in every table."""
        for name in TABLES:
            if not self.folder.table(name).exists():
                continue
            table = pq.read_table(self.folder.table(name), schema=TABLES[name].schema)
            directory = path / "evidence" / name
            directory.mkdir(parents=True)
            writer(table, directory)
        for file in (self.folder.manifest_path, self.folder.scenario_path):
            shutil.copy(file, path)
        return RunFolder(path)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in WRITERS]
)
def test_findings_do_not_depend_on_writer_or_encoding(name: str, plain: _Plain, tmp_path: Path) -> None:
    """All tables by one writer in one encoding: what is found."""
    folder = plain.rewritten(tmp_path / plain.folder.path.name, WRITERS[name])
    found = analyse(check(folder), InProcess())
    assert differences(comparable(found), comparable(plain.findings)) == {}


@pytest.mark.long  # its sibling: the next one, of files in folders
@pytest.mark.parametrize("name", SPARKS)
def test_findings_of_files_written_by_spark(
    name: str, plain: _Plain, tmp_path: Path, spark: SparkContext
) -> None:
    """The same of Spark's files, which are read by Spark's tasks."""
    folder = plain.rewritten(tmp_path / plain.folder.path.name, by_spark(spark, **SPARKS[name]))
    found = analyse(check(folder), spark)
    assert differences(comparable(found), comparable(plain.findings)) == {}


def test_findings_of_files_written_by_spark_in_folders(
    plain: _Plain, tmp_path: Path, spark: SparkContext
) -> None:
    """With partitionBy: topics and producers are in the names of folders, and in no file."""
    writer = by_spark(spark, by=("topic", "producer"))
    folder = plain.rewritten(tmp_path / plain.folder.path.name, writer)
    assert len(list(folder.table("log").glob("topic=*/producer=*/part-*.parquet"))) > 1
    found = analyse(check(folder), spark)
    assert differences(comparable(found), comparable(plain.findings)) == {}


def test_long_writers_are_writers() -> None:
    assert not LONG - WRITERS.keys()


def test_reference_folder_has_anomalies(plain: _Plain) -> None:
    """Else all folders would be the same whatever was read."""
    (change,) = plain.findings.leader_changes
    assert (change.lost, change.lost_seen) == (3, {1: 2})
    assert {g.group for g in plain.findings.groups} == set(everything().groups)
    counts = {a.name: a.count for a in plain.findings.anomalies if a.group in (None, "billing")}
    assert counts["corrupt"] and counts["redelivered"] and counts["recovered"]
