"""`make bench`: what kaput costs, as a table that anyone can repeat (written to benchmarks/results).

Every figure is measured in this call, on this machine; nothing is a test, nothing fails when it is slow.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from kaput.cluster.distribution import resolve
from kaput.cluster.own_cluster import OwnCluster as Lab
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster

RESULTS = Path(__file__).with_name("results")
KAFKA = "4.4.0"


@dataclass(frozen=True)
class Row:
    """One line of the table: seconds over `runs` repetitions, and a ratio where there is a peer."""

    what: str
    runs: int
    median_s: float
    min_s: float
    max_s: float
    ratio: float | None = None
    peer: str | None = None


def measure(what: str, runs: int, once: Callable[[], float]) -> Row:
    """Repeats `once`, which returns seconds."""
    times = [once() for _ in range(runs)]
    return Row(what, runs, statistics.median(times), min(times), max(times))


def brokers_ready(brokers: int) -> float:
    """Seconds from nothing to `brokers` registered and unfenced brokers and one dedicated controller."""
    java = find_java()
    jars = resolve(KAFKA, java, lambda _done, _total: None)
    with tempfile.TemporaryDirectory() as folder, Owner() as owner:
        start = time.monotonic()
        with Lab(owner, Cluster(brokers=brokers, controllers=1), jars, java, Path(folder)):
            return time.monotonic() - start


def scenario(name: str) -> tuple[float, float]:
    """Seconds of one warm `kaput run NAME` until its verdict is shown: in all, and without its load."""
    with tempfile.TemporaryDirectory() as runs:
        kaput = str(Path(sys.executable).with_name("kaput"))
        start = time.monotonic()
        with subprocess.Popen([kaput, "run", name, "--runs", runs, "--json"], stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            run.stdout.readline()
            total = time.monotonic() - start
            run.stdout.read()
        (manifest,) = Path(runs).glob("*/manifest.json")
        load_s = json.loads(manifest.read_text()).get("phases", {}).get("inject", 0.0)
        return total, total - load_s


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| what | runs | median s | min s | max s | ratio |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        ratio = f"{row.ratio:.2f} x {row.peer}" if row.ratio is not None else ""
        lines.append(
            f"| {row.what} | {row.runs} | {row.median_s:.2f} | {row.min_s:.2f} | {row.max_s:.2f} | {ratio} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures, prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition of each, under three minutes")
    runs = 1 if parser.parse_args().quick else 3
    one = measure("1 broker ready", runs, lambda: brokers_ready(1))
    rows = [one]
    for brokers in (3, 10):
        row = measure(f"{brokers} brokers ready", runs, lambda brokers=brokers: brokers_ready(brokers))
        rows.append(Row(**{**asdict(row), "ratio": row.median_s / one.median_s, "peer": "1 broker"}))
    times = [scenario("leader-kill-lagging-acks-1") for _ in range(runs)]
    for what, values in (
        ("kaput run leader-kill-lagging-acks-1, command to verdict", [t for t, _ in times]),
        ("... of it neither workload nor the scenario's own waiting", [t for _, t in times]),
    ):
        rows.append(Row(what, runs, statistics.median(values), min(values), max(values)))
    machine = {
        "system": platform.platform(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "java": find_java().text,
        "kafka": KAFKA,
    }
    RESULTS.mkdir(exist_ok=True)
    text = ", ".join(f"{key} {value}" for key, value in machine.items()) + "\n\n" + table(rows) + "\n"
    (RESULTS / "bench.md").write_text(text)
    (RESULTS / "bench.json").write_text(
        json.dumps({"machine": machine, "rows": [asdict(r) for r in rows]}, indent=2)
    )
    print(text)


if __name__ == "__main__":
    main()
