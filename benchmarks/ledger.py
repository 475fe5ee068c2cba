"""What the account of every message costs: `kaput analyze`, with and without its ledger, beside its peers.

`kaput bench generate` makes the evidence. Each way runs in a process of its own under a small subreaper
(subreaper.py): whatever it leaves is waited for, so that RUSAGE_CHILDREN holds the CPU seconds of all of its
descendants, Spark's JVM and Python workers among them. Wall seconds end with the way's own process. Memory is
that of the whole tree, looked at every 50 ms: resident pages, with those that processes share counted once
(PSS) at each new peak. The files are in the page cache: they have just been written.
All ways must give the same fates, and those that count anomalies the same counts, those of expected.json: a
disagreement is an error. --peer-script takes any Python program that is run with RUN_DIR and prints JSON with
`group_fates`: of these, those of acknowledged messages are held against expected.json.
All ways take turns, so that they meet the same machine; ratios are those of the medians.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from peers import WAYS, Cells

RESULTS = Path(__file__).with_name("results")
KAPUT = str(Path(sys.executable).with_name("kaput"))
OURS = "kaput analyze"
NO_LEDGER, BY_MESSAGE = "kaput analyze --ledger none", "kaput analyze --ledger messages"
WITH_SPARK = "kaput analyze --ledger none --master local[*]"
KAPUTS = {
    OURS: "all findings, a ledger row a stretch",
    NO_LEDGER: "all findings",
    WITH_SPARK: "all findings, by a local Spark",
    BY_MESSAGE: "all findings, a ledger row a message",
}
EVERYTHING = "polars-everything"  # a script of its own, everything.py
PEERS = {EVERYTHING: "all but causes and windows"} | dict.fromkeys(WAYS, "the fates alone")
SETS_MESSAGES_MAX = 2_000_000  # Python objects for more take more memory than most machines have
TIMEOUT_S = 3600
SAMPLE_S = 0.05


@dataclass(frozen=True)
class Cost:
    """One way's cost: the median over its runs, and the greatest peak. `answers`: which questions."""

    way: str
    answers: str
    runs: int
    wall_s: float
    cpu_s: float
    peak_mb: float


class Peak:
    """The greatest memory of a tree of processes, its root left out, over all looks at it."""

    def __init__(self, root: int) -> None:
        self.root, self.rss, self.pss = psutil.Process(root), 0, 0

    def look(self) -> None:
        """Adds the resident pages up; where there are more than ever, the shared ones only once."""
        try:
            tree = self.root.children(recursive=True)
        except psutil.NoSuchProcess:
            return
        rss = sum(filter(None, (_memory(process, "rss") for process in tree)))
        # PSS makes the kernel walk all pages, at the expense of what is measured: only at a new peak.
        if rss > 1.02 * self.rss:
            self.rss = rss
            pss = [_memory(process, "pss") for process in tree]
            self.pss = max(self.pss, sum(filter(None, pss)))


