"""A consumer with a filter: reads a log, drops duplicates, and runs the effect of everything else.

There are two orders. A crash between the two steps means:
- effect, then mark: the effect happened, the mark is missing. The record is read again, and is new again:
  **a duplicate**.
- mark, then effect: the mark is there, the effect is missing. The record is read again, and is dropped:
  **a loss**.

There is no third order. The remedy is an effect in the filter's own database: one commit then makes both
durable, or neither (effect, then mark, with `effect` writing to the same `Database`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from kaput.clients.dedup.filters import Filter, NumberedRecord

Effect = Callable[[NumberedRecord], object]


class Order(Enum):
    """The order of effect and mark."""

    EFFECT_THEN_MARK = "effect, then mark"
    MARK_THEN_EFFECT = "mark, then effect"


class FilteringConsumer:
    """Reads batches, and commits after each one: its marks, then its position.

    A new one continues after a crash if it gets the old one's `position` and its filter's store.
    """

    def __init__(
        self,
        accepts: Filter,
        effect: Effect,
        order: Order = Order.EFFECT_THEN_MARK,
        batch: int = 1,
        position: int = 0,
    ) -> None:
        self.position = position  # the next record to read, as committed
        self._filter, self._effect = accepts, effect
        self._order, self._batch = order, batch

    def read(self, log: Sequence[NumberedRecord]) -> None:
        """Reads to the end of the log."""
        while batch := list(log[self.position : self.position + self._batch]):
            match self._order:
                case Order.EFFECT_THEN_MARK:
                    self._effects_first(batch)
                case Order.MARK_THEN_EFFECT:
                    self._marks_first(batch)
            self.position += len(batch)

    def _effects_first(self, batch: list[NumberedRecord]) -> None:
        for record in batch:
            if self._filter.is_new(record):
                self._effect(record)
            self._filter.mark(record)
        self._filter.commit()

    def _marks_first(self, batch: list[NumberedRecord]) -> None:
        new = []
        for record in batch:
            if self._filter.is_new(record):
                new.append(record)
            self._filter.mark(record)
        self._filter.commit()
        for record in new:
            self._effect(record)
