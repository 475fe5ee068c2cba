"""Rates of positions that normally only increase: log ends, committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Rates(Generic[K]):
    """Computes rates between successive positions. A position that went back has no rate."""

    def __init__(self) -> None:
        self.cut_back: dict[
            K, tuple[int, int]
        ] = {}  # positions that went back in the last `add`: (before, now)
        self._last: dict[K, tuple[float, int]] = {}

    def add(self, at_s: float, positions: Mapping[K, int], existing: Collection[K]) -> dict[K, float]:
        """Rates per second of the positions known now and before; after a gap, the mean over it.

        `at_s`: when they were read, by the monotonic clock. `existing`: all keys that exist, including those
        without a known position now.
        """
        found: dict[K, float] = {}
        self.cut_back = {}
        for key, position in positions.items():
            before_s, before = self._last.get(key, (at_s, position))
            if position < before:
                self.cut_back[key] = before, position
            elif at_s > before_s:
                found[key] = (position - before) / (at_s - before_s)
        self._last = {key: last for key, last in self._last.items() if key in existing}
        self._last |= {key: (at_s, position) for key, position in positions.items()}
        return found
