"""Deliveries between committed offsets: how many, and which came last."""

from __future__ import annotations

import numpy as np

from kaput.analysis.dense.compiled import INT, INTS, compiled
from kaput.analysis.dense.counting import first_above
from kaput.analysis.dense.numbers import NULL, Ints


@compiled(INTS, INTS, INTS, INT)
def between(cuts: Ints, offsets: Ints, polled: Ints, kept: int) -> tuple[Ints, Ints]:
    """By bucket, of which the n-th ends before the n-th cut: how many deliveries it has; and time and offset
    of the last few, the last first, NULL where there are none. Of two at one time that of the greater offset.
    """
    counts = np.zeros(len(cuts) + 1, np.int64)
    latest = np.full((len(cuts) + 1, 2 * kept), NULL, np.int64)
    bucket, oldest = 0, kept - 1
    for row in range(len(offsets)):
        offset, at_ns = offsets[row], polled[row]
        # Mostly it is the bucket of the row before.
        if (bucket < len(cuts) and offset >= cuts[bucket]) or (bucket and offset < cuts[bucket - 1]):
            bucket = first_above(cuts, 0, len(cuts), offset)
        counts[bucket] += 1
        last_ns, last = latest[bucket, 2 * oldest], latest[bucket, 2 * oldest + 1]
        if last_ns > at_ns or (last_ns == at_ns and last > offset):
            continue
        place = oldest
        while place and (
            latest[bucket, 2 * place - 2] < at_ns
            or (latest[bucket, 2 * place - 2] == at_ns and latest[bucket, 2 * place - 1] <= offset)
        ):
            latest[bucket, 2 * place] = latest[bucket, 2 * place - 2]
            latest[bucket, 2 * place + 1] = latest[bucket, 2 * place - 1]
            place -= 1
        latest[bucket, 2 * place], latest[bucket, 2 * place + 1] = at_ns, offset
    return counts, latest
