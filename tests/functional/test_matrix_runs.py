"""kaput matrix on real brokers: ended in the middle, it goes on; its numbers are those of its run folders."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from driving import KAPUT, Kaput
from waiting import PATIENCE_S, wait_for

_SMALL = """
version: 1
title: One broker, one producer
cluster: {brokers: 1}
topics: [{name: orders, replication-factor: 1}]
workload: {producers: [{topic: orders, messages: 2000, rate: 2000}]}
"""
_MATRIX = """
version: 1
title: Two cells
set: {workload.warm-up: 0s}
vary:
  threads: {key: cluster.config.num.io.threads, values: [2, 3]}  # so that no cluster is shared
faults:
  nothing: {scenario: SMALL}
"""


@pytest.mark.long
def test_matrix_resumes_after_ctrl_c(kaput: Kaput, tmp_path: Path) -> None:
    """The run that was judged by then is not played again; the page has both cells."""
    (tmp_path / "small.yaml").write_text(_SMALL)
    path = tmp_path / "matrix.yaml"
    path.write_text(_MATRIX.replace("SMALL", str(tmp_path / "small.yaml")))
    args = ["matrix", str(path), "--runs", str(kaput.runs), "--json"]
    with subprocess.Popen([*KAPUT, *args], stdout=subprocess.PIPE, text=True) as first:
        wait_for(lambda: any(kaput.runs.glob("*/findings.json")), "the first verdict")
        first.send_signal(signal.SIGINT)
        text, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 130
    assert [len(cell["runs"]) for cell in json.loads(text)] == [1, 0]
    refused = kaput.call(*args)
    assert refused.returncode == 2 and "--resume continues them" in refused.stderr
    done = kaput.call(*args, "--resume")
    found = json.loads(done.stdout)
    assert (done.returncode, [len(cell["runs"]) for cell in found]) == (0, [1, 1])
    assert found[0] == json.loads(text)[0]
    judged = [json.loads(path.read_text()) for path in kaput.runs.glob("*/findings.json")]
    assert sorted(one["run"]["varied"]["cluster.config.num.io.threads"] for one in judged) == [2, 3]
    assert [cell["lost"]["median"] for cell in found] == [0, 0]
