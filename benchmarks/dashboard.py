"""What the dashboard costs a run, and how far behind it is: `python benchmarks/dashboard.py [--runs N]`.

Runs take turns, with a dashboard that is watched by one browser and asked by ten that do not read, and
without; compared are the p99 of acknowledgements, pair by pair. Needs the machine for itself.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kaput.dashboard.listing import Listing
from kaput.dashboard.safe_files import Runs
from kaput.evidence.folder import Manifest, RunFolder

KAPUT = str(Path(sys.executable).with_name("kaput"))
NONREADERS = 10


def p99_ms(runs: Path, scenario: str, watched: bool) -> tuple[float, list[float]]:
    """The run's p99 of acknowledgements; of a watched one also how old the newest row was, event by event."""
    options = ["--dashboard"] if watched else []
    command = [KAPUT, "run", scenario, "--runs", str(runs), "--json", *options]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run,
        _watchers(run) as behind_s,
    ):
        assert run.stdout is not None
        findings = json.loads(run.stdout.read())
    return float(findings["latency_ms"]["ack"]["p99"]), behind_s


@contextmanager
def _watchers(run: subprocess.Popen[str]) -> Iterator[list[float]]:
    """Browsers, as soon as the run says where."""
    behind_s: list[float] = []
    thread = threading.Thread(target=_watch, args=(run, behind_s), daemon=True)
    thread.start()
    yield behind_s
    thread.join(60)


def _watch(run: subprocess.Popen[str], behind_s: list[float]) -> None:
    assert run.stderr is not None
    for line in run.stderr:
        if found := re.search(r"live at http://127\.0\.0\.1:(\d+)(/runs/[^/]+)/live", line):
            reader = threading.Thread(target=_read, args=(int(found[1]), found[2], behind_s), daemon=True)
            reader.start()


def _read(port: int, path: str, behind_s: list[float]) -> None:
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(NONREADERS)]
    for one in idle:
        one.sendall(f"GET {path}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"{path}/events")
    answer = connection.getresponse()
    while line := answer.readline():
        if line.startswith(b"data: {"):
            picture = json.loads(line[6:])
            counts = picture["counts"]
            if picture["behind_s"] is not None and 0 < counts["attempted"] < (picture["total"] or 0):
                behind_s.append(picture["behind_s"])
    for one in idle:
        one.close()


def listing_s(count: int) -> tuple[float, float]:
    """Seconds to list so many judged runs, for the first time and again."""
    story = {"producer": 0, "seq": 1, "story": "was acknowledged and is gone " * 4}
    anomalies = [{"name": "lost", "count": 7, "permitted": 0, "examples": [story] * 100}]
    with tempfile.TemporaryDirectory() as directory:
        runs = Path(directory)
        for number in range(count):
            folder = RunFolder(runs / f"run-{number}")
            folder.path.mkdir()
            folder.write_manifest(Manifest(run_id=uuid.uuid4(), scenario="noop", state="analysed"))
            folder.findings_path.write_text(json.dumps({"verdict": "violated", "anomalies": anomalies}))
        listing, times = Listing(Runs(runs)), []
        for _ in range(2):
            began = time.monotonic()
            assert len(listing.lines()) == count
            times.append(time.monotonic() - began)
    return times[0], times[1]


def compare(scenario: str, rounds: int) -> None:
    """Prints every pair, the ratio of their medians, and how far behind the page was."""
    without: list[float] = []
    watched: list[float] = []
    behind_s: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            # Whoever goes first in one pair goes second in the next.
            for with_one in (number % 2 == 0, number % 2 == 1):
                p99, behind = p99_ms(Path(directory), scenario, with_one)
                (watched if with_one else without).append(p99)
                behind_s += behind
            print(f"pair {number + 1}: ack p99 {without[-1]:.2f} ms without, {watched[-1]:.2f} ms watched")
    ratio = statistics.median(watched) / statistics.median(without)
    print(f"median p99 {_ms(without)} without, {_ms(watched)} watched: ratio {ratio:.2f}")
    behind_s.sort()
    if behind_s:
        last = behind_s[int(len(behind_s) * 0.99)]
        print(f"newest row at an event: median {statistics.median(behind_s):.2f} s old, p99 {last:.2f} s")


def _ms(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ms"


def main() -> None:
    """Both measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs; 0: only the list")
    parser.add_argument("--scenario", default="noop")
    given = parser.parse_args()
    first, again = listing_s(1000)
    print(f"1,000 runs listed in {first:.2f} s, again in {again:.2f} s")
    if given.runs:
        compare(given.scenario, given.runs)


if __name__ == "__main__":
    main()
