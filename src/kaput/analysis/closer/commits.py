"""Commits that passed a stored record which the group had not been handed by then.

The committed offsets of a group cut a partition into buckets. For each the engine knows how many records are
stored, how many deliveries there were and which came last: what was handed out again, and what the log does
not have, is taken off. Where that leaves something open that matters, the bucket's own rows are asked for.
In SQL: reference/commits.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.closer.found import SHOWN, Records
from kaput.analysis.closer.redelivery import Commits, Key
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Pile
from kaput.analysis.dense.scan import Questions, Zones, zones
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import Summary

NEVER = 2**63 - 1
_ALWAYS = -(2**63) + 1
_TELLING = 200_000  # offsets of a bucket that are looked through for a story
Flags = npt.NDArray[np.bool_]


class Ahead(NamedTuple):
    """One commit that was ahead. `passed`: the offset that was handed out last, or never."""

    grp: int
    place: int
    member: int
    offset: int
    at_ns: int
    passed: int | None


@dataclass
class Buckets:
    """A group's buckets in a place: bucket i is below `cuts[i]`, and not below the one before.

    `least_ns` and `most_ns`: bounds of when the last of its records was first handed out; `passed`: which.
    """

    cuts: Ints
    least_ns: Ints
    most_ns: Ints
    passed: dict[int, int] = field(default_factory=dict)

    def bounds(self, bucket: int) -> tuple[int, int]:
        """From which offset up to, and without, which."""
        return (int(self.cuts[bucket - 1]) if bucket else 0), int(self.cuts[bucket])


@dataclass(frozen=True)
class Again:
    """Offsets that a group was handed more than once in a place, in order: how often, and when first."""

    offset: Ints
    times: Ints
    first_ns: Ints


NOT_AGAIN = Again(*(np.empty(0, np.int64) for _ in range(3)))


def buckets(
    summary: Summary,
    cuts: Mapping[Key, Ints],
    first_positions: Mapping[Key, int],
    repeated: Mapping[Key, Again],
    records: Records,
) -> dict[Key, Buckets]:
    """What is known of every bucket."""
    found = {}
    strays = _not_stored(summary, records)
    for key, at in cuts.items():
        nothing = np.zeros(len(at) + 1, np.int64)
        stored = summary.logged.get(key, nothing)[:-1]
        handed, latest = summary.handed_out(key, len(at) + 1)
        again, stray = repeated.get(key, NOT_AGAIN), strays.get(key, np.empty(0, np.int64))
        missing = stored - (handed[:-1] - _counted(at, again.offset, again.times - 1) - _counted(at, stray))
        least, most, passed = _last_firsts(latest[:-1], again, stray, first_positions.get(key))
        for bucket in np.flatnonzero(missing > 0).tolist():
            # Which one is missing, its rows tell.
            least[bucket] = most[bucket] = NEVER
            passed.pop(bucket, None)
        found[key] = Buckets(at, least, most, passed)
        _exempt(found[key], first_positions.get(key), missing > 0)
    return found


def _last_firsts(
    latest: Ints, again: Again, stray: Ints, first_position: int | None
) -> tuple[Ints, Ints, dict[int, int]]:
    """When the last of each bucket's records was first handed out, between which bounds, and which it was."""
    times, offsets = latest[:, :, 0], latest[:, :, 1]
    known = times != NULL
    counts = known & ~np.isin(offsets, stray)
    if first_position is not None:
        counts &= offsets >= first_position
    if len(again.offset):
        where = np.minimum(np.searchsorted(again.offset, offsets), len(again.offset) - 1)
        counts &= (again.offset[where] != offsets) | (again.first_ns[where] == times)
    first = np.argmax(counts, axis=1)
    rows = np.arange(len(latest))
    sure = counts[rows, first]
    # None of those kept counts: the one that does came before the last of them, if there were more.
    more = known.all(axis=1)
    most = np.where(sure, times[rows, first], np.where(more, times[:, -1], _ALWAYS))
    least = np.where(sure, most, _ALWAYS)
    passed = {int(row): int(offsets[row, first[row]]) for row in rows[sure]}
    return least, most, passed


def _exempt(at: Buckets, first_position: int | None, missing: Flags) -> None:
    """What lies before the group's first position is not owed; of the bucket that it is in, a part."""
    if first_position is None:
        return
    before = at.cuts <= first_position
    at.least_ns[before] = at.most_ns[before] = _ALWAYS
    bucket = int(np.count_nonzero(before))
    if first_position > 0 and bucket < len(at.cuts) and missing[bucket]:
        at.least_ns[bucket] = _ALWAYS


def _counted(cuts: Ints, offsets: Ints, times: Ints | None = None) -> Ints:
    """How many of the offsets are in each bucket, each as often as it is said to be."""
    found = np.bincount(np.searchsorted(cuts, offsets, side="right"), times, minlength=len(cuts) + 1)
    return found[: len(cuts)].astype(np.int64)


