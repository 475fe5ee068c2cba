"""Deliveries between committed offsets: how many, and which came last."""

from __future__ import annotations

import numpy as np

from kaput.analysis.dense.compiled import INT, INTS, compiled
from kaput.analysis.dense.numbers import NULL, Ints


@compiled(INTS, INTS, INTS, INT)
def between(cuts: Ints, offsets: Ints, polled: Ints, kept: int) -> tuple[Ints, Ints]:
    """By bucket, of which the n-th ends before the n-th cut: how many deliveries it has; and time and offset
    of the last few, the last first, NULL where there are none. Of two at one time the later row is later.
    """
    counts = np.zeros(len(cuts) + 1, np.int64)
    latest = np.full((len(cuts) + 1, 2 * kept), NULL, np.int64)
    bucket = 0
    for row in range(len(offsets)):
        offset, at_ns = offsets[row], polled[row]
        # Mostly it is the bucket of the row before, or the next one.
        if bucket < len(cuts) and offset >= cuts[bucket]:
            bucket += 1
        if (bucket < len(cuts) and offset >= cuts[bucket]) or (bucket and offset < cuts[bucket - 1]):
            bucket = np.searchsorted(cuts, offset, side="right")
        counts[bucket] += 1
        mine = latest[bucket]
        if mine[2 * kept - 2] > at_ns:
            continue
        place = kept - 1
        while place and mine[2 * place - 2] <= at_ns:
            mine[2 * place], mine[2 * place + 1] = mine[2 * place - 2], mine[2 * place - 1]
            place -= 1
        mine[2 * place], mine[2 * place + 1] = at_ns, offset
    return counts, latest
