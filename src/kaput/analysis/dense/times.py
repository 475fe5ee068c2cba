"""How often each message comes up, counted to two, and packed for a shuffle.

Rows of consecutive messages are counted by their first and last alone: in a log, batches of a producer follow
one another, and chunks of which every message is there once become one stretch. Where rows come in no order,
a chunk has a byte for each of its messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.numbers import MANY, Ints
from kaput.analysis.dense.pack import pack, unpack
from kaput.analysis.dense.split import grouped

DENSE_BITS = 20  # wider chunks have no byte for each of their messages
_LEAST_RUN = 4  # rows in a run, on average, from which on runs are counted and not rows
_THIN = 64  # a chunk with fewer rows than one for so many places gets no bytes
_CELLS = 4096  # so many chunks may be told apart, used or not, however few the rows are
_BLOCK = 1 << 16  # rows that stay in a core's cache
_MOST_ADDED = 100  # times of at most MANY fit into a byte
_FEW_EDGES = 24
_EXCEPTION_BITS = 16  # about what a place and its times take, packed
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
Key = tuple[int, int, int]  # (source, producer, chunk)


class Runs(NamedTuple):
    """Rows whose messages follow one another: the first row of each run, its producer, seq and length."""

    row: Ints
    producer: Ints
    seq: Ints
    length: Ints


class Packed(NamedTuple):
    """Times in a chunk. By `edges` (places, packed) and the times from each on, 0 before the first;
    or, where there are `bits`, one for each place, `edges` and `times` are those of the exceptions.
    """

    bits: bytes
    edges: bytes
    times: bytes


def runs(producer: Column, seq: Column, named: Flags) -> Runs:
    """The runs among some rows; rows that are not `named` are in none."""
    count = len(seq)
    if count == 0:
        return Runs(*(np.empty(0, np.int64) for _ in Runs._fields))
    breaks = np.empty(count, bool)
    breaks[0] = True
    alone = producer.strides[0] == 0
    for start in range(1, count, _BLOCK):
        end = min(count, start + _BLOCK)
        here, before = slice(start, end), slice(start - 1, end - 1)
        np.not_equal(seq[here] - seq[before], 1, out=breaks[here])
        if not alone:
            breaks[here] |= producer[here] != producer[before]
    strange = None if named.strides[0] == 0 and named[0] else np.flatnonzero(~named)
    if strange is not None and len(strange):
        breaks[strange] = True
        breaks[np.minimum(strange + 1, count - 1)] = True
    row = np.flatnonzero(breaks)
    length = np.diff(row, append=count)
    if strange is not None and len(strange):
        # What is not named is a run of one row each, by the breaks before and after it.
        there = named[row]
        row, length = row[there], length[there]
    return Runs(row, producer[row].astype(np.int64), seq[row].astype(np.int64), length)


def split(found: Runs, bits: int) -> Runs:
    """The runs cut where a chunk ends."""
    chunks = found.seq >> bits
    pieces = ((found.seq + found.length - 1) >> bits) - chunks + 1
    if len(pieces) == 0 or int(pieces.max()) == 1:
        return found
    whole = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(whole)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begun, over = found.seq[whole], (found.seq + found.length)[whole]
    seq = np.where(number == 0, begun, (chunks[whole] + number) << bits)
    # Lengths, and not ends, which the greatest numbers do not have.
    length = np.minimum(over - seq, ((chunks[whole] + number + 1) << bits) - seq)
    return Runs(found.row[whole] + seq - begun, found.producer[whole], seq, length)


@dataclass
class Times:
    """Times by source and chunk. `room`: about how many bytes are held."""

    bits: int
    edges: dict[Key, list[tuple[Ints, Ints]]] = field(default_factory=dict)  # first places, and those after
    whole: dict[Key, Bytes] = field(default_factory=dict)
    room: int = 0

    def count(self, source: int, producer: Column, seq: Column, named: Flags) -> None:
        """Counts the messages of some rows, without those that are not `named`."""
        found = runs(producer, seq, named)
        if len(found.row) * _LEAST_RUN <= len(seq) or self.bits > DENSE_BITS:
            self._runs(source, split(found, self.bits))
        else:
            rows = np.flatnonzero(named)
            self._rows(source, producer[rows].astype(np.int64), seq[rows].astype(np.int64))

    def _runs(self, source: int, found: Runs) -> None:
        first = found.seq & ((1 << self.bits) - 1)
        for (who, chunk), rows in grouped(found.producer, found.seq >> self.bits):
            begun = first[rows]
            self.edges.setdefault((source, who, chunk), []).append((begun, begun + found.length[rows]))
        self.room += 16 * len(first)

    def _rows(self, source: int, producer: Ints, seq: Ints) -> None:
        """Rows in no order: bytes for the chunks that have many of them."""
        chunks = seq >> self.bits
        low, first = int(producer.min()), int(chunks.min())
        width = int(chunks.max()) - first + 1
        cells = width * (int(producer.max()) - low + 1)
        if cells > max(_CELLS, len(seq)):
            self._alone(source, producer, seq)
            return
        cell = (producer - low) * width + chunks - first
        thick = np.bincount(cell, minlength=cells) >= (1 << self.bits) // _THIN
        which = np.flatnonzero(thick)
        # The rows of other chunks go to a place for waste: nothing needs to be moved.
        slot = np.full(cells, len(which) << self.bits)
        slot[which] = np.arange(len(which)) << self.bits
        code = slot[cell]
        code += seq & ((1 << self.bits) - 1)
        counts = np.bincount(code, minlength=len(which) << self.bits)
        times = np.minimum(counts[: len(which) << self.bits], MANY).astype(np.uint8)
        for number, at in enumerate(which.tolist()):
            key = source, low + at // width, first + at % width
            self._add(key, times[number << self.bits : (number + 1) << self.bits])
        if not thick.all():
            rest = np.flatnonzero(~thick[cell])
            self._alone(source, producer[rest], seq[rest])

    def _alone(self, source: int, producer: Ints, seq: Ints) -> None:
        self._runs(source, Runs(np.arange(len(seq)), producer, seq, np.ones(len(seq), np.int64)))

    def _add(self, key: Key, times: Bytes) -> None:
        if key in self.whole:
            whole = self.whole[key]
            whole += times
            np.minimum(whole, MANY, out=whole)
        else:
            self.whole[key] = times.copy()
            self.room += len(times)

    def take(self) -> Iterator[tuple[Key, Packed]]:
        """All that is held, packed; nothing is afterwards."""
        for key, pieces in self.edges.items():
            edges, times = _covered(*(np.concatenate(ends) for ends in zip(*pieces, strict=True)))
            yield key, Packed(b"", pack((edges,)), times.tobytes())
        for key, whole in self.whole.items():
            yield key, _packed(whole)
        self.edges, self.whole, self.room = {}, {}, 0


def _covered(first: Ints, after: Ints) -> tuple[Ints, Bytes]:
    """How many of some stretches lie over each place: the places where that changes, and to what."""
    first, after = np.sort(first, kind="stable"), np.sort(after, kind="stable")
    if (first[1:] >= after[:-1]).all():
        apart = np.flatnonzero(first[1:] != after[:-1])
        edges = np.empty(2 * len(apart) + 2, np.int64)
        edges[0], edges[-1] = first[0], after[-1]
        edges[1:-1:2], edges[2::2] = after[apart], first[apart + 1]
        return edges, np.tile(np.array([1, 0], np.uint8), len(apart) + 1)
    edges = np.sort(np.concatenate([first, after]), kind="stable")
    edges = edges[np.append(True, edges[1:] != edges[:-1])]
    step = np.bincount(np.searchsorted(edges, first), minlength=len(edges))
    step -= np.bincount(np.searchsorted(edges, after), minlength=len(edges))
    times = np.minimum(np.cumsum(step), MANY)
    changed = np.flatnonzero(np.diff(times, prepend=0))
    return edges[changed], times[changed].astype(np.uint8)


def _packed(whole: Bytes) -> Packed:
    """A bit for each place and the exceptions, or edges where those are few."""
    changed = np.flatnonzero(whole[1:] != whole[:-1]) + 1
    if len(changed) * _EXCEPTION_BITS < len(whole):
        edges = np.concatenate([[0], changed])
        return Packed(b"", pack((edges,)), whole[edges].tobytes())
    other = np.flatnonzero(whole > 1)
    return Packed(np.packbits(whole != 0).tobytes(), pack((other,)), whole[other].tobytes())


def laid(packed: list[Packed], size: int) -> Bytes:
    """The times of every place of a chunk."""
    total = np.zeros(size, np.uint8)
    for number, piece in enumerate(packed, 1):
        (edges,) = unpack([piece.edges], 1)
        times = np.frombuffer(piece.times, np.uint8)
        if piece.bits:
            whole = np.unpackbits(np.frombuffer(piece.bits, np.uint8), count=size)
            whole[edges] = times
            total += whole
        elif len(edges) <= _FEW_EDGES:
            places = [*edges.tolist(), size]
            for first, after, many in zip(places[:-1], places[1:], times.tolist(), strict=True):
                if many:
                    total[first:after] += np.uint8(many)
        else:
            total[int(edges[0]) :] += np.repeat(times, np.diff(edges, append=size))
        if number % _MOST_ADDED == 0:
            np.minimum(total, MANY, out=total)
    return np.minimum(total, MANY, out=total) if len(packed) > 1 else total


def found_at(packed: list[Packed], known: Ints) -> Bytes:
    """The times of some places alone, in a chunk that is too wide for bytes."""
    total = np.zeros(len(known), np.uint8)
    for piece in packed:
        (edges,) = unpack([piece.edges], 1)
        times = np.concatenate([np.zeros(1, np.uint8), np.frombuffer(piece.times, np.uint8)])
        total += times[np.searchsorted(edges, known, side="right")]
        np.minimum(total, MANY, out=total)
    return total