def _not_stored(summary: Summary, records: Records) -> dict[Key, Ints]:
    """Offsets from which a group was handed something that the log does not have, each once."""
    claims, nameless = summary.piles["claims"], summary.piles["nameless"]
    group = np.concatenate([claims["source"], nameless["grp"]])
    place = np.concatenate([claims["place"], nameless["place"]])
    offset = np.concatenate([claims["offset"], nameless["offset"]])
    found = {}
    for (grp, at), rows in grouped(group, place):
        if grp >= 0:
            offsets = np.unique(offset[rows])
            found[grp, at] = offsets[~records.at(at, offsets)[0]]
    return found


def open_questions(known: Mapping[Key, Buckets], commits: Commits) -> Questions:
    """The rows of the buckets that decide about a commit and are not known well enough, or tell its story."""
    asked: dict[Key, set[int]] = {}
    told: dict[int, list[tuple[int, int, int, int]]] = {}
    for key, at in known.items():
        least, most = np.maximum.accumulate(at.least_ns), np.maximum.accumulate(at.most_ns)
        for offset, at_ns, _ in commits[key]:
            bucket = int(np.searchsorted(at.cuts, offset))
            if least[bucket] > at_ns:
                culprit = _culprit(at, bucket)
                told.setdefault(key[0], []).append((key[1], offset, at_ns, culprit))
            elif most[bucket] > at_ns:
                unsure = at.most_ns[: bucket + 1] > np.maximum(at.least_ns[: bucket + 1], at_ns)
                asked.setdefault(key, set()).update(np.flatnonzero(unsure).tolist())
    for group, found in told.items():
        for place, _, _, culprit in sorted(found)[:SHOWN]:
            low, high = known[group, place].bounds(culprit)
            if culprit not in known[group, place].passed and high - low <= _TELLING:
                asked.setdefault((group, place), set()).add(culprit)
    handed = {key: _zones(known[key], wanted) for key, wanted in asked.items()}
    log: dict[int, list[Zones]] = {}
    for (_, place), zone in handed.items():
        log.setdefault(place, []).append(zone)
    merged = {
        place: zones(np.concatenate([z.starts for z in found]), np.concatenate([z.ends for z in found]))
        for place, found in log.items()
    }
    return Questions(log=merged, deliveries=handed)


def _culprit(at: Buckets, bucket: int) -> int:
    """Of the buckets up to this one, that whose records were handed out last."""
    least = at.least_ns[: bucket + 1]
    return int(np.flatnonzero(least == least.max())[-1])


def _zones(at: Buckets, wanted: set[int]) -> Zones:
    bounds = [at.bounds(bucket) for bucket in sorted(wanted)]
    return zones(*(np.array(side, np.int64) for side in zip(*bounds, strict=True)))


def settle(
    known: Mapping[Key, Buckets],
    asked: Questions,
    handed: Pile,
    records: Records,
    first_positions: Mapping[Key, int],
) -> None:
    """Narrows the bounds of the buckets that were asked for to what their rows say."""
    by_key = {(g, p): rows for (g, p), rows in grouped(handed["grp"], handed["place"])}
    for key, zone in asked.deliveries.items():
        at = known[key]
        stored = records.offsets(key[1])
        stored = stored[zone.hold(stored) & (stored >= first_positions.get(key, 0))]
        rows = by_key.get(key, slice(0, 0))
        first_ns = _first_ns(stored, handed["offset"][rows], handed["at_ns"][rows])
        bucket = np.searchsorted(at.cuts, stored, side="right")
        for number in _within(at, zone):
            mine = bucket == number
            times = first_ns[mine]
            latest = int(times.max()) if len(times) else _ALWAYS
            at.least_ns[number] = at.most_ns[number] = latest
            if len(times):
                at.passed[number] = int(stored[mine][np.flatnonzero(times == latest)[-1]])


def _within(at: Buckets, zone: Zones) -> npt.NDArray[np.intp]:
    lows = np.concatenate([[0], at.cuts[:-1]])
    return np.flatnonzero(zone.hold(lows) & (lows < at.cuts))


def _first_ns(stored: Ints, offsets: Ints, at_ns: Ints) -> Ints:
    """When each stored offset was first handed out."""
    order = np.lexsort((at_ns, offsets))
    known, first = np.unique(offsets[order], return_index=True)
    if len(known) == 0:
        return np.full(len(stored), NEVER)
    where = np.minimum(np.searchsorted(known, stored), len(known) - 1)
    return np.where(known[where] == stored, at_ns[order][first][where], NEVER)


def ahead(known: Mapping[Key, Buckets], commits: Commits) -> Iterator[Ahead]:
    """The commits that were ahead."""
    for key, at in known.items():
        greatest = np.maximum.accumulate(at.least_ns)
        for offset, at_ns, member in commits[key]:
            bucket = int(np.searchsorted(at.cuts, offset))
            if greatest[bucket] > at_ns:
                culprit = _culprit(at, bucket)
                yield Ahead(*key, member, offset, at_ns, at.passed.get(culprit))
