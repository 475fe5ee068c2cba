"""How long `kaput search` takes until it first sees a known bug, beside the same search with uniform draws.

`--jobs` searches run at the same time, steered and uniform ones in turn, so that both meet the same load. A
search ends with its first candidate, or after `--budget`: then it counts as longer than all others.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from kaput.errors import UsageError
from kaput.search.store import Find, SearchStore

NEVER = float("inf")


class Search:
    """A search in a process of its own, from the start until something is seen."""

    def __init__(self, space: str, seed: int, uniform: bool, budget: str, folder: Path) -> None:
        self._folder = folder / f"{space}-{seed}-{'uniform' if uniform else 'steered'}"
        command = [sys.executable, "-m", "kaput", "search", "--space", space, "--seed", str(seed)]
        command += ["--at-once", "1", "--budget", budget, "--searches", str(self._folder)]
        self._process = subprocess.Popen(
            [*command, *(["--uniform"] if uniform else [])], stdout=subprocess.DEVNULL
        )
        self.first: Find | None = None
        self.drawn = 0

    def over(self) -> bool:
        """Whether something was seen, or the search has ended. Ends it if something was seen."""
        with suppress(UsageError):  # not there yet
            for path in self._folder.glob("*/search.db"):
                store = SearchStore(path.parent, read_only=True)
                self.drawn = len(store.experiments("draw"))
                self.first = next(iter(store.finds()), None)
                store.close()
        if self.first is not None and self._process.poll() is None:
            self.end()
        return self._process.poll() is not None

    def end(self) -> None:
        """Ends it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(120)

    @property
    def seconds(self) -> float:
        """Until something was seen."""
        return NEVER if self.first is None else self.first.after_s

    @property
    def text(self) -> str:
        """`2 min 5 s, draw 7`"""
        if self.first is None:
            return f"nothing in {self.drawn} draws"
        return f"{_duration(self.seconds)}, draw {self.first.after} ({self.first.symptom})"


def _duration(seconds: float) -> str:
    return "longer" if seconds == NEVER else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def compare(space: str, seeds: list[int], jobs: int, budget: str, folder: Path) -> None:
    """Prints each search when it is over, and the medians."""
    waiting = [(seed, uniform) for seed in seeds for uniform in (False, True)]
    running: dict[tuple[int, bool], Search] = {}
    times: dict[bool, list[float]] = {False: [], True: []}
    print(f"\n{space}\n\n| seed | draws | first seen |\n| --- | --- | --- |", flush=True)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                seed, uniform = job = waiting.pop(0)
                running[job] = Search(space, seed, uniform, budget, folder)
            time.sleep(1)
            for (seed, uniform), search in [*running.items()]:
                if search.over():
                    del running[seed, uniform]
                    times[uniform].append(search.seconds)
                    print(f"| {seed} | {'uniform' if uniform else 'steered'} | {search.text} |", flush=True)
    finally:
        for search in running.values():
            search.end()
    steered, uniformly = median(times[False]), median(times[True])
    ratio = "" if NEVER in (steered, uniformly) else f" ({steered / uniformly:.2f})"
    print(f"\nMedian: {_duration(steered)} steered, {_duration(uniformly)} uniform{ratio}", flush=True)


def main() -> None:
    """`python benchmarks/search.py stale-end-transaction --seeds 10`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spaces", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--from-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", default="30m")
    options = parser.parse_args()
    seeds = list(range(options.from_seed, options.from_seed + options.seeds))
    with tempfile.TemporaryDirectory() as folder:
        for space in options.spaces:
            compare(space, seeds, options.jobs, options.budget, Path(folder))


if __name__ == "__main__":
    main()
