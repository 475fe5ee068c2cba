"""Which rows lie in zones of offsets: in one pass, as offsets of a place mostly rise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kaput.analysis.dense.compiled import INTS, compiled
from kaput.analysis.dense.counting import first_above
from kaput.analysis.dense.numbers import Ints

if TYPE_CHECKING:
    from kaput.analysis.dense.scan import Zones


def held(place: Ints, offset: Ints, zones: Mapping[int, Zones]) -> Ints:
    """The rows that lie in a zone of their place."""
    keys = np.array(sorted(zones), np.int64)
    parts = [zones[key] for key in keys.tolist()]
    bounds = np.cumsum([0, *(len(part.starts) for part in parts)])
    starts, ends = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    return _held(np.ascontiguousarray(place), np.ascontiguousarray(offset), keys, bounds, starts, ends)


@compiled(INTS, INTS, INTS, INTS, INTS, INTS)
def _held(place: Ints, offset: Ints, keys: Ints, bounds: Ints, starts: Ints, ends: Ints) -> Ints:
    found, count, key = np.empty(len(offset), np.int64), 0, 0
    zone = bounds[:-1].copy()  # of each key the first one that ends above the offset before
    for row in range(len(offset)):
        if keys[key] != place[row]:
            other = first_above(keys, 0, len(keys), place[row]) - 1
            if other < 0 or keys[other] != place[row]:
                continue
            key = other
        at, first, last = zone[key], bounds[key], bounds[key + 1]
        if (at > first and ends[at - 1] > offset[row]) or (at < last and ends[at] <= offset[row]):
            at = zone[key] = first_above(ends, first, last, offset[row])
        if at < last and starts[at] <= offset[row]:
            found[count] = row
            count += 1
    return found[:count].copy()
