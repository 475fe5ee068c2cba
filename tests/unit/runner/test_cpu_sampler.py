"""CPU time of nodes is sampled while a run records, from their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kaput.evidence.recorder import Recorder
from kaput.runner.samplers import CpuSampler
from streams import rows_so_far
from waiting import wait_for


@dataclass
class _Node:
    pid: int | None


def test_cpu_time_of_live_processes_is_sampled(tmp_path: Path) -> None:
    """A node that never started has none either."""
    samples = tmp_path / "evidence" / "samples"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            nodes = {1: _Node(busy.pid), 2: _Node(None), 3: _Node(os.getpid())}
            with Recorder(tmp_path, "samples", "cpu") as recorder:
                sampler = CpuSampler(nodes, recorder)

                def used_s() -> list[float]:
                    sampler.look()
                    return [row["value"] for row in rows_so_far(samples) if ("node", "1") in row["labels"]]

                wait_for(lambda: used_s()[-1] >= used_s()[0] + 0.2, "use of CPU time")
                busy.kill()
                busy.wait()
                looked = len(used_s())
                assert len(used_s()) == looked
        finally:
            busy.kill()
    assert {dict(row["labels"])["node"] for row in rows_so_far(samples)} == {"1", "3"}
    assert {row["name"] for row in rows_so_far(samples)} == {"cpu_s"}
