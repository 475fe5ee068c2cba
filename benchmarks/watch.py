"""How far a watch is behind, whether its totals are exact after it was killed at random moments, and whether
it wakes anybody during rolling restarts.

    .venv/bin/python benchmarks/watch.py [--rate 3333] [--for 120] [--kills 50] [--seed 1] [--restarts 60]

Starts three brokers. First `kaput watch` at --rate messages a second to each of them: how old the newest row
is that the ledger has, twice a second. Then a watch of which the streaming job, its JVM, a Python worker or
kaput itself is killed, --kills times; in the end its totals are compared with those of the analysis, which
reads the log anew. Ends with 1 where they differ. Last, for --restarts minutes, a watch with the
built-in rules while one broker after the other is stopped and started: which alerts fired; with 1 if any did.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

KAPUT = str(Path(sys.executable).with_name("kaput"))
_WARM_S = 20.0  # the session's start is no news
_PAUSE_S = (0.5, 12.0)  # between two kills: also while the job starts
_END_S = 300.0
_CLUSTER = "watch-benchmark"
_BETWEEN_RESTARTS_S = 40.0  # from one stop of 10 s to the next: a careful operator's
_GAVE_UP = 4
_CALM = 20  # versions without a kill, before the end
# Whom to kill: words of a command line; kaput itself is gone on with.
_VICTIMS = ("streaming.job", "SparkSubmit", "python_workers", "kaput watch")


@contextmanager
def cluster(name: str) -> Iterator[str]:
    """Three brokers; where they are."""
    up = [KAPUT, "up", "--brokers", "3", "--cluster", name, "--detach", "--json"]
    found = json.loads(subprocess.run(up, check=True, capture_output=True, text=True).stdout)
    try:
        yield str(found["bootstrap_servers"])
    finally:
        subprocess.run([KAPUT, "down", "--cluster", name], check=True, capture_output=True)


class Watch:
    """`kaput watch` in the background."""

    def __init__(self, servers: str, runs: Path, *options: str) -> None:
        self.runs = runs
        words = [KAPUT, "watch", "--bootstrap-servers", servers, "--runs", str(runs), "--json", *options]
        self._out = (runs / "out").open("w+")
        self._said = (runs / "said").open("a")
        self.process = subprocess.Popen(words, stdout=self._out, stderr=self._said)

    @property
    def folder(self) -> Path | None:
        """Its run folder, once it is there."""
        return next(iter(self.runs.glob("*-watch-*")), None)

    def status(self) -> dict[str, Any]:
        """What its ledger knew last; nothing before it began."""
        with suppress(OSError, ValueError):
            if self.folder is not None:
                found: dict[str, Any] = json.loads((self.folder / "watch" / "status.json").read_text())
                return found
        return {}

    def victim(self, word: str) -> psutil.Process | None:
        """A process of it with that word, if there is one now."""
        if word == "kaput watch":
            return psutil.Process(self.process.pid)
        with suppress(psutil.Error):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if word in " ".join(child.cmdline()):
                        return child
        return None

    def end(self) -> dict[str, Any]:
        """Its last line, after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_END_S)
        self._out.seek(0)
        lines = self._out.read().splitlines()
        if not lines:
            raise SystemExit((self.runs / "said").read_text())
        found: dict[str, Any] = json.loads(lines[-1])
        return found


def lag(servers: str, rate: float, seconds: float) -> None:
    """Prints how far it was behind."""
    with tempfile.TemporaryDirectory() as runs:
        watch = Watch(servers, Path(runs), "--rate", str(rate))
        time.sleep(_WARM_S)
        behind, begin = [], time.monotonic()
        before, at = watch.status().get("sent", 0), time.monotonic()
        while time.monotonic() - begin < seconds:
            time.sleep(0.5)
            status = watch.status()
            age_s = (time.time_ns() - status["at_ns"]) / 1e9
            behind.append(status["behind_s"] + age_s)
        a_second = (watch.status()["sent"] - before) / (time.monotonic() - at)
        final = watch.end()
    behind.sort()
    p50, p99 = (behind[int(share * (len(behind) - 1))] for share in (0.5, 0.99))
    print(
        f"{a_second:,.0f} messages a second: behind by {p50:.1f} s (p50), {p99:.1f} s (p99), "
        f"{behind[-1]:.1f} s at most; {final['runs']} runs kept; "
        f"{final['missing']} of {final['sent']:,} missing"
    )


