"""docs/WAKE_ME_UP.md: what is a good wake-me-up boundary? Alert rules scored on faults, and tuned.

    .venv/bin/python benchmarks/wake_me_up.py [--case NAME] [--runs DIR] [--no-run]

Runs the cases (about half an hour), and writes the page's tables and its charts from what the run folders
hold. --runs: where they are put; cases that are there already are not run again. --case: only that one.
--no-run: writes the page from what is there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml

_KAPUT = str(Path(sys.executable).with_name("kaput"))


class Case(NamedTuple):
    """A run: its faults, and what is different in its scenario."""

    name: str
    faults: list[dict[str, str]]
    network: str = "loopback"


_WHILE = {"at": "25s", "for": "40s"}
CASES = [
    Case("quiet", [{"at": "25s", "fault": "noop", "target": "any"}]),
    Case("rolling-restart", [{"at": "10s", "fault": "rolling-restart", "target": "all", "for": "3s"}]),
    Case("leader-killed", [{**_WHILE, "fault": "kill", "target": "leader-of orders/0"}]),
    Case("leader-isolated", [{**_WHILE, "fault": "isolate", "target": "leader-of orders/0"}], "namespaces"),
    Case("two-brokers-killed", [{**_WHILE, "fault": "kill", "target": f"broker {n}"} for n in (1, 2)]),
    Case("members-paused", [{**_WHILE, "fault": "pause", "target": "members of billing"}]),
    Case("leader-stopped", [{**_WHILE, "fault": "stop", "target": "leader-of orders/0"}]),
    Case("leader-paused", [{**_WHILE, "fault": "pause", "target": "leader-of orders/0"}]),
    Case("controller-killed", [{**_WHILE, "fault": "kill", "target": "controller"}]),
    Case(
        "controller-and-leader-killed",
        [{**_WHILE, "fault": "kill", "target": each} for each in ("controller", "leader-of orders/0")],
    ),
    Case("all-brokers-killed", [{**_WHILE, "for": "20s", "fault": "kill", "target": "all"}]),
    Case("member-killed", [{**_WHILE, "fault": "kill", "target": "member 1 of billing"}]),
]


def scenario(case: Case) -> str:
    """The case as a scenario: the usual set-up, at a thousand messages a second."""
    producer = {"topic": "orders", "acks": "all", "messages": 100_000, "rate": 1000}
    group = {"id": "billing", "topics": ["orders"], "members": 3}
    topic = {"name": "orders", "partitions": 6, "replication-factor": 3, "config": {"min.insync.replicas": 2}}
    document = {
        "version": 1,
        "title": case.name,
        "cluster": {"brokers": 3, "controllers": 1, "network": case.network},
        "topics": [topic],
        "workload": {"producers": [producer], "groups": [group]},
        "faults": case.faults,
    }
    return yaml.safe_dump(document, sort_keys=False)


def run(case: Case, runs: Path) -> None:
    """Runs it; a verdict is a result here like any other."""
    runs.mkdir(parents=True, exist_ok=True)
    path = runs / f"{case.name}.yaml"
    path.write_text(scenario(case), encoding="utf-8")
    command = [_KAPUT, "run", str(path), "--no-page", "--runs", str(runs)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def folders(runs: Path, name: str) -> list[Path]:
    """The judged runs of a case."""
    return sorted(path.parent for path in runs.glob(f"*-{name}-*/findings.json"))


def main() -> None:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "wake-me-up")
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--no-run", action="store_true")
    options = parser.parse_args()
    for case in CASES:
        wanted = not options.no_run and (not options.case or case.name in options.case)
        if wanted and not folders(options.runs, case.name):
            run(case, options.runs)


if __name__ == "__main__":
    main()
