"""Faults beside the messages: the first acknowledgement after each, and how long there was none.

In SQL: reference/faults.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kaput.analysis.closer.full import NotSettled
from kaput.analysis.closer.losses import Explained
from kaput.analysis.dense.context import Reached
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.scan import Span
from kaput.analysis.dense.streams import longest, stretch
from kaput.analysis.dense.summary import Quiet, Summary, least
from kaput.analysis.faults import Span as Times
from kaput.analysis.names import Names
from kaput.analysis.partitions import Partitions


@dataclass(frozen=True)
class Window:
    """Attempts and acknowledgements in a fault's windows (see faults.Span)."""

    sent: int
    affected: int
    loss_sent: int
    loss_acked: int


def first_acks(
    reached: Sequence[Reached], summary: Summary, partitions: Partitions, names: Names
) -> dict[str, int]:
    """By fault: the first acknowledgement after it took effect, by the new leader where there is one."""
    found: dict[str, int] = {}
    for number, one in enumerate(reached):
        if not one.elected:
            way = "any"
        elif one.election is None:
            continue
        else:
            by_epoch = one.election[0] is not None and names.place(one.place) in partitions.logged
            way = "epoch" if by_epoch else "time"
        at_ns = summary.first_acks.get((number, way))
        if at_ns is not None:
            found[one.fault] = min(found.get(one.fault, at_ns), at_ns)
    return found


def silences(
    reached: Sequence[Reached], summary: Summary, read: Callable[[Reached], Ints | None]
) -> dict[str, int]:
    """By fault: the longest time in ns without an acknowledgement from a place it reached.

    `read` gives all times of one between effect and recovery: producers may take turns there.
    """
    ends: dict[int, tuple[int, int]] = {}
    for (_, place), (first, last) in summary.active.items():
        mine = ends.get(place, (first, last))
        ends[place] = min(mine[0], first), max(mine[1], last)
    found: dict[str, int] = {}
    for number, one in enumerate(reached):
        if one.place in ends:
            quiet = summary.silent.get(number, Quiet([], False, None))
            gap = _silence(one, quiet, ends[one.place], read)
            if gap is not None:
                found[one.fault] = max(found.get(one.fault, gap), gap)
    return found


def _silence(
    one: Reached, quiet: Quiet, ends: tuple[int, int], read: Callable[[Reached], Ints | None]
) -> int | None:
    """The longest gap that begins before the recovery and ends after the fault took effect."""
    points = [end for end in ends if one.effective_ns < end < one.recovered_ns]
    after = [end for end in ends if end > one.effective_ns and end >= one.recovered_ns]
    next_ns = least(quiet.after_ns, min(after, default=None))
    if next_ns is not None:
        points.append(next_ns)
    if quiet.before or any(end <= one.effective_ns for end in ends):
        points.append(one.effective_ns)
    if len(points) + sum(len(s.head) + len(s.tail) for s in quiet.within) < 2:
        return None
    gap = longest(quiet.within, points)
    if gap is None:
        times = read(one)
        gap = longest([stretch(times, len(times))], points) if times is not None else None
    if gap is None:
        raise NotSettled("acknowledgements around a fault are in no order of time")
    return gap.to_ns - gap.from_ns


def spans(times: Sequence[Times], reached: Sequence[Reached]) -> list[Span]:
    """What to count attempts in, for the second look."""
    found = []
    for one in times:
        elections = {r.place: r.election[1] if r.election else None for r in reached if r.fault == one.fault}
        window = (one.from_ns, one.to_ns) if one.from_ns is not None and one.to_ns is not None else None
        lost = one.loss_from_ns, one.loss_to_ns
        losses = (lost[0], lost[1]) if lost[0] is not None and lost[1] is not None else None
        found.append(Span(window, losses, elections))
    return found


def windows(
    times: Sequence[Times], asked: Sequence[Span], counts: Ints, explained: Explained
) -> Mapping[str, Window]:
    """By fault: what was counted, and the lost messages among the affected."""
    found = {}
    for one, span, row in zip(times, asked, counts.tolist(), strict=True):
        sent, affected, loss_sent, loss_acked = row
        found[one.fault] = Window(sent, affected + _lost_in(span, explained), loss_sent, loss_acked)
    return found


def _lost_in(span: Span, explained: Explained) -> int:
    """Lost messages attempted in the window that were not acknowledged after the election already."""
    if span.window is None:
        return 0
    at = np.flatnonzero(explained.lost)
    attempt, place, done = (explained.rows[name][at] for name in ("attempt_ns", "place", "done_ns"))
    inside = (attempt >= span.window[0]) & (attempt <= span.window[1])
    lost = int(np.count_nonzero(inside & (place == NULL)))
    for code, election_ns in span.elections.items():
        late = done > election_ns if election_ns is not None else np.zeros(len(at), bool)
        lost += int(np.count_nonzero(inside & (place == code) & ~late))
    return lost
