"""Several runs in one call of the command line, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driving import Kaput

_SMALL = """
version: 1
title: One broker, one producer
cluster: {brokers: 1}
topics: [{name: orders, replication-factor: 1}]
workload: {producers: [{topic: orders, messages: 2000, rate: 2000}]}
"""


@pytest.mark.long
def test_a_run_that_fails_does_not_stop_the_next(kaput: Kaput, tmp_path: Path) -> None:
    """Jars that no repository has fail one value of --vary; the other is run and judged, and named."""
    (tmp_path / "small.yaml").write_text(_SMALL)
    done = kaput.call(
        "run",
        str(tmp_path / "small.yaml"),
        "--runs",
        str(kaput.runs),
        "--json",
        "--vary",
        "cluster.kafka=0.0.1,4.3.1",
    )
    (found,) = json.loads(done.stdout)
    assert found["run"]["varied"] == {"cluster.kafka": "4.3.1"} and found["run"]["kafka"] == "4.3.1"
    assert found["verdict"] == "held" and found["totals"]["acked"] == 2000
    assert "run 1 of 2: small cluster.kafka=0.0.1\nkaput: run 1 of 2 failed: " in done.stderr
    assert "run 2 of 2: small cluster.kafka=4.3.1\nsmall 2/2: provision\n" in done.stderr
    assert done.returncode == 4
    (manifest,) = kaput.runs.glob("*/manifest.json")
    table = kaput.call("report", str(manifest.parent)).stdout
    assert table.startswith("HELD: 2,000 sent")
