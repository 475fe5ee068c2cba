"""How many experiments an hour this machine plays and judges: together and scaled, and one after the other.

The workloads are those of a killed leader: acks, idempotence, transactions, min.insync.replicas and sizes.
What is counted are experiments with a run folder and findings of their own. CPU seconds are those of kaput
and of every process that it started; "others" is what the rest of the machine used meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml

from kaput.scenario.loader import resolve
from kaput.scenario.source import parse
from kaput.trials.batch import Trial
from kaput.trials.trials import Trials

SCENARIO = {
    "version": 1,
    "title": "The leader is killed",
    "cluster": {
        "brokers": 3,
        "controllers": 1,
        "config": {"auto.leader.rebalance.enable": False, "unclean.leader.election.enable": False},
    },
    "topics": [{"name": "orders", "partitions": 1, "assignment": [[1, 2, 3]]}],
    "workload": {
        "producers": [{"topic": "orders", "messages": 4_000, "rate": 200}],
        "groups": [{"id": "billing", "topics": ["orders"]}],
    },
    "faults": [{"at": "5s", "fault": "kill", "target": "leader-of orders/0", "for": "11s"}],
}
KINDS: list[dict[str, Any]] = [
    {"acks": 1},
    {"acks": "all"},
    {"acks": "all", "idempotence": True},
    {"acks": "all", "transactions": {"size": 20}},
]


def trials(count: int, scale: float) -> Iterator[Trial]:
    """That many, which differ in their workload alone."""
    source = parse("leader-kill", yaml.safe_dump(SCENARIO))
    varied = itertools.cycle(itertools.product((1, 2), (100, 400, 1000), KINDS))
    for number, (in_sync, size, kind) in enumerate(itertools.islice(varied, count)):
        settings = {
            "topics.0.config": {"min.insync.replicas": in_sync},
            "workload.producers.0.payload-bytes": size,
            **{f"workload.producers.0.{key}": value for key, value in kind.items()},
        }
        scenario = resolve(source, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
        yield Trial("leader-kill", scenario, number, settings, scale)


class Used:
    """CPU seconds since it was made: of the machine, and of this process with all that it has started."""

    def __init__(self) -> None:
        self._began, self._all, self._own = time.monotonic(), _machine(), _own()

    def row(self, what: str, judged: int) -> str:
        """A line of the table."""
        seconds = time.monotonic() - self._began
        own, everybody = _own() - self._own, _machine() - self._all
        return (
            f"| {what} | {judged} | {seconds:.0f} | {3600 * judged / seconds:,.0f} | {own / judged:.2f} "
            f"| {everybody - own:.0f} |"
        )


def _machine() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice)


def _own() -> float:
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def together(runs: Path, batches: int, width: int, scale: float) -> Iterator[str]:
    """A row for each batch, one for all but the first, which waits for cluster and Spark, and verdicts."""
    verdicts: Counter[str] = Counter()
    used, warm = Used(), None
    with Trials(runs, together=width) as played:
        for number, judged in enumerate(played.run(trials(batches * width, scale)), 1):
            verdicts[judged.findings.verdict if judged.findings else f"error: {judged.error}"] += 1
            if number % width == 0:
                yield used.row(f"{width} together, times x {scale:g}, batch {number // width}", width)
                used, warm = Used(), warm or Used()
        if warm is not None and batches > 1:
            yield warm.row("all but the first", (batches - 1) * width)
    yield ""
    yield from (f"{count} {word}" for word, count in sorted(verdicts.items()))


def one_by_one(runs: Path, count: int) -> str:
    """`kaput run`, with as many values of one setting."""
    path = runs / "leader-kill.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    values = ",".join(["1", "all", "0"][:count])
    kaput = [str(Path(sys.executable).with_name("kaput")), "run", str(path), "--runs", str(runs)]
    used = Used()
    subprocess.run(
        [*kaput, "--vary", f"workload.producers.0.acks={values}", "--no-page"],
        check=False,
        capture_output=True,
    )
    return used.row("kaput run, one after the other", count)


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--together", type=int, default=12)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--single", type=int, default=2, help="runs one after the other, 0 to 3")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores\n")
    print("| way | judged | seconds | an hour | CPU s each | others' CPU s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as runs:
        if given.single:
            print(one_by_one(Path(runs), given.single), flush=True)
        for row in together(Path(runs), given.batches, given.together, given.scale):
            print(row, flush=True)


if __name__ == "__main__":
    main()
