"""How long `kaput search` takes until it first sees a known bug, beside the same search with uniform draws.

For each seed both search at the same time, so that they share this machine's load. A search ends with its
first candidate, or after `--budget`: then it counts as longer than all others.
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
from kaput.search.store import Find, Store

NEVER = float("inf")


class Search:
    """A search in a process of its own, from the start until something is seen."""

    def __init__(self, space: str, seed: int, uniform: bool, budget: str, folder: Path) -> None:
        self._folder = folder / f"{space}-{seed}-{'uniform' if uniform else 'steered'}"
        command = [sys.executable, "-m", "kaput", "search", "--space", space, "--seed", str(seed)]
        command += ["--together", "1", "--budget", budget, "--searches", str(self._folder)]
        self._process = subprocess.Popen(
            [*command, *(["--uniform"] if uniform else [])], stdout=subprocess.DEVNULL
        )
        self.first: Find | None = None
        self.drawn = 0

    def over(self) -> bool:
        """Whether something was seen, or the search has ended. Ends it if something was seen."""
        with suppress(UsageError):  # not there yet
            for path in self._folder.glob("*/search.db"):
                store = Store(path.parent, read_only=True)
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


def compare(space: str, seeds: list[int], budget: str, folder: Path) -> None:
    """Prints a table of all seeds, with the medians."""
    print(f"\n{space}\n\n| seed | steered | uniform |\n| --- | --- | --- |", flush=True)
    times: list[tuple[float, float]] = []
    for seed in seeds:
        both = [Search(space, seed, uniform, budget, folder) for uniform in (False, True)]
        try:
            while not (both[0].over() & both[1].over()):
                time.sleep(1)
        except KeyboardInterrupt:
            for each in both:
                each.end()
            raise
        times.append((both[0].seconds, both[1].seconds))
        print(f"| {seed} | {both[0].text} | {both[1].text} |", flush=True)
    steered, uniform = (median(column) for column in zip(*times, strict=True))
    ratio = "" if NEVER in (steered, uniform) else f": {steered / uniform:.2f}"
    print(f"| median | {_duration(steered)} | {_duration(uniform)}{ratio} |", flush=True)


def main() -> None:
    """`python benchmarks/search.py stale-end-transaction --seeds 10`"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spaces", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--from-seed", type=int, default=1)
    parser.add_argument("--budget", default="30m")
    options = parser.parse_args()
    seeds = list(range(options.from_seed, options.from_seed + options.seeds))
    with tempfile.TemporaryDirectory() as folder:
        for space in options.spaces:
            compare(space, seeds, options.budget, Path(folder))


if __name__ == "__main__":
    main()
