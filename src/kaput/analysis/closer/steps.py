"""Jumps, steps back and deliveries that nobody owned. In SQL: reference/groups.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kaput.analysis.closer.found import Records
from kaput.analysis.closer.full import NotSettled
from kaput.analysis.dense.numbers import Ints
from kaput.analysis.dense.pile import Pile
from kaput.analysis.dense.readers import Edge, Reader, Steps, joined
from kaput.analysis.dense.scan import Zones, zones
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import BACK, JUMP, UNOWNED, Run

Flags = npt.NDArray[np.bool_]
_COLUMNS = ("grp", "member", "place", "offset", "producer", "seq", "at_ns")
NAMES = {JUMP: "poll-skip", BACK: "nonmonotonic-poll", UNOWNED: "unassigned-delivery"}


def with_joints(pile: Pile, stretches: Mapping[Reader, Sequence[Steps]]) -> Pile:
    """The steps within stretches and those between them. Raises NotSettled where stretches overlap."""
    every = Pile()
    every.add(pile)
    for reader, found in stretches.items():
        steps = joined(found)
        if steps is None:
            raise NotSettled("deliveries of one member overlap in time")
        for before, after in steps:
            if after.offset > before.offset + 1:
                _put(every, JUMP, reader, before, after)
            elif after.offset <= before.offset:
                _put(every, BACK, reader, before, after)
    return every


def _put(pile: Pile, kind: int, reader: Reader, before: Edge, after: Edge) -> None:
    pile.put(
        kind=np.array([kind]),
        grp=reader[0],
        member=reader[1],
        place=reader[2],
        offset=after.offset,
        producer=after.producer,
        seq=after.seq,
        at_ns=after.at_ns,
        before=before.offset,
    )


def holes(pile: Pile, runs: Mapping[int, Sequence[Run]]) -> dict[int, Zones]:
    """By place, where jumps passed offsets that may have a record or not, as far as is known."""
    asked = {}
    for place, rows in _jumps(pile):
        open_ = ~_over_records(pile["before"][rows], pile["offset"][rows], runs.get(place, ()))
        if open_.any():
            asked[place] = zones(pile["before"][rows][open_] + 1, pile["offset"][rows][open_])
    return asked


def skips(pile: Pile, runs: Mapping[int, Sequence[Run]], records: Records) -> Flags:
    """Which jumps passed a record; of rows that are no jumps: all."""
    kept = np.ones(pile.rows, bool)
    for place, rows in _jumps(pile):
        before, after = pile["before"][rows], pile["offset"][rows]
        known = records.offsets(place)
        between = np.searchsorted(known, after, side="left") > np.searchsorted(known, before, side="right")
        kept[rows] = between | _over_records(before, after, runs.get(place, ()))
    return kept


def _jumps(pile: Pile) -> list[tuple[int, Ints]]:
    jumps = np.flatnonzero(pile["kind"] == JUMP)
    return [(place, jumps[rows]) for (place,), rows in grouped(pile["place"][jumps])]


def _over_records(before: Ints, after: Ints, runs: Sequence[Run]) -> Flags:
    """Whether a run of the log without holes has an offset strictly between."""
    over = np.zeros(len(before), bool)
    for run in runs:
        if run.rising and run.size == run.high - run.low + 1:
            over |= (run.high > before) & (run.low < after)
    return over


def rows_of(pile: Pile, kind: int, kept: Flags) -> dict[str, Ints]:
    """The rows of one kind as columns."""
    rows = np.flatnonzero((pile["kind"] == kind) & kept)
    columns = {name: pile[name][rows] for name in _COLUMNS}
    columns["other_offset"] = pile["before"][rows]
    return columns
