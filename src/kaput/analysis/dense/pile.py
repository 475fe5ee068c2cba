"""Rows that want a closer look, gathered column by column as arrays of whole numbers.

They are few, or the run is one for the analysis in SQL (`full`): the driver holds them all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense.numbers import Ints

MOST = 3_000_000  # rows, over all piles: some hundred megabytes


@dataclass
class Pile:
    """Rows of one kind: every `put` gives the same columns."""

    rows: int = 0
    columns: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))

    def put(self, **columns: npt.NDArray[Any] | int) -> None:
        """Rows as columns of one length; a number stands for a column of it."""
        count = max(len(column) for column in columns.values() if not isinstance(column, int))
        if count == 0:
            return
        self.rows += count
        for name, column in columns.items():
            whole = np.full(count, column) if isinstance(column, int) else column
            self.columns[name].append(np.array(whole, np.int64))

    def add(self, other: Pile) -> None:
        """Takes another's rows in."""
        self.rows += other.rows
        for name, parts in other.columns.items():
            self.columns[name].extend(parts)

    def __getitem__(self, name: str) -> Ints:
        """One column, empty where there are no rows."""
        parts = self.columns.get(name, [])
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0] if parts else np.empty(0, np.int64)


class Piles(defaultdict[str, Pile]):
    """Piles by name: astray, claims, broken, disordered, stepping, shown."""

    def __init__(self) -> None:
        super().__init__(Pile)
        self.full = False

    def add(self, other: Piles) -> None:
        """Takes another's rows in, unless they become too many."""
        self.full |= other.full
        if not self.full:
            for name, pile in other.items():
                self[name].add(pile)
        self.settle()

    def settle(self) -> None:
        """Drops everything once it is too much: from then on only `full` counts."""
        if self.full or sum(pile.rows for pile in self.values()) > MOST:
            self.full = True
            self.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.full, {name: (pile.rows, dict(pile.columns)) for name, pile in self.items()})


def _restored(full: bool, piles: dict[str, tuple[int, dict[str, list[Ints]]]]) -> Piles:
    found = Piles()
    found.full = full
    for name, (rows, columns) in piles.items():
        found[name] = Pile(rows, defaultdict(list, columns))
    return found
