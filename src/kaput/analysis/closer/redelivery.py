"""Offsets that a group was handed more than once. In SQL: reference/commits.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kaput.analysis.dense.numbers import Ints
from kaput.analysis.dense.pile import Pile
from kaput.analysis.dense.scan import Zones, zones
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import Run

Key = tuple[int, int]  # group, place
Commits = Mapping[Key, Sequence[tuple[int, int, int]]]  # (offset, at_ns, member), by offset


def overlaps(runs: Sequence[Run]) -> Zones | None:
    """Where runs of offsets lie over one another, None where nowhere."""
    starts, ends = [], []
    reached: int | None = None
    for run in sorted(runs):
        # A run that does not rise may hold any of its offsets twice by itself.
        end = run.high if not run.rising else run.low - 1 if reached is None else min(run.high, reached)
        if end >= run.low:
            starts.append(run.low)
            ends.append(end + 1)
        reached = run.high if reached is None else max(reached, run.high)
    return zones(np.array(starts, np.int64), np.array(ends, np.int64)) if starts else None


def redelivered(handed: Pile, asked: Mapping[Key, Zones], commits: Commits) -> dict[str, Ints]:
    """One row an offset: times, when first and last, whose then; flag: once more after its commit."""
    found: dict[str, list[Ints]] = {name: [] for name in _COLUMNS}
    for key, rows in grouped(handed["grp"], handed["place"]):
        zone = asked.get((key[0], key[1]))
        if zone is None:
            continue
        offset, at_ns = handed["offset"][rows], handed["at_ns"][rows]
        producer, seq = handed["producer"][rows], handed["seq"][rows]
        order = np.lexsort((seq, producer, at_ns, offset))
        inside = order[zone.hold(offset[order])]
        last, times = _last_of_each(offset[inside])
        twice = times > 1
        at = inside[last[twice]]
        committed = _committed_above(offset[at], commits.get((key[0], key[1]), ()))
        columns = {
            "grp": np.full(len(at), key[0]),
            "place": np.full(len(at), key[1]),
            "offset": offset[at],
            "producer": producer[at],
            "seq": seq[at],
            "at_ns": at_ns[at],
            "first_ns": at_ns[inside[last[twice] - times[twice] + 1]],
            "times": times[twice],
            "flag": (at_ns[at] > committed).astype(np.int64),
        }
        for name in _COLUMNS:
            found[name].append(columns[name])
    return {name: np.concatenate([np.empty(0, np.int64), *parts]) for name, parts in found.items()}


_COLUMNS = ("grp", "place", "offset", "producer", "seq", "at_ns", "first_ns", "times", "flag")


def _last_of_each(offsets: Ints) -> tuple[Ints, Ints]:
    """The last position and the number of each offset, which are in order."""
    ends = np.flatnonzero(np.concatenate([offsets[1:] != offsets[:-1], np.ones(min(1, len(offsets)), bool)]))
    return ends, np.diff(np.concatenate([[-1], ends]))


def _committed_above(offsets: Ints, commits: Sequence[tuple[int, int, int]]) -> Ints:
    """When first an offset above each was committed; never: the end of time."""
    earliest = [2**63 - 1]
    for _, at_ns, _ in reversed(commits):
        earliest.append(min(earliest[-1], at_ns))
    known = np.array(earliest[::-1], np.int64)
    return known[np.searchsorted(np.array([offset for offset, _, _ in commits]), offsets, side="right")]
