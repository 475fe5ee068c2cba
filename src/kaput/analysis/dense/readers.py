"""What each member read of each partition, step by step: jumps, steps back, deliveries it did not own.

Rows of one time come from one poll, and count in the order of their offsets, however they stand in the table.
A stretch of deliveries is judged by itself; its first and last rows are kept, so that the driver can judge
the steps between stretches (`joined`). A stretch whose times overlap another's says that steps must be
laid in order first: None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.numbers import Ints

Reader = tuple[int, int, int]  # group, member, place


@dataclass(frozen=True)
class Events:
    """A reader's own assignment events in order. `changed_ns`: changes of its assignment;
    `at_ns` and `owns`: those and its leavings, and whether it owned the partition from then on.
    """

    changed_ns: Ints
    at_ns: Ints
    owns: npt.NDArray[np.bool_]


NO_EVENTS = Events(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))


class Edge(NamedTuple):
    """A row at an end of a stretch: when, its offset, assignments before it, and whose it is."""

    at_ns: int
    offset: int
    assignment: int
    producer: int
    seq: int

    @property
    def moment(self) -> tuple[int, ...]:
        """What a reader's rows are in the order of; the identity is for a firm order alone."""
        return self.at_ns, self.offset, self.producer, self.seq


@dataclass(frozen=True)
class Steps:
    """One stretch: its ends in the order of time."""

    first: Edge
    last: Edge


class Strays(NamedTuple):
    """Rows out of step, as positions in the rows given: jumps and steps back with the offset before each."""

    jumps: npt.NDArray[np.intp]
    jumped_from: Ints
    backs: npt.NDArray[np.intp]
    fell_from: Ints
    unowned: npt.NDArray[np.intp]


class Read(NamedTuple):
    """One reader's deliveries in a stretch of rows, in the order of the table."""

    at_ns: Ints
    offset: Ints
    producer: Ints
    seq: Ints

    def order(self) -> npt.NDArray[np.intp] | None:
        """The order of polls and offsets; None where the rows are in it."""
        later, higher = np.diff(self.at_ns), self.offset[1:] > self.offset[:-1]
        if ((later > 0) | ((later == 0) & higher)).all():
            return None
        return np.lexsort((self.seq, self.producer, self.offset, self.at_ns))


class Ends(NamedTuple):
    """The first and last row in the order of time, as positions, and the assignments before each."""

    first: int
    last: int
    assignments: tuple[int, int]


def steps(read: Read, events: Events) -> tuple[Ends, Strays]:
    """One reader's steps. Positions are those in `read`."""
    at_ns, offset = read.at_ns, read.offset
    order = read.order()
    if order is not None:
        at_ns, offset = at_ns[order], offset[order]
    between = _assignments(events, at_ns)
    forward = np.diff(offset)
    odd = np.flatnonzero(forward != 1)
    odd = odd[between[odd + 1] == between[odd]] if not isinstance(between, int) else odd
    jumps, backs = odd[forward[odd] > 1] + 1, odd[forward[odd] <= 0] + 1
    unowned = _unowned(events, at_ns)
    found = jumps, offset[jumps - 1], backs, offset[backs - 1], unowned
    ends = [0, len(at_ns) - 1]
    assignments = (between, between) if isinstance(between, int) else (int(between[0]), int(between[-1]))
    if order is not None:
        found = order[jumps], found[1], order[backs], found[3], order[unowned]
        ends = [int(order[0]), int(order[-1])]
    return Ends(ends[0], ends[1], assignments), Strays(*found)


def _assignments(events: Events, at_ns: Ints) -> Ints | int:
    """How many changes of assignment came before each delivery; one number where none came between them."""
    first, last = np.searchsorted(events.changed_ns, at_ns[[0, -1]], side="right").tolist()
    return int(first) if first == last else _before(events.changed_ns, at_ns)


def _before(events_ns: Ints, at_ns: Ints) -> Ints:
    """How many events came before each time, or with it; the times are in order, and many more."""
    begin = np.searchsorted(at_ns, events_ns, side="left")
    return np.repeat(np.arange(len(events_ns) + 1), np.diff(begin, prepend=0, append=len(at_ns)))


def _unowned(events: Events, at_ns: Ints) -> npt.NDArray[np.intp]:
    """Deliveries while the partition was not the reader's own."""
    owns = np.concatenate([[False], events.owns])
    first, last = np.searchsorted(events.at_ns, at_ns[[0, -1]], side="right").tolist()
    if first == last:
        return np.arange(0 if owns[first] else len(at_ns))
    return np.flatnonzero(~owns[_before(events.at_ns, at_ns)])


def joined(stretches: Sequence[Steps]) -> list[tuple[Edge, Edge]] | None:
    """The steps of one reader from stretch to stretch, under one assignment; None where those overlap."""
    found = []
    in_order = sorted(stretches, key=lambda s: (s.first.moment, s.last.moment))
    for before, after in pairwise(in_order):
        last, first = before.last, after.first
        if last.moment > first.moment:
            return None
        if last.assignment == first.assignment:
            found.append((last, first))
    return found


def events_of(rows: Sequence[tuple[int, bool, bool]]) -> Events:
    """Of (at_ns, is a change of assignment, owns from then on), in order."""
    return Events(
        np.array([at for at, changed, _ in rows if changed], np.int64),
        np.array([at for at, _, _ in rows], np.int64),
        np.array([owns for _, _, owns in rows], bool),
    )
