"""When transaction coordinators were down, and for how much of a given time. Found by coordinators.py."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int]  # from and to (ns)


@dataclass(frozen=True)
class Outages:
    """The outages of a run.

    `certain`: by producer, when its coordinator was down (None: all coordinators); `recorded`: producers
    whose coordinator is known; `possible`: when those of the others may have been down. `only`: the only
    transactional producer, if there is exactly one.
    """

    certain: Mapping[int | None, Sequence[Span]] = field(default_factory=dict)
    possible: Sequence[Span] = ()
    recorded: Collection[int] = ()
    only: int | None = None

    def certain_ns(self, producer: int | None, within: Span) -> int:
        """How much of that time the producer's coordinator was certainly down."""
        return _length_ns(self._certain(producer), within)

    def possible_ns(self, producer: int | None, within: Span) -> int:
        """How much of that time the producer's coordinator may have been down."""
        producer = self.only if producer is None else producer
        if producer in self.recorded:
            return self.certain_ns(producer, within)
        every = self.certain.values() if producer is None else [self._certain(producer)]
        return _length_ns([*self.possible, *(span for spans in every for span in spans)], within)

    def _certain(self, producer: int | None) -> list[Span]:
        producer = self.only if producer is None else producer
        mine = self.certain.get(producer, ()) if producer is not None else ()
        return [*self.certain.get(None, ()), *mine]


def _length_ns(spans: Iterable[Span], within: Span) -> int:
    """How much of that time the union of the spans covers."""
    total, at_ns = 0, within[0]
    for from_ns, to_ns in sorted(spans):
        begin, end = max(from_ns, at_ns), min(to_ns, within[1])
        total, at_ns = total + max(0, end - begin), max(at_ns, end)
    return total
