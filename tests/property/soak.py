"""`python -m property.soak --count 5000 --seed 1`: the analysis against the oracle, for as long as one likes.

As test_ledger.py, with real Spark, in batches of a folder each. Where a batch disagrees, halves of it are
judged until the histories are found that do so alone; their numbers and the seed make them again:
`--first NUMBER --count 1`. Run it from the directory `tests`, or with it on PYTHONPATH; `make soak` does.
"""

from __future__ import annotations

import argparse
import sys
import time

from fakes.spark import shared_context
from property.agreement import by_pipeline, culprits, parts_of


def main() -> int:
    """The command: 1 where anything disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=100)
    given = parser.parse_args()
    began, wrong = time.monotonic(), 0
    by_engine = by_pipeline(shared_context())
    last = given.first + given.count
    for first in range(given.first, last, given.batch):
        parts = parts_of(given.seed, range(first, min(first + given.batch, last)))
        for part, told in culprits(parts, by_engine):
            wrong += 1
            print(f"seed {given.seed}, history {part.number}: found and expected: {told}", flush=True)
        done, took_s = first + len(parts) - given.first, time.monotonic() - began
        print(
            f"{done} of {given.count} histories, {wrong} disagree, {took_s:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    print(f"seed {given.seed}: {given.count} histories, {wrong} disagree, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
