"""The shape of a generated run: how much each producer sends to which partition, and how it is cut into
slabs.

Producers send at a common rate. Each sends batches of consecutive messages, every batch to the next
partition; a batch is contiguous in the log. A slab holds the same range of sequence numbers of every producer
and ends before the next one begins, so slabs can be generated independently. Not here: anomalies (plan.py,
plan.py), times (slabs.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kaput.core import SECOND

Longs = npt.NDArray[np.int64]

TOPIC = "orders"
STORE = "store"
START_NS = 1_767_225_600_000_000_000  # 2026-01-01
_RATE_PER_S = 200_000  # of all producers together
_PAUSE_NS = 1_000_000_000  # between two slabs: longer than anything takes to arrive


@dataclass(frozen=True)
class Shape:
    """`counts`: messages by producer. `batch` divides `width`, the messages of a producer in one slab."""

    counts: tuple[int, ...]
    partitions: int
    groups: int
    seed: int
    batch: int
    width: int

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(self.counts)

    @property
    def producers(self) -> int:
        """The number of producers."""
        return len(self.counts)

    @property
    def slabs(self) -> int:
        """The number of slabs."""
        return -(-max(self.counts) // self.width)

    @property
    def members(self) -> int:
        """The number of members of each group; partition k belongs to member k modulo this."""
        return min(2, self.partitions)

    @property
    def interval_ns(self) -> int:
        """The time between two messages of one producer."""
        return self.producers * (SECOND // _RATE_PER_S)

    @property
    def ended_ns(self) -> int:
        """The end of the run."""
        return self.starts_ns(self.slabs)

    def starts_ns(self, slab: int) -> int:
        """When a slab begins."""
        return START_NS + slab * (self.width * self.interval_ns + _PAUSE_NS)

    def group(self, number: int) -> str:
        """A group's id."""
        return f"group-{number}"

    def member(self, group: int, number: int) -> str:
        """A member's name."""
        return f"group-{group}-member-{number}"

    def partition(self, producer: Longs, number: Longs) -> Longs:
        """The partition of a producer's batch."""
        return (producer + number) % self.partitions


class BatchTable:
    """The batches of a slab, producer after producer: `producer`, `number` (from 0), `size`, `partition`."""

    def __init__(self, shape: Shape, slab: int) -> None:
        counts = np.array(shape.counts, np.int64)
        self.first_number = slab * (shape.width // shape.batch)
        last = np.minimum(-(-counts // shape.batch), self.first_number + shape.width // shape.batch)
        each = np.maximum(last - self.first_number, 0)
        self.begins = np.concatenate([[0], np.cumsum(each)])  # of each producer's batches
        self.producer: Longs = np.repeat(np.arange(shape.producers), each)
        self.number: Longs = self.first_number + np.arange(self.begins[-1]) - self.begins[self.producer]
        self.size: Longs = np.minimum(shape.batch, counts[self.producer] - self.number * shape.batch)
        self.partition = shape.partition(self.producer, self.number)

    @cached_property
    def messages_before(self) -> Longs:
        """The number of the slab's messages before each batch, and in total."""
        return np.concatenate([[0], np.cumsum(self.size)])

    def index(self, producer: Longs, number: Longs) -> Longs:
        """The position of batches in this slab."""
        at: Longs = self.begins[producer] + number - self.first_number
        return at

    def among(self, chosen: Longs) -> Longs:
        """The positions in the slab of the messages of `chosen` batches, in the order of `chosen`."""
        return spread(self.messages_before[chosen], self.size[chosen])


def spread(begins: Longs, sizes: Longs) -> Longs:
    """For each pair the `size` numbers begin, begin + 1, ..., concatenated."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(begins - before, sizes) + np.arange(int(sizes.sum()))


def commits_in(batches: Longs) -> Longs:
    """The number of commits of a partition before the end of a slab, by its number of batches there."""
    return np.minimum(8, batches // 4)