def _memory(process: psutil.Process, what: str) -> int | None:
    try:
        return int(process.memory_info().rss if what == "rss" else process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def measured(command: list[str]) -> tuple[dict[str, float], float, str]:
    """One run of a command: the subreaper's report, peak MB, and what it wrote to stdout."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        whole = [sys.executable, str(Path(__file__).with_name("subreaper.py")), *command]
        with subprocess.Popen(whole, stdout=out, stderr=err) as process:
            peak, limit = Peak(process.pid), time.monotonic() + TIMEOUT_S
            while process.poll() is None:
                peak.look()
                if time.monotonic() > limit:
                    _end(process)
                    raise SystemExit(f"{command[:3]}: not over after {TIMEOUT_S} s")
                time.sleep(SAMPLE_S)
        for file in (out, err):
            file.seek(0)
        said = err.read()
        report = json.loads(said.splitlines()[-1])
        # `kaput analyze` says by its exit status 1 that the evidence shows a violation.
        wrote = out.read()
        if report["status"] not in ((0, 1) if command[0] == KAPUT else (0,)) or not wrote:
            raise SystemExit(f"{' '.join(command)}: exit status {report['status']}\n{said}")
        return report, peak.pss / 1e6, wrote


def _end(process: subprocess.Popen[bytes]) -> None:
    for each in psutil.Process(process.pid).children(recursive=True):
        each.kill()
    process.kill()


def command_of(way: str, run: Path) -> list[str]:
    """How a way is started."""
    if way in KAPUTS:
        return [KAPUT, *way.split()[1:], str(run), "--json"]
    if way == EVERYTHING:
        return [sys.executable, str(Path(__file__).with_name("everything.py")), str(run)]
    if way.endswith(".py"):
        return [sys.executable, way, str(run)]
    return [sys.executable, str(Path(__file__).with_name("peers.py")), way, str(run)]


def answer(way: str, said: str) -> Cells:
    """The fates of the only group, as a way has written them to stdout."""
    document = json.loads(said)
    if way == EVERYTHING or way.endswith(".py"):
        fates = document.get("group_fates") or document["fates"]
        return {cell: n for cell, n in fates.items() if way == EVERYTHING or cell.startswith("acked/")}
    if way not in KAPUTS:
        return dict(document)
    (group,) = document["groups"]
    return {f"{f['outcome']}/{f['stored']}/{f['delivered']}": f["count"] for f in group["fates"]}


def check_findings(way: str, said: str, expected: dict[str, Any]) -> None:
    """Every anomaly that the way counts, and kaput's verdict. Raises SystemExit."""
    document, planted = json.loads(said), dict(expected["anomalies"])
    if way in KAPUTS:
        counts = dict.fromkeys(expected["anomalies"], 0)
        for anomaly in document["anomalies"]:
            counts[anomaly["name"]] = counts.get(anomaly["name"], 0) + anomaly["count"]
        if document["verdict"] != expected["verdict"]:
            raise SystemExit(f"{way} found {document['verdict']}; expected.json has {expected['verdict']}")
    else:
        counts = document["anomalies"]
        planted = {name: n for name, n in planted.items() if name in counts}  # a peer knows no stores
    # Evidence that was made earlier does not know of every name.
    if Counter(counts) != Counter(planted):
        raise SystemExit(f"{way} found {counts}; expected.json has {planted}")


def once(way: str, run: Path) -> tuple[float, float, float]:
    """Runs a way, holds its answer against expected.json, and returns wall s, CPU s and peak MB."""
    expected = json.loads((run / "expected.json").read_text())
    (group,) = expected["groups"].values()
    report, peak_mb, said = measured(command_of(way, run))
    found, fates = answer(way, said), dict(group["fates"])
    if way.endswith(".py"):
        fates = {cell: n for cell, n in fates.items() if cell.startswith("acked/")}
    if found != fates:
        raise SystemExit(f"{way} disagrees: {found}\nexpected.json: {fates}")
    if way in KAPUTS or way == EVERYTHING:
        check_findings(way, said, expected)
    if way in (NO_LEDGER, WITH_SPARK) and (run / "analysis" / "ledger").exists():
        raise SystemExit(f"{run}: {way} has left a ledger")
    sys.stderr.write(f"{way}: {report['wall_s']:.2f} s, {report['cpu_s']:.2f} CPU s, {peak_mb:,.0f} MB\n")
    return report["wall_s"], report["cpu_s"], peak_mb


def measure(ways: list[str], run: Path, runs: int) -> list[Cost]:
    """Runs all ways in turn, so often: each of them meets the machine as the others do."""
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    for _ in range(runs):
        for way in ways:
            found[way].append(once(way, run))
    costs = []
    for way, each in found.items():
        walls, cpus, peaks = zip(*each, strict=True)
        answers = (KAPUTS | PEERS).get(way, "what its script answers")
        costs.append(Cost(way, answers, runs, statistics.median(walls), statistics.median(cpus), max(peaks)))
    return costs


def table(costs: list[Cost]) -> str:
    """Markdown; the ratios are a way's cost by that of the first peer."""
    peer = next((cost for cost in costs if cost.way not in KAPUTS), None)
    lines = ["| way | answers | wall s | CPU s | peak MB |", "| --- | --- |" + " ---: |" * 3]
    if peer:
        lines = [
            f"{lines[0]} by {Path(peer.way).name}: wall | CPU | memory |",
            f"{lines[1]} ---: | ---: | ---: |",
        ]
    for cost in costs:
        numbers = [f"{cost.wall_s:.2f}", f"{cost.cpu_s:.2f}", f"{cost.peak_mb:,.0f}"]
        if peer:
            pairs = zip(asdict(cost).values(), asdict(peer).values(), strict=True)
            numbers += [f"{its / theirs:.2f} x" for its, theirs in list(pairs)[3:]]
        lines.append("| " + " | ".join([Path(cost.way).name, cost.answers, *numbers]) + " |")
    return "\n".join(lines)


@contextmanager
def evidence(messages: int, keep: Path | None) -> Iterator[Path]:
    """A made run of that size: in `keep`, where it may be from last time, or for this call only."""
    with tempfile.TemporaryDirectory(prefix="kaput-ledger-") as scratch:
        run = keep or Path(scratch) / "run"
        made = run / "expected.json"
        if not made.exists():
            subprocess.run([KAPUT, "bench", "generate", str(run), "--messages", str(messages), "--json"],
                           check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        elif (found := json.loads(made.read_text())["sent"]) != messages:
            raise SystemExit(f"{run} holds {found:,} messages, not {messages:,}; give another --keep")
        yield run


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    packages = ("polars", "duckdb", "pyspark", "pyarrow", "numpy")
    return {
        "system": platform.platform(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_before": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def main() -> None:
    """Measures every way, prints the table, writes it to benchmarks/results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the evidence there, or use what is there"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {','.join(PEERS)}; empty: none")
    parser.add_argument(
        "--peer-script", type=Path, metavar="PATH", help="a program to compare with before the other peers"
    )
    parser.add_argument("--ours", default=",".join(KAPUTS), help="some of these ways; empty: none")
    parser.add_argument("--quick", action="store_true", help="one run of each instead of three")
    given = parser.parse_args()
    peers = [way for way in given.peers.split(",") if way]
    ours = [way for way in given.ours.split(",") if way]
    scripts = [str(given.peer_script)] if given.peer_script else []
    if unknown := set(ours) - set(KAPUTS):
        parser.error(f"kaput has no way {', '.join(sorted(unknown))}")
    if unknown := set(peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if given.messages > SETS_MESSAGES_MAX and "python-sets" in peers:
        peers.remove("python-sets")
        sys.stderr.write(f"python-sets is left out above {SETS_MESSAGES_MAX:,} messages\n")
    about = machine() | {"messages": given.messages}
    with evidence(given.messages, given.keep) as run:
        costs = measure([*ours, *scripts, *peers], run, 1 if given.quick else 3)
    RESULTS.mkdir(exist_ok=True)
    text = ", ".join(f"{key} {value}" for key, value in about.items()) + "\n\n" + table(costs) + "\n"
    name = f"ledger-{given.messages}"
    (RESULTS / f"{name}.md").write_text(text)
    document = {"machine": about, "ways": [asdict(cost) for cost in costs]}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    print(text)


if __name__ == "__main__":
    main()
