"""What concerns no single message, summed: by task, then over tasks, then on the driver.

Each part is a sum, a least or a greatest of others of its kind, so that the order of tasks does not matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kaput.analysis.dense.histogram import Histogram
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.pile import Piles
from kaput.analysis.dense.readers import Reader, Steps
from kaput.analysis.dense.streams import Stretch

Stream = tuple[int, int]  # producer, place
SHOWN = 10  # examples of each kind
LATEST = 8  # deliveries kept of each bucket between commits
JUMP, BACK, UNOWNED = range(3)  # kinds of steps
RATES = ("attempted", "acked", "failed", "unknown", "delivered")


class Run(NamedTuple):
    """Offsets of a partition in a stretch of rows: the least and the greatest, how many there are, and
    whether each is above the one before it.
    """

    low: int
    high: int
    size: int
    rising: bool


class Order(NamedTuple):
    """First copies of a producer's messages of one chunk in one place: their least and greatest offset, and
    whether a later message stands before an earlier one.
    """

    chunk: int
    low: int
    high: int
    inverted: bool


class Edge(NamedTuple):
    """Lost messages of a stream in one chunk: whether its first and its last message is one, and in how many
    islands they lie.
    """

    chunk: int
    first: bool
    last: bool
    islands: int


class Handed(NamedTuple):
    """Deliveries of a group from a place between its committed offsets, from the bucket `first` on: how many,
    and the last few. `latest` has a row a bucket, and in it LATEST times and offsets, the last first; NULL
    where none is.
    """

    first: int
    counts: Ints
    latest: Ints


class Quiet(NamedTuple):
    """Acknowledgements from a place around a fault: those between its taking effect and the recovery, whether
    there was one before, and the first after.
    """

    within: list[Stretch]
    before: bool
    after_ns: int | None


def least(one: Any, other: Any) -> Any:
    """The smaller of two of a kind that may be missing."""
    return other if one is None else one if other is None else min(one, other)


def greatest(one: int | None, other: int | None) -> int | None:
    """The greater of two that may be missing."""
    return other if one is None else one if other is None else max(one, other)


@dataclass
class Summary:
    """Keys are numbers of names. Counters are exact.

    cells: (producer, topic, place, outcome, stored 0|1|2) -> messages; group_cells: (group, topic, place,
    outcome, stored, delivered 0|1|2) -> messages; epochs: (place, epoch) -> (least offset, greatest);
    under: (producer, place, epoch) -> the first acknowledgement of a message stored in that epoch;
    first_acks: (number in Context.reached, "any" | "epoch" | "time") -> the first one after the fault.
    """

    piles: Piles = field(default_factory=Piles)
    shown: dict[tuple[str, int, int], list[tuple[Any, ...]]] = field(default_factory=dict)
    # sends
    places: set[int] = field(default_factory=set)
    first_attempt_ns: int | None = None
    last_attempt_ns: int | None = None
    last_ack_ns: int | None = None
    ack: Histogram = field(default_factory=Histogram)
    active: dict[Stream, tuple[int, int]] = field(default_factory=dict)
    acks: dict[Stream, list[Stretch]] = field(default_factory=lambda: defaultdict(list))
    rates: dict[int, Ints] = field(default_factory=dict)
    silent: dict[int, Quiet] = field(default_factory=dict)
    # log
    records: Counter[int] = field(default_factory=Counter)
    foreign: int = 0
    damaged: int = 0
    log_runs: dict[int, list[Run]] = field(default_factory=lambda: defaultdict(list))
    epochs: dict[tuple[int, int | None], tuple[int, int]] = field(default_factory=dict)
    logged: dict[tuple[int, int], Ints] = field(default_factory=dict)
    # deliveries
    begun: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    delivery_runs: dict[tuple[int, int], list[Run]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[Reader, list[Steps]] = field(default_factory=lambda: defaultdict(list))
    handed: dict[tuple[int, int], list[Handed]] = field(default_factory=lambda: defaultdict(list))
    # messages
    cells: Counter[tuple[int, int, int, int, int]] = field(default_factory=Counter)
    group_cells: Counter[tuple[int, int, int, int, int, int]] = field(default_factory=Counter)
    extra_copies: int = 0
    phantom_records: int = 0
    unsettled: int = 0
    sent_twice: tuple[int, int] | None = None
    logged_twice: tuple[int, int, int, int, int] | None = None
    order: dict[Stream, list[Order]] = field(default_factory=lambda: defaultdict(list))
    edges: dict[tuple[int, int, int], list[Edge]] = field(default_factory=lambda: defaultdict(list))
    under: dict[tuple[int, int, int], int] = field(default_factory=dict)
    first_acks: dict[tuple[int, str], int] = field(default_factory=dict)
    end_to_end: dict[int, Histogram] = field(default_factory=lambda: defaultdict(Histogram))

    def show(self, kind: tuple[str, int, int], rows: Iterable[tuple[Any, ...]]) -> None:
        """Keeps the first few examples: (name, group, topic) of (producer, seq, place, offset, at_ns, ...),
        of phantoms (place, offset, producer, seq).
        """
        kept = sorted([*self.shown.get(kind, []), *rows])[:SHOWN]
        if kept:
            self.shown[kind] = kept

    def add(self, other: Summary) -> None:
        """Takes another's sums in."""
        for name in ("records", "cells", "group_cells"):
            getattr(self, name).update(getattr(other, name))
        for name in ("foreign", "damaged", "extra_copies", "phantom_records", "unsettled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("first_attempt_ns", "sent_twice", "logged_twice"):
            setattr(self, name, least(getattr(self, name), getattr(other, name)))
        for name in ("last_attempt_ns", "last_ack_ns"):
            setattr(self, name, greatest(getattr(self, name), getattr(other, name)))
        for name in ("acks", "log_runs", "delivery_runs", "steps", "handed", "order", "edges"):
            mine = getattr(self, name)
            for key, found in getattr(other, name).items():
                mine[key].extend(found)
        self.places |= other.places
        self.piles.add(other.piles)
        for kind, rows in other.shown.items():
            self.show(kind, rows)
        self.ack.add(other.ack)
        for group, histogram in other.end_to_end.items():
            self.end_to_end[group].add(histogram)
        self._add_arrays(other)
        self._add_bounds(other)

    def _add_arrays(self, other: Summary) -> None:
        for second, counts in other.rates.items():
            self.rates[second] = self.rates[second] + counts if second in self.rates else counts
        for key, counts in other.logged.items():
            self.logged[key] = self.logged[key] + counts if key in self.logged else counts

    def handed_out(self, key: tuple[int, int], buckets: int) -> tuple[Ints, Ints]:
        """Deliveries of a (group, place) between its committed offsets, as Handed, of all buckets."""
        counts, latest = np.zeros(buckets, np.int64), np.full((buckets, LATEST, 2), NULL)
        for part in self.handed.get(key, []):
            here = slice(part.first, part.first + len(part.counts))
            counts[here] += part.counts
            both = np.concatenate([latest[here], part.latest], axis=1)
            order = np.lexsort((both[:, :, 1], both[:, :, 0]))[:, : -LATEST - 1 : -1]
            latest[here] = np.take_along_axis(both, order[:, :, None], axis=1)
        return counts, latest

    def _add_bounds(self, other: Summary) -> None:
        for stream, (first, last) in other.active.items():
            mine = self.active.get(stream, (first, last))
            self.active[stream] = min(mine[0], first), max(mine[1], last)
        for epoch, (low, high) in other.epochs.items():
            self.span(epoch, low, high)
        for key, began in other.begun.items():
            self.begin(key, began)
        for name in ("under", "first_acks"):
            mine_, others = getattr(self, name), getattr(other, name)
            for key_, at_ns in others.items():
                mine_[key_] = min(mine_.get(key_, at_ns), at_ns)
        for reached, quiet in other.silent.items():
            self.quieten(reached, quiet)

    def quieten(self, reached: int, quiet: Quiet) -> None:
        """Acknowledgements around the fault of that number in Context.reached."""
        mine = self.silent.get(reached, Quiet([], False, None))
        after_ns = least(mine.after_ns, quiet.after_ns)
        self.silent[reached] = Quiet(mine.within + quiet.within, mine.before or quiet.before, after_ns)

    def span(self, epoch: tuple[int, int | None], low: int, high: int) -> None:
        """Offsets of one epoch of a place."""
        mine = self.epochs.get(epoch, (low, high))
        self.epochs[epoch] = min(mine[0], low), max(mine[1], high)

    def begin(self, key: tuple[int, int], began: tuple[int, int]) -> None:
        """A group's first delivery from a place: (when, the least offset then)."""
        self.begun[key] = min(self.begun.get(key, began), began)
