"""Rates of positions that only go up: the end of a log, a committed offset."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Rates(Generic[K]):
    """Between each position and the one before. A position that went back gives no rate."""

    def __init__(self) -> None:
        self.cut_back: dict[K, tuple[int, int]] = {}  # in the last look, from where to where
        self._last: dict[K, tuple[float, int]] = {}

    def add(self, at_s: float, positions: Mapping[K, int], kept: Collection[K]) -> dict[K, float]:
        """Per second, of those that are known now and were before; after a gap the mean over it.

        `at_s`: when they were read (of the monotonic clock). `kept`: all there are, also those that are not
        known now.
        """
        found: dict[K, float] = {}
        self.cut_back = {}
        for key, position in positions.items():
            before_s, before = self._last.get(key, (at_s, position))
            if position < before:
                self.cut_back[key] = before, position
            elif at_s > before_s:
                found[key] = (position - before) / (at_s - before_s)
        self._last = {key: last for key, last in self._last.items() if key in kept}
        self._last |= {key: (at_s, position) for key, position in positions.items()}
        return found