def killed(servers: str, kills: int, seed: int) -> bool:
    """Whether the totals are those of the analysis."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        runs, done, gave_up = Path(place), dict.fromkeys(_VICTIMS, 0), 0
        watch = Watch(servers, runs, "--rate", "100")
        while sum(done.values()) < kills:
            time.sleep(moments.uniform(*_PAUSE_S))
            if watch.process.poll() == _GAVE_UP:  # its job was killed too often to get anywhere
                gave_up += 1
                watch = Watch(servers, runs, "--rate", "100", "--resume", str(watch.folder))
            assert watch.process.poll() is None, (runs / "said").read_text()
            word = moments.choice(_VICTIMS)
            process = watch.victim(word) if watch.status() else None
            if process is None:
                continue
            with suppress(psutil.Error):
                process.kill()
                done[word] += 1
            if word == "kaput watch":
                watch.process.wait(_END_S)
                time.sleep(2)  # its guardian ends the rest
                watch = Watch(servers, runs, "--rate", "100", "--resume", str(watch.folder))
        at = watch.status()["version"]
        while watch.process.poll() is None and watch.status()["version"] < at + _CALM:
            time.sleep(0.5)
        final = watch.end()
        folder = watch.folder
        assert folder is not None
        analyze = [KAPUT, "analyze", str(folder), "--json", "--no-page"]
        findings = json.loads(subprocess.run(analyze, capture_output=True, text=True, check=False).stdout)
    told = {(f["outcome"], f["stored"]): f["count"] for f in final["fates"]}
    found = {(f["outcome"], f["stored"]): f["count"] for f in findings["fates"]}
    counts = {a["name"]: a["count"] for a in findings["anomalies"] if a["group"] is None}
    same = told == found and final["missing"] == counts["lost"] and final["reordered"] == counts["reordered"]
    print(
        f"killed {', '.join(f'{n} x {word}' for word, n in done.items())}; resumed {gave_up} x after exit 4"
    )
    print(f"the watch: {told}\nthe analysis: {found}\n{'equal' if same else 'DIFFERENT'}")
    return same


def restarted(name: str, servers: str, minutes: float) -> bool:
    """Whether no alert fired while brokers were restarted in turn, and nothing was missing."""
    with tempfile.TemporaryDirectory() as place:
        fired = Path(place) / "alerts.jsonl"
        watch = Watch(servers, Path(place), "--rate", "100", "--notify", f"json:{fired}")
        time.sleep(_WARM_S)
        begin, restarts = time.monotonic(), 0
        while time.monotonic() - begin < 60 * minutes:
            broker = restarts % 3 + 1
            stop = ["fault", "inject", "stop", "--target", f"broker {broker}", "--for", "10s"]
            subprocess.run([KAPUT, *stop, "--cluster", name], check=True, capture_output=True)
            restarts += 1
            time.sleep(_BETWEEN_RESTARTS_S)
        final = watch.end()
        changes = [json.loads(line) for line in fired.read_text().splitlines()] if fired.exists() else []
    names = sorted({str(change["alert"]) for change in changes if change["state"] == "firing"})
    print(f"{restarts} restarts in {minutes:g} min: {', '.join(names) or 'no alert'}; ", end="")
    print(f"{final['missing']} of {final['sent']:,} missing, {final['late']} late")
    return not names and not final["missing"]


def main() -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rate", type=float, default=3333)
    parser.add_argument("--for", dest="seconds", type=float, default=120)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--restarts", type=float, default=0, help="minutes of rolling restarts")
    given = parser.parse_args()
    with cluster(_CLUSTER) as servers:
        if given.seconds:
            lag(servers, given.rate, given.seconds)
        fine = not given.kills or killed(servers, given.kills, given.seed)
        if given.restarts:
            fine = restarted(_CLUSTER, servers, given.restarts) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
