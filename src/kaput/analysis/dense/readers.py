"""What each member read of each partition, step by step: jumps, steps back, deliveries it did not own.

A stretch of deliveries is judged by itself; its first and last rows are kept, so that the driver can judge
the steps between stretches (`joined`). A stretch whose times overlap another's says that steps must be
laid in order first: None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.pack import Ints

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
    """A row at an end of a stretch: when, where it stands in the table, its offset, assignments before it."""

    at_ns: int
    file: str
    row: int
    offset: int
    assignment: int
    producer: int
    seq: int


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
    row: Ints
    producer: Ints
    seq: Ints


def steps(read: Read, file: str, events: Events) -> tuple[Steps, Strays]:
    """One reader's steps. Positions of strays are those in `read`."""
    at_ns, offset = read.at_ns, read.offset
    order = None
    if (at_ns[1:] < at_ns[:-1]).any():
        order = np.argsort(at_ns, kind="stable")
        at_ns, offset = at_ns[order], offset[order]
    assignment = np.searchsorted(events.changed_ns, at_ns, side="right")
    same = assignment[1:] == assignment[:-1]
    forward = np.diff(offset)
    jumps = np.flatnonzero(same & (forward > 1)) + 1
    backs = np.flatnonzero(same & (forward <= 0)) + 1
    known = np.searchsorted(events.at_ns, at_ns, side="right")
    unowned = np.flatnonzero(~((known > 0) & np.concatenate([events.owns, [False]])[known - 1]))
    found = jumps, offset[jumps - 1], backs, offset[backs - 1], unowned
    if order is not None:
        found = order[jumps], found[1], order[backs], found[3], order[unowned]
    ends = [0, len(at_ns) - 1] if order is None else [int(order[0]), int(order[-1])]
    first, last = (_edge(read, file, end, int(assignment[i])) for end, i in zip(ends, (0, -1), strict=True))
    return Steps(first, last), Strays(*found)


def _edge(read: Read, file: str, at: int, assignment: int) -> Edge:
    return Edge(
        int(read.at_ns[at]),
        file,
        int(read.row[at]),
        int(read.offset[at]),
        assignment,
        int(read.producer[at]),
        int(read.seq[at]),
    )


def joined(stretches: Sequence[Steps]) -> list[tuple[Edge, Edge]] | None:
    """The steps of one reader from stretch to stretch, under one assignment; None where those overlap."""
    found = []
    in_order = sorted(stretches, key=lambda s: (s.first.at_ns, s.first.file, s.first.row))
    for before, after in pairwise(in_order):
        last, first = before.last, after.first
        if (last.at_ns, last.file, last.row) > (first.at_ns, first.file, first.row):
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


def by_reader(known: Mapping[Reader, Events], reader: Reader) -> Events:
    """A reader's events, or none."""
    return known.get(reader, NO_EVENTS)
