"""Tracks which messages were sent, and to which partition.

A history may only contain reads of these: if a value is read that was not sent to that key, Jepsen's checker
aborts with :no-writer-of-value.
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
    """The identities of all messages, as stretches of seqs. `keys`: where messages sent to an unknown
    partition were found.
    """

    def __init__(self) -> None:
        self.keys: dict[tuple[int, int], int] = {}
        self._stretches: dict[int, Rows] = {}  # by producer: first and last seqs, in order
        self._unplaced = np.empty(0, np.int64)

    def add(self, producer: Rows, seq: Rows, unplaced: Mask) -> None:
        """Adds messages. `unplaced`: whether each was sent to an unknown partition."""
        for each in np.unique(producer).tolist():
            own = seq[producer == each]
            known = self._stretches.get(each, np.empty((2, 0), np.int64))
            self._stretches[each] = _merged(np.concatenate((known, np.stack((own, own))), axis=1))
        if unplaced.any():
            self._unplaced = np.union1d(self._unplaced, identity(producer[unplaced], seq[unplaced]))

    @property
    def all_placed(self) -> bool:
        """Whether the partition of every message is known."""
        return not len(self._unplaced)

    def found(self, producer: Rows, seq: Rows, key: Rows) -> dict[tuple[int, int], int]:
        """The lowest key of each of these messages that may have been sent to an unknown partition."""
        keys: dict[tuple[int, int], int] = {}
        for at, message in self._possibly_unplaced(producer, seq):
            keys[message] = min(keys.get(message, int(key[at])), int(key[at]))
        return keys

    def has(self, producer: Rows, seq: Rows, key: Rows) -> Mask:
        """Whether each message was sent; if its partition was unknown, only under the key found for it."""
        sent = np.zeros(len(seq), np.bool_)
        for each in np.unique(producer).tolist():
            if each in self._stretches:
                own = np.flatnonzero(producer == each)
                firsts, lasts = self._stretches[each]
                sent[own] = among(firsts, lasts, seq[own]) >= 0
        for at, message in self._possibly_unplaced(producer, seq):
            sent[at] &= self.keys.get(message, key[at]) == key[at]
        return sent

    def _possibly_unplaced(self, producer: Rows, seq: Rows) -> Iterator[tuple[int, tuple[int, int]]]:
        for at in np.flatnonzero(np.isin(identity(producer, seq), self._unplaced)).tolist():
            yield at, (int(producer[at]), int(seq[at]))


def _merged(stretches: Rows) -> Rows:
    """Sorts stretches and merges those that touch or overlap."""
    stretches = stretches[:, np.argsort(stretches[0], kind="stable")]
    firsts, reached = stretches[0], np.maximum.accumulate(stretches[1])
    before = np.concatenate(([NULL_LONG], reached[:-1]))
    begins = np.flatnonzero((before == NULL_LONG) | (firsts - 1 > before))
    return np.stack((firsts[begins], reached[np.append(begins[1:], len(firsts)) - 1]))
