"""The same findings from a real Spark cluster as from this process, also when a worker dies half-way."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driving import KAPUT
from fakes.in_process import InProcess
from kaput.analysis.pipeline import analyse
from kaput.evidence.folder import RunFolder
from kaput.evidence.reading import check
from spark.planted import planted
from spark.standalone import standalone
from waiting import PATIENCE_S

FEW = 60_000
# The workers die late enough to have done something, early enough to have something left to do.
MANY = 3_000_000


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of that many messages, with everything planted."""
    return planted(tmp_path_factory.mktemp("made") / "run", request.param, 0.0001)


@pytest.fixture(scope="module")
def local(made: Path) -> dict[str, Any]:
    """What is found in it without a cluster, and its ledger."""
    findings = analyse(check(RunFolder(made)), InProcess())
    return {"findings": json.loads(findings.to_json()), "tables": _tables(made)}


def _analyze(path: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*KAPUT, "analyze", str(path), "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _outcome(path: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    said, complained = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, complained
    return {"findings": json.loads(said), "tables": _tables(path)}


def _tables(path: Path) -> dict[str, pa.Table]:
    return {
        name: _plain(pq.read_table(path / "analysis" / name)).sort_by(order).combine_chunks()
        for name, order in (
            ("ledger", [("producer", "ascending"), ("seq_first", "ascending")]),
            ("lost", [("producer", "ascending"), ("seq", "ascending")]),
            ("windows", [("producer", "ascending"), ("first_seq", "ascending")]),
            ("rates", [("second", "ascending")]),
        )
    }


def _plain(table: pa.Table) -> pa.Table:
    """The table with its words written out: the number of a word differs from file to file."""
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


@pytest.mark.long  # its sibling: functional/test_scenarios.py, where Spark judges with another --master
@pytest.mark.parametrize("made", [FEW, MANY], indirect=True)
def test_spark_cluster_gives_the_same_findings(made: Path, local: dict[str, Any], tmp_path: Path) -> None:
    """Two workers, no shared memory: findings and every table are those of one process."""
    with standalone(tmp_path) as cluster:
        found = _outcome(
            made, _analyze(made, "--master", cluster.url, "--spark-conf", "spark.executor.memory=1g")
        )
    assert found["findings"] == local["findings"]
    assert found["tables"] == local["tables"]


@pytest.mark.long
@pytest.mark.parametrize("made", [MANY], indirect=True)
def test_worker_death_does_not_change_findings(made: Path, local: dict[str, Any], tmp_path: Path) -> None:
    """What it had done is done again by the others; all is as it was without a cluster."""
    shutil.rmtree(made / "analysis")
    with standalone(tmp_path) as cluster:
        process = _analyze(made, "--master", cluster.url, "--spark-conf", "spark.executor.memory=1g")
        limit = time.monotonic() + PATIENCE_S
        # The ledger is begun: rows have been counted, and their chunks are being laid together.
        while not list((made / "analysis").glob("ledger/.part-*")):
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.01)
        cluster.kill_worker()
        assert process.poll() is None, "over before the worker died"
        found = _outcome(made, process)
    assert found["findings"] == local["findings"]
    assert found["tables"] == local["tables"]
