"""Three filters and Kafka's own idempotence, measured: writes the tables of docs/IDEMPOTENCE.md.

    python benchmarks/idempotence.py                       everything: 20 to 40 minutes
    python benchmarks/idempotence.py --only traffic,crashes        those parts; the others keep their figures
    python benchmarks/idempotence.py --only stores --ids 100000000     one more size

Parts: traffic (mistakes by kind of trouble), crashes (between effect and mark), stores (bytes and CPU time
per message), speed (beside no filter, in turns), spark (Structured Streaming), kafka (real brokers). Figures
are kept in results/idempotence.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import idempotence_crashes
import psutil
from dedup_scoring import FILTERS, read_run_log, score_of, troubles
from idempotence_page import STORES, TABLES, write_page

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "idempotence.json"
SEEDS, SMALL = range(20), 1_000_000
SPEED, ROUNDS = 200_000, 3
# Each commit of random ids rewrites nearly every page that it touches: seldom, or it takes hours.
SELDOM = 100_000


def measure_traffic() -> dict[str, Any]:
    """Duplicates passed and messages wrongly dropped of each filter in each kind of trouble."""
    found: dict[str, Any] = {}
    for kind in troubles(0):
        logs = [troubles(seed)[kind].read() for seed in SEEDS]
        scores = {name: [score_of(made(), log) for log in logs] for name, made in FILTERS.items()}
        found[kind] = {name: [sum(one) for one in zip(*each, strict=True)] for name, each in scores.items()}
    return found


def measure_stores(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """One process for each way, size and batch."""
    found = []
    for count in sizes:
        for way in STORES:
            batches = [SELDOM] if "random" in way or "uuid4" in way else [1000]
            if way in ("disk-random", "disk-uuid4") and count == SMALL:
                batches = [1000, SELDOM]
            if count > SMALL and way == "disk-uuid4":
                continue
            for batch in batches:
                found.append(_store(way, count, 1000 if "memory" in way else batch))
    return found


def _store(way: str, count: int, batch: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=HERE / "results") as folder:
        command = [sys.executable, HERE / "idempotence_stores.py", way, str(count), folder]
        output = subprocess.check_output([*command, "--batch", str(batch)], text=True)
    return {**json.loads(output), "load": round(os.getloadavg()[0], 1)}


def measure_speed() -> dict[str, Any]:
    """Of each way its median, and the median of its ratio to no filter in the same round."""
    rounds = []
    for _ in range(ROUNDS):
        one = {way: _store(way, SPEED, 1000) for way in STORES}
        rounds.append({way: SPEED / measured["seconds"] for way, measured in one.items()})
    ways = {
        way: {
            "per_s": statistics.median(one[way] for one in rounds),
            "ratio": statistics.median(one[way] / one["none"] for one in rounds),
        }
        for way in STORES
    }
    return {"count": SPEED, "ways": ways}


def measure_kafka() -> dict[str, Any]:
    """The scenarios, with filters on the plain producer's log; then producers that are killed, and speed."""
    with tempfile.TemporaryDirectory() as runs:
        kaput = str(Path(sys.executable).with_name("kaput"))
        arguments = ["run", "--tag", "idempotence-compare", "--runs", runs, "--json", "--no-page"]
        output = subprocess.run([kaput, *arguments], stdout=subprocess.PIPE, check=True, text=True).stdout
        found = {one["run"]["scenario"]: _finding(one) for one in json.loads(output)}
        (folder,) = Path(runs).glob("*-idempotence-compare-off-*")
        log = read_run_log(folder)
        filtered = {name: list(score_of(made(), log)) for name, made in FILTERS.items()}
    own = json.loads(subprocess.check_output([sys.executable, HERE / "idempotence_kafka.py"], text=True))
    return {"scenarios": found, "filtered": filtered, **own}


def _finding(findings: dict[str, Any]) -> dict[str, Any]:
    counts = {one["name"]: one["count"] for one in findings["anomalies"]}
    names = ("duplicate", "reordered", "lost", "torn-transaction", "aborted-read")
    return {name: counts.get(name, 0) for name in names} | {
        "sent": findings["totals"]["sent"],
        "verdict": findings["verdict"],
    }


def machine() -> str:
    """And how busy it is."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.system()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}; load averages {load}"
    )


def kept() -> dict[str, Any]:
    """The figures so far."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def keep(part: str, measured: dict[str, Any]) -> None:
    """In place of the part's figures so far."""
    RESULTS.write_text(json.dumps({**kept(), part: measured}, indent=1))


def main() -> None:
    """Measures, keeps the figures, writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default=",".join(TABLES), help="parts, with commas between them; '' for none"
    )
    parser.add_argument("--ids", type=int, action="append", default=[], help="a further size of the stores")
    given = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    measures = {
        "traffic": measure_traffic,
        "crashes": idempotence_crashes.results,
        "stores": lambda: measure_stores([SMALL, 10 * SMALL, *given.ids]),
        "speed": measure_speed,
        "spark": lambda: json.loads(
            subprocess.check_output([sys.executable, HERE / "idempotence_spark.py"], text=True)
        ),
        "kafka": measure_kafka,
    }
    parts = [part for part in given.only.split(",") if part]
    if unknown := set(parts) - measures.keys():
        parser.error(f"--only: {', '.join(sorted(unknown))}; there are {', '.join(measures)}")
    for part in parts:
        print(part, flush=True)
        keep(part, {"figures": measures[part](), "machine": machine()})
    write_page(kept())


if __name__ == "__main__":
    main()
