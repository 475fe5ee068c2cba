"""`python -m property.soak --count 5000 --seed 1`: the analysis against the oracle, for as long as one likes.

As test_ledger.py, with real Spark. Histories are of every kind in turn; those of one kind are judged a folder
at a time, since groups are those of a whole folder. Where a folder disagrees, halves of it are judged until
the histories are found that do so alone; their numbers and the seed make them again:
`--first NUMBER --count 1`. Run it from the directory `tests`, or with it on PYTHONPATH; `make soak` does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from fakes.spark import shared_context
from property.agreement import by_pipeline, culprits, parts_of
from property.exchanges import Exchange
from property.keepers import Keeper
from property.latecomers import Latecomer
from property.mixtures import Mixture
from property.recreated import Recreated
from property.shares import Queue
from property.worlds import Part

Kind = Callable[[int, Sequence[int]], list[Part]]
# Eight, and not a multiple of three: parts_of makes every third number a failover.
KINDS: Sequence[Kind] = (
    parts_of,
    parts_of,
    lambda seed, numbers: [Mixture(seed, number) for number in numbers],
    lambda seed, numbers: [Exchange(seed, number) for number in numbers],
    lambda seed, numbers: [Queue(seed, number) for number in numbers],
    lambda seed, numbers: [Recreated(seed, number) for number in numbers],
    lambda seed, numbers: [Latecomer(seed, number) for number in numbers],
    lambda seed, numbers: [Keeper(seed, number) for number in numbers],
)


def folders(seed: int, numbers: range) -> list[list[Part]]:
    """The histories of these numbers, by kind: which one a number is depends on nothing else."""
    by_kind = [[n for n in numbers if n % len(KINDS) == which] for which in range(len(KINDS))]
    return [kind(seed, mine) for kind, mine in zip(KINDS, by_kind, strict=True) if mine]


def main() -> int:
    """The command: 1 where anything disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=300)
    given = parser.parse_args()
    began, wrong = time.monotonic(), 0
    by_engine = by_pipeline(shared_context())
    last = given.first + given.count
    for first in range(given.first, last, given.batch):
        numbers = range(first, min(first + given.batch, last))
        for part, told in (
            one for parts in folders(given.seed, numbers) for one in culprits(parts, by_engine)
        ):
            wrong += 1
            print(f"seed {given.seed}, history {part.number}: found and expected: {told}", flush=True)
        done, took_s = numbers.stop - given.first, time.monotonic() - began
        print(
            f"{done} of {given.count} histories, {wrong} disagree, {took_s:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    print(f"seed {given.seed}: {given.count} histories, {wrong} disagree, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
