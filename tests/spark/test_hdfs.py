"""A run folder on a real HDFS, judged by the command as users have it: the same findings as from a path."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from driving import KAPUT
from fakes.in_session import InSession
from spark.hdfs import Hdfs, hdfs
from spark.planted import planted
from waiting import PATIENCE_S

MESSAGES = 20_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with everything planted."""
    return planted(tmp_path_factory.mktemp("made") / "run", MESSAGES, 0.001)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, made: Path, spark: SparkContext) -> Iterator[Hdfs]:
    """The file system with that run folder as /run."""
    with hdfs(tmp_path_factory.mktemp("hdfs")) as files:
        files.put(spark, made, "/run")
        yield files


def _analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KAPUT, "analyze", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.long
def test_a_folder_on_hdfs_is_judged_as_on_a_path(made: Path, there: Hdfs, tmp_path: Path) -> None:
    """The same findings, which are next to the evidence, with the ledger; nothing is left in the scratch."""
    url = f"{there.url}/run"
    done = _analyze(str(made), url, "--json", "--scratch", str(tmp_path))
    assert done.returncode == 1, done.stderr
    by_path, by_url = json.loads(done.stdout)
    assert by_path == by_url
    assert {a["name"]: a["count"] for a in by_url["anomalies"]}["lost"] > 0
    assert by_url["totals"]["sent"] == MESSAGES
    assert json.loads(there.read("/run/findings.json")) == by_url
    assert json.loads(there.read("/run/manifest.json"))["state"] == "analysed"
    here = {path.name for path in (made / "analysis").iterdir()}
    assert set(there.names("/run/analysis")) == here
    assert any(name.endswith(".parquet") for name in there.names("/run/analysis/ledger"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_missing_hdfs_folder_is_reported(there: Hdfs, tmp_path: Path, in_session: InSession) -> None:
    """A sentence with the URL, exit 2, nothing left."""
    done = in_session("analyze", f"{there.url}/two", "--scratch", str(tmp_path))
    assert done.status == 2
    assert f"{there.url}/two/manifest.json: does not exist; is {there.url}/two a run folder?" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_dead_datanode_is_reported(there: Hdfs, tmp_path: Path) -> None:
    """Names are still to be had, and what they stand for is not."""
    there.kill_data_node()
    soon = ["--spark-conf", "spark.hadoop.dfs.client.max.block.acquire.failures=0"]  # else it tries for 20 s
    done = _analyze(f"{there.url}/run", "--scratch", str(tmp_path), *soon)
    assert done.returncode == 2, done.stderr
    assert f"{there.url}/run: Spark's file system failed: Could not obtain block" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
