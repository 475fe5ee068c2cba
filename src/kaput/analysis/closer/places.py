"""Offsets under more than one name, and damaged ones. In SQL: reference/offsets.py."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.closer.causes import RESTARTED, UNCLEAN, UNEXPLAINED
from kaput.analysis.closer.found import SHOWN
from kaput.analysis.closer.losses import Explained
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Pile, Piles
from kaput.scenario.vocabulary import CAUSES
from kaput.verdict.facts import Circumstances

_IDENTITY = ("place", "offset", "producer", "seq")


class DisplacedRow(NamedTuple):
    """Inconsistent offsets of one place, by the acknowledgement that is not borne out there."""

    place: int
    producer: int | None
    cause: str | None
    known: Circumstances | None
    places: int


def inconsistent(suspects: Piles, log: Pile) -> dict[str, Ints]:
    """Offsets with more than one identity, with the least and the greatest of them.

    Two identities at one offset: of one of them at least, not all claims agree. So every such offset is among
    those that suspects claim; who else stands there, the log tells.
    """
    place, offset, producer, seq = _identities(suspects, log)
    low = _starts(place, offset)
    high = np.append(low[1:], len(place))[: len(low)] - 1
    several = (producer[low] != producer[high]) | (seq[low] != seq[high])
    low, high = low[several], high[several]
    others = {"other_producer": producer[high], "other_seq": seq[high]}
    return {"place": place[low], "offset": offset[low], "producer": producer[low], "seq": seq[low], **others}


def corrupt(suspects: Piles, log: Pile) -> dict[str, Ints]:
    """Damaged offsets; of the first ones also the least identity that is claimed there, if any is."""
    broken = suspects["broken"]
    order = np.lexsort((broken["offset"], broken["place"]))
    place, offset = broken["place"][order], broken["offset"][order]
    starts = _starts(place, offset)
    place, offset = place[starts], offset[starts]
    who = [np.full(len(place), NULL, np.int64) for _ in range(2)]
    places, offsets, *claimed = _identities(suspects, log)
    for row in range(min(SHOWN, len(place))):
        at = np.flatnonzero((places == place[row]) & (offsets == offset[row]))
        for column, values in zip(who, claimed, strict=True):
            column[row] = values[at[0]] if len(at) else NULL
    return {"place": place, "offset": offset, "producer": who[0], "seq": who[1]}


def _identities(suspects: Piles, log: Pile) -> list[Ints]:
    """Who is said to be where, by claims in doubt and the log: place, offset, producer, seq, in order."""
    named, claims = log["producer"] != NULL, suspects["claims"]
    columns = [np.concatenate([claims[name], log[name][named]]) for name in _IDENTITY]
    order = np.lexsort(columns[::-1])
    return [column[order] for column in columns]


def _starts(place: Ints, offset: Ints) -> npt.NDArray[np.intp]:
    if len(place) == 0:
        return np.empty(0, np.intp)
    new = np.ones(len(place), bool)
    new[1:] = (place[1:] != place[:-1]) | (offset[1:] != offset[:-1])
    return np.flatnonzero(new)


def displaced(doubted: dict[str, Ints], explained: Explained) -> list[DisplacedRow]:
    """Inconsistent offsets by the cause of the acknowledgement there: the least explained one counts."""
    why: dict[tuple[int, int], tuple[Any, ...]] = {}
    wanted = set(zip(doubted["place"].tolist(), doubted["offset"].tolist(), strict=True))
    rank = {UNEXPLAINED: 0, RESTARTED: 1, UNCLEAN: 2}
    columns = [explained.rows[name] for name in ("place", "offset", "producer")]
    columns.append(explained.cause)
    flags_of = zip(*(flags.tolist() for flags in explained.known.values()), strict=True)
    rows_of = zip(*(c.tolist() for c in columns), strict=True)
    for (place, offset, producer, cause), flags in zip(rows_of, flags_of, strict=True):
        if (place, offset) in wanted:
            found = rank.get(cause, 3), producer, CAUSES[cause], Circumstances(*flags)
            why[place, offset] = min(why.get((place, offset), found), found)
    counts = Counter((at[0], why.get(at, (None,) * 4)[1:]) for at in wanted)
    rows = [(place, *reason, times) for (place, reason), times in counts.items()]
    return [DisplacedRow._make(row) for row in rows]
