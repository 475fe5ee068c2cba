"""`python -m second_opinion.soak --seconds 600 --seed 1`: the second opinion of runs with real brokers.

`kaput search` draws them from the spaces in `spaces`, one after the other, and each statement of each run is
examined. The runs stay, so that `--runs FOLDER` can examine them again. Run it from the directory `tests`, or
with it on PYTHONPATH; `make soak-real` does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

from second_opinion.judging import examined
from second_opinion.opinion import FALSE

SPACES = sorted((Path(__file__).parent / "spaces").glob("*.yaml"))
KAPUT = Path(sys.executable).with_name("kaput")


def look(folder: Path) -> int:
    """Prints what is false of the judged runs in a folder; how many of them have something false."""
    runs = sorted(path.parent for path in folder.rglob("findings.json"))
    verdicts: Counter[str] = Counter()
    bad = 0
    for run in runs:
        with tempfile.TemporaryDirectory() as scratch:
            found = examined(run, Path(scratch))
        verdicts.update(each.verdict for each in found)
        false = [each for each in found if each.verdict == FALSE]
        bad += bool(false)
        for each in false:
            print(f"  {run}: {each}", flush=True)
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
    print(f"  {len(runs)} runs: {counts or 'no statements'}; {bad} runs with a false one", flush=True)
    return bad


def main() -> int:
    """The command: 1 if anything is false."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=1200)
    parser.add_argument("--each", type=int, default=200, help="seconds of one search")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--space", default="", help="only the spaces with this in their names")
    parser.add_argument("--runs", type=Path, help="examine the runs of this folder, and make none")
    given = parser.parse_args()
    if given.runs:
        return int(look(given.runs) > 0)
    folder, until, bad = Path(tempfile.mkdtemp(prefix="soak-real-")), time.monotonic() + given.seconds, 0
    print(f"runs are in {folder}")
    for number, space in enumerate(cycle(path for path in SPACES if given.space in path.name)):
        if time.monotonic() > until:
            break
        runs = folder / f"{number}-{space.stem}"
        command = [KAPUT, "search", "--space", space, "--seed", str(given.seed + number)]
        command += ["--budget", f"{given.each}s", "--searches", runs]
        if "clusters:" not in space.read_text():  # the times of several clusters cannot be scaled
            command += ["--scale", "0.5"]
        print(runs.name, flush=True)
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode not in (0, 1, 3):
            print(ended.stderr, file=sys.stderr)
            return ended.returncode
        bad += look(runs)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
