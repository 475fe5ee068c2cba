"""Rows in the order of small numbers, by counting those: each row is moved once, wherever it stood."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.compiled import INT, INTS, compiled
from kaput.analysis.dense.numbers import Ints


@compiled(INTS, INT)
def order(code: Ints, size: int) -> tuple[npt.NDArray[np.intp], Ints]:
    """Positions in the order of the codes, which are at least 0 and less than `size`, stable; and where in
    that order each code begins that is there.
    """
    ends = np.zeros(size + 1, np.int64)
    for row in range(len(code)):
        ends[code[row] + 1] += 1
    starts, found = np.empty(size, np.int64), 0
    for cell in range(size):
        if ends[cell + 1]:
            starts[found] = ends[cell]
            found += 1
        ends[cell + 1] += ends[cell]
    positions = np.empty(len(code), np.int64)
    for row in range(len(code)):
        cell = code[row]
        positions[ends[cell]] = row
        ends[cell] += 1
    return positions, starts[:found].copy()


@compiled(INTS, INT, INT, INT)
def first_above(values: Ints, first: int, last: int, value: int) -> int:
    """The first place from `first` on, before `last`, whose value is above; else `last`."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] > value:
            last = middle
        else:
            first = middle + 1
    return first
