"""What every task is told beforehand: numbers for names, chunk sizes, assignments, commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kaput.analysis.dense.columns import Columns
from kaput.analysis.dense.homes import Homes
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.readers import NO_EVENTS, Events, Reader, events_of
from kaput.analysis.names import SHIFT, Names
from kaput.scenario.vocabulary import OUTCOMES

OUTCOME: Mapping[str, int] = {word: number for number, word in enumerate(OUTCOMES)}
ACKED = OUTCOME["acked"]


class Reached(NamedTuple):
    """A partition that a fault reached: `election`: (epoch or None, at_ns) of the first election after it."""

    fault: str
    place: int
    effective_ns: int
    election: tuple[int | None, int] | None
    elected: bool
    recovered_ns: int


@dataclass(frozen=True)
class Context:
    """`assigned`: (at_ns, owns) by reader; by (group, member): `given_up`: (at_ns, topic) of what a member
    gave up altogether, of that topic or (None) of all; `gone`: when it left.

    `commits`: the committed offsets of each (group, place), sorted. `complete`: codes of the places read to
    their end; `complete_topics`: those all of whose known places are. `ledger`: the directory for it.
    `judged`: each (group, place) of which an assignment is recorded.
    """

    names: Names
    bits: int
    homes: Homes
    complete: frozenset[int] = frozenset()
    complete_topics: frozenset[int] = frozenset()
    assigned: Mapping[Reader, Sequence[tuple[int, bool]]] = field(default_factory=dict)
    given_up: Mapping[tuple[int, int], Sequence[tuple[int, int | None]]] = field(default_factory=dict)
    gone: Mapping[tuple[int, int], Sequence[int]] = field(default_factory=dict)
    commits: Mapping[tuple[int, int], Ints] = field(default_factory=dict)
    ledger: str | None = None
    reached: Sequence[Reached] = ()
    judged: frozenset[tuple[int, int]] = frozenset()

    @cached_property
    def topics(self) -> Mapping[str, int]:
        """Numbers of the topics."""
        return {name: number for number, name in enumerate(self.names.topics)}

    @cached_property
    def groups(self) -> Mapping[str, int]:
        """Numbers of the groups."""
        return {name: number for number, name in enumerate(self.names.groups)}

    @cached_property
    def members(self) -> Mapping[str, int]:
        """Numbers of the members."""
        return {name: number for number, name in enumerate(self.names.members)}

    def places(self, columns: Columns, topics: Ints) -> Ints:
        """The place of each row, NULL where the partition is not known."""
        partitions = columns.numbers("partition")
        if topics.strides[0] == 0 and partitions.strides[0] == 0:
            known = columns.rows and partitions[0] >= 0
            value = int(topics[0]) * SHIFT + int(partitions[0]) if known else NULL
            return np.broadcast_to(np.int64(value), (columns.rows,))
        places = topics * SHIFT + partitions
        unknown = partitions < 0
        if unknown.any():
            places[unknown] = NULL
        return places

    def chunks(self, seq: Ints) -> tuple[Ints, Ints]:
        """The chunk of each seq, and its place in the chunk."""
        return seq >> self.bits, seq & ((1 << self.bits) - 1)

    def part(self, producer: int, chunk: int) -> int:
        """Which reducing task a chunk belongs to."""
        return self.homes.part(producer, chunk)

    def events(self, reader: Reader) -> Events:
        """What changed for one reader. Asked for each stretch of rows, made once."""
        if reader not in self._events:
            self._events[reader] = self._events_of(reader)
        return self._events[reader]

    @cached_property
    def _events(self) -> dict[Reader, Events]:
        return {}

    def _events_of(self, reader: Reader) -> Events:
        topic = reader[2] // SHIFT
        rows = [(at, owns, True) for at, owns in self.assigned.get(reader, ())]
        rows += [(at, False, True) for at, of in self.given_up.get(reader[:2], ()) if of in (None, topic)]
        rows += [(at, False, False) for at in self.gone.get(reader[:2], ())]
        # At one moment a partition is given up before it is assigned.
        return events_of([(at, changed, owns) for at, owns, changed in sorted(rows)]) if rows else NO_EVENTS
