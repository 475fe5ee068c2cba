"""Acknowledgements of a producer in a partition along time, and the longest time without one.

Each stretch of rows tells its first and last times one by one and, of what is between, the longest gap alone.
Where stretches overlap no further than those ends, the longest gap of all is known exactly (`longest`);
otherwise None says that the times themselves must be laid in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kaput.analysis.dense.numbers import Ints


class Gap(NamedTuple):
    """A time without an acknowledgement, ns since the epoch."""

    from_ns: int
    to_ns: int


class Stretch(NamedTuple):
    """`head` and `tail`: the first and last times; `body`: the longest gap from head's end to tail's start.

    Without a body all times are in `head`.
    """

    head: Ints
    tail: Ints
    body: Gap | None


def stretch(times: Ints, ends: int) -> Stretch:
    """The stretch of some times, of which `ends` at either end are kept."""
    if len(times) > 1 and (times[1:] < times[:-1]).any():
        times = np.sort(times)
    if len(times) <= 2 * ends:
        return Stretch(times.copy(), np.empty(0, np.int64), None)
    body = times[ends - 1 : len(times) - ends + 1]
    longest = int(np.argmax(np.diff(body)))  # the earliest of the longest
    gap = Gap(int(body[longest]), int(body[longest + 1]))
    return Stretch(times[:ends].copy(), times[len(times) - ends :].copy(), gap)


def joined(stretches: Sequence[Stretch], ends: int) -> list[Stretch]:
    """One stretch instead of several, if they come one after the other; otherwise these."""
    known = sorted(stretches, key=lambda s: int(s.head[0]))
    bounds = [(int(s.head[0]), int((s.tail if s.body else s.head)[-1])) for s in known]
    if len(known) < 2 or any(last > first for (_, last), (first, _) in pairwise(bounds)):
        return known
    points = np.concatenate([part for s in known for part in (s.head, s.tail)])
    gaps = {int(at): s.body for s, at in zip(known, _ends_of_heads(known), strict=True) if s.body}
    steps = np.diff(points)
    for at, gap in gaps.items():
        steps[at] = gap.to_ns - gap.from_ns
    if not gaps and len(points) <= 2 * ends:
        return [Stretch(points, np.empty(0, np.int64), None)]
    head = min([ends, len(points) - 1, *(at + 1 for at in gaps)])
    tail = max([head, len(points) - ends, *(at + 1 for at in gaps)])
    at = head - 1 + int(np.argmax(steps[head - 1 : tail]))
    body = gaps.get(at) or Gap(int(points[at]), int(points[at + 1]))
    return [Stretch(points[:head].copy(), points[tail:].copy(), body)]


def _ends_of_heads(stretches: Sequence[Stretch]) -> Ints:
    """Where the last time of each one's head stands among the times of all."""
    sizes = np.array([(len(s.head), len(s.tail)) for s in stretches])
    ends: Ints = np.cumsum(sizes.sum(axis=1)) - sizes[:, 1] - 1
    return ends


def longest(stretches: Sequence[Stretch], more: Sequence[int]) -> Gap | None:
    """The longest gap between all times and `more` of them, the earliest of equals; None: not known so.

    There are at least two times.
    """
    bodies = sorted((int(s.head[-1]), int(s.tail[0]), s.body) for s in stretches if s.body is not None)
    edges = np.sort(
        np.concatenate([*(s.head for s in stretches), *(s.tail for s in stretches), np.array(more, np.int64)])
    )
    gaps = [gap for _, _, gap in bodies if gap is not None]
    covered = np.zeros(len(edges) - 1, bool)
    for start, end, _ in bodies:
        inside = np.searchsorted(edges, end, side="left") - np.searchsorted(edges, start, side="right")
        if inside > 0:
            return None
        if start < end:
            covered[np.searchsorted(edges, start, side="right") - 1] = True
    if any(after[0] < before[1] for before, after in pairwise(bodies)):
        return None
    steps = np.where(covered, -1, np.diff(edges))
    at = int(np.argmax(steps))
    gaps.append(Gap(int(edges[at]), int(edges[at + 1])))
    return max(gaps, key=lambda gap: (gap.to_ns - gap.from_ns, -gap.from_ns))
