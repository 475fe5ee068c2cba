"""Which messages were sent, and to which partition.

Only of these may a history say that they were read: where somebody reads a value that nobody sent to that
key, Jepsen's checker ends with :no-writer-of-value and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kaput.core import NULL_LONG
from kaput.export.columns import among, identity
from kaput.export.merging import Rows

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class SentIdentities:
    """Every message's identity, as stretches of seqs. `keys`: where messages turned up that were sent to no
    known partition."""

    def __init__(self) -> None:
        self.keys: dict[tuple[int, int], int] = {}
        self._stretches: dict[int, Rows] = {}  # by producer: first and last seqs, in order
        self._unplaced = np.empty(0, np.int64)

    def add(self, producer: Rows, seq: Rows, unplaced: Mask) -> None:
        """Some more; `unplaced`: which of them were sent to no known partition."""
        for each in np.unique(producer).tolist():
            own = seq[producer == each]
            known = self._stretches.get(each, np.empty((2, 0), np.int64))
            self._stretches[each] = _joined(np.concatenate((known, np.stack((own, own))), axis=1))
        if unplaced.any():
            self._unplaced = np.union1d(self._unplaced, identity(producer[unplaced], seq[unplaced]))

    @property
    def all_placed(self) -> bool:
        """Whether the partition of every message is known."""
        return not len(self._unplaced)

    def found(self, producer: Rows, seq: Rows, key: Rows) -> dict[tuple[int, int], int]:
        """Of these messages those that may have been sent to no known partition: the lowest key of each."""
        keys: dict[tuple[int, int], int] = {}
        for at, message in self._met(producer, seq):
            keys[message] = min(keys.get(message, int(key[at])), int(key[at]))
        return keys

    def has(self, producer: Rows, seq: Rows, key: Rows) -> Mask:
        """Which of these messages were sent, under that key as far as it was not known."""
        sent = np.zeros(len(seq), np.bool_)
        for each in np.unique(producer).tolist():
            if each in self._stretches:
                own = np.flatnonzero(producer == each)
                firsts, lasts = self._stretches[each]
                sent[own] = among(firsts, lasts, seq[own]) >= 0
        for at, message in self._met(producer, seq):
            sent[at] &= self.keys.get(message, key[at]) == key[at]
        return sent

    def _met(self, producer: Rows, seq: Rows) -> Iterator[tuple[int, tuple[int, int]]]:
        for at in np.flatnonzero(np.isin(identity(producer, seq), self._unplaced)).tolist():
            yield at, (int(producer[at]), int(seq[at]))


def _joined(stretches: Rows) -> Rows:
    """Stretches in order, those that touch or overlap as one."""
    stretches = stretches[:, np.argsort(stretches[0], kind="stable")]
    firsts, reached = stretches[0], np.maximum.accumulate(stretches[1])
    before = np.concatenate(([NULL_LONG], reached[:-1]))
    begins = np.flatnonzero((before == NULL_LONG) | (firsts - 1 > before))
    return np.stack((firsts[begins], reached[np.append(begins[1:], len(firsts)) - 1]))
