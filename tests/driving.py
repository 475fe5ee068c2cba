"""Drives kaput as a user does, from the command line: real brokers, real clients, real Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KAPUT = [str(Path(sys.executable).with_name("kaput"))]
RUN_TIMEOUT_S = 240


@dataclass(frozen=True)
class Result:
    """What one call of kaput gave: exit status, findings (or None), and its stderr."""

    status: int
    findings: dict[str, Any]
    stderr: str
    folder: Path

    def count(self, name: str) -> int:
        """The count of an anomaly, over all groups."""
        return sum(a["count"] for a in self.findings["anomalies"] if a["name"] == name)

    def causes(self, name: str) -> dict[str, int]:
        """The causes of an anomaly, zeros left out."""
        found = next(a for a in self.findings["anomalies"] if a["name"] == name)
        return {cause: count for cause, count in found["causes"].items() if count}

    def fault(self, kind: str) -> dict[str, Any]:
        """The findings of the only fault of that kind."""
        (found,) = [f for f in self.findings["faults"] if f["fault"] == kind]
        return dict(found)


class Kaput:
    """Runs kaput's command line with its run folders below one directory."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def run(self, scenario: str, *options: str) -> Result:
        """`kaput run SCENARIO --json`; fails the test when stdout is not one JSON document."""
        done = subprocess.run(
            [*KAPUT, "run", scenario, "--json", "--runs", str(self.runs), *options],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert done.stdout, f"exit {done.returncode}\n{done.stderr}"
        findings = json.loads(done.stdout)
        (folder,) = [
            p.parent for p in self.runs.glob("*/manifest.json") if findings["run"]["id"] in p.read_text()
        ]
        return Result(done.returncode, findings, done.stderr, folder)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Any other call."""
        return subprocess.run(
            [*KAPUT, *arguments], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
