"""How fast `kaput sequence check` is, beside `sort | uniq`, which answers half of the same questions.

Prints one line for each form of the input: lines a second, and how many times as fast as sort and uniq.
Whole programs are timed, from their start to their end; CPU seconds are those of all their processes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

KAPUT = [sys.executable, "-m", "kaput", "sequence"]
PATTERN = r"^(?P<number>\d+) (?P<time>\d+) (?P<producer>\d+)$"


@dataclass(frozen=True)
class Took:
    """Seconds of the wall clock, and of processors."""

    wall_s: float
    cpu_s: float


def timed(command: str) -> Took:
    """One run of a shell command, whose output is dropped."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, env=env, check=False)
    wall = time.perf_counter() - began
    assert done.returncode in (0, 1), command
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best(command: str, times: int) -> Took:
    """The quickest of some, by processor time: another program's load does not count."""
    return min((timed(command) for _ in range(times)), key=lambda took: took.cpu_s)


def disordered(path: Path, whole: Path, seed: int = 1) -> None:
    """A hundredth of the lines dropped, a hundredth doubled, a hundredth moved back, a few not numbered."""
    chance = random.Random(seed)
    late: list[str] = []
    with whole.open() as lines, path.open("w") as out:
        for line in lines:
            dice = chance.random()
            if dice < 0.01:
                continue
            if dice < 0.02:
                late.append(line)
                continue
            out.write(line + line if dice < 0.03 else line)
            if dice > 0.9999:
                out.write("something else\n")
                out.writelines(late)
                late.clear()
        out.writelines(late)


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    kaput, count = " ".join(KAPUT), arguments.lines
    with tempfile.TemporaryDirectory() as directory:
        whole, broken, payload = (Path(directory) / name for name in ("whole", "broken", "payload"))
        subprocess.run(["sh", "-c", f"{kaput} generate --count {count} >{whole}"], check=True)
        few = count // 5
        subprocess.run(
            ["sh", "-c", f"{kaput} generate --line-format payload --count {few} >{payload}"], check=True
        )
        disordered(broken, whole)
        rows = [
            ("text", f"{kaput} check {whole}", whole, count),
            ("text with every disorder", f"{kaput} check {broken}", broken, count),
            ("text by a pattern", f"{kaput} check --pattern '{PATTERN}' {whole}", whole, count),
            ("payloads", f"{kaput} check --line-format payload {payload}", payload, few),
        ]
        print(f"{'input':26} {'lines/s':>12} {'lines/CPU s':>12} {'sort | uniq':>12} {'ratio':>6}")
        for what, command, path, lines in rows:
            ours = best(command, arguments.times)
            theirs = best(f"sort {path} | uniq -d | wc -l", arguments.times)
            ratio = theirs.cpu_s / ours.cpu_s
            print(
                f"{what:26} {lines / ours.wall_s:12,.0f} {lines / ours.cpu_s:12,.0f} "
                f"{lines / theirs.cpu_s:12,.0f} {ratio:6.1f}"
            )


if __name__ == "__main__":
    main()
