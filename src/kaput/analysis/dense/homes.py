"""Where each chunk of messages is laid together, and who reads its sends.

Sends are most of what there is to know of a message, and a producer writes them in the order of seq. Where
the evidence keeps that order, a reducing task owns a stretch of a producer's messages and reads their row
groups by itself; only what the log and the groups hold is shuffled. Elsewhere sends are shuffled as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaput.analysis.dense.work import Unit

Key = tuple[int, int]  # (producer, chunk)
_READ_AGAIN = 1.5  # so many times the rows may be read, because row groups lie across tasks, before it hurts
_FOREVER = 2**62
END: Key = (_FOREVER, 0)  # after every key


class Box(NamedTuple):
    """A row group of sends: its producer, and its least and greatest seq."""

    unit: Unit
    producer: int
    low: int
    high: int


class Own(NamedTuple):
    """A row group of sends that a reducing task reads. `safe`: no later one holds a key below it."""

    unit: Unit
    safe: Key


@dataclass(frozen=True)
class Homes:
    """`parts`: reducing tasks; `stretches`: by producer, first chunks and their parts, both ascending.

    `own`: by part, the sends it reads in the order of (producer, seq); empty where sends are shuffled.
    """

    parts: int
    stretches: Mapping[int, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)
    own: Sequence[Sequence[Own]] = ()

    def part(self, producer: int, chunk: int) -> int:
        """The reducing task of a chunk. Messages of nobody known go anywhere, but always to the same."""
        stretch = self.stretches.get(producer)
        if stretch is None:
            return (producer * 0x9E3779B1 + chunk) % self.parts
        starts, parts = stretch
        return parts[max(0, bisect_right(starts, chunk) - 1)]

    def stretch(self, producer: int, part: int) -> tuple[int, int]:
        """The first chunk of a producer that a part has, and the one after its last."""
        starts, parts = self.stretches[producer]
        first = parts.index(part)
        after = starts[first + 1] if first + 1 < len(starts) else _FOREVER
        return (starts[first] if first else -_FOREVER), after


def homes(boxes: Sequence[Box], bits: int, parts: int) -> Homes:
    """Stretches of about equally many messages for each part; without boxes, sends are to be shuffled."""
    if not boxes:
        return Homes(parts)
    boxes = sorted(boxes, key=lambda box: (box.producer, box.low))
    found = Homes(parts, _stretches(boxes, bits, parts))
    own: list[list[Box]] = [[] for _ in range(parts)]
    for box in boxes:
        for part in _parts(found, box, bits):
            own[part].append(box)
    rows = sum(box.unit.rows for box in boxes)
    if sum(box.unit.rows for mine in own for box in mine) > _READ_AGAIN * rows:
        return Homes(parts)
    return Homes(parts, found.stretches, [list(_owned(mine, bits)) for mine in own])


def _stretches(boxes: Sequence[Box], bits: int, parts: int) -> dict[int, tuple[list[int], list[int]]]:
    share = sum(box.unit.rows for box in boxes) / parts
    found: dict[int, tuple[list[int], list[int]]] = {}
    before = 0
    for box in boxes:
        # A row group larger than a share is cut along its seqs, as if they were evenly spread.
        pieces = max(1, round(box.unit.rows / share))
        for piece in range(pieces):
            part = min(parts - 1, int((before + piece * box.unit.rows / pieces) / share))
            chunk = (box.low + piece * (box.high - box.low + 1) // pieces) >> bits
            starts, of = found.setdefault(box.producer, ([], []))
            if starts and starts[-1] == chunk:
                continue
            if not of or of[-1] != part:
                starts.append(chunk)
                of.append(part)
        before += box.unit.rows
    return found


def _parts(known: Homes, box: Box, bits: int) -> Iterator[int]:
    """The parts with messages of a row group."""
    starts, parts = known.stretches[box.producer]
    first = max(0, bisect_right(starts, box.low >> bits) - 1)
    last = max(0, bisect_right(starts, box.high >> bits) - 1)
    yield from parts[first : last + 1]


def _owned(boxes: Sequence[Box], bits: int) -> Iterator[Own]:
    safe, found = END, []
    for box in reversed(boxes):
        found.append(Own(box.unit, safe))
        safe = min(safe, (box.producer, box.low >> bits))
    yield from reversed(found)
