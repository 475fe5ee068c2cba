"""Spark's part in the count, played in this process: the same tasks, without a JVM behind them.

Only what the engine uses (dense/engine.py, dense/fates.py, dense/scan.py). For tests that judge thousands of
folders; some of them are judged with the real Spark as well. The analysis in SQL needs that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class NeedsSpark(Exception):
    """What was asked for only the real Spark can do."""


class InProcess:
    """Stands for a SparkSession. Raises NeedsSpark for whatever else is asked of one."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsSpark(name)

    @property
    def sparkContext(self) -> InProcess:
        """Itself."""
        return self

    def statusTracker(self) -> InProcess:
        """Itself."""
        return self

    def getActiveStageIds(self) -> list[int]:
        """Whoever asks comes between two stages."""
        return []

    def parallelize(self, items: Sequence[Any], count: int) -> Partitions:
        """The items in so many partitions, neighbours together."""
        bounds = [len(items) * part // count for part in range(count + 1)]
        return Partitions([items[bounds[part] : bounds[part + 1]] for part in range(count)])


class Partitions:
    """Stands for an RDD."""

    def __init__(self, parts: Sequence[Iterable[Any]]) -> None:
        self.parts = parts

    def mapPartitions(self, step: Callable[[Iterable[Any]], Iterator[Any]]) -> Partitions:
        """Each partition handed to the step."""
        return Partitions([list(step(iter(part))) for part in self.parts])

    def mapPartitionsWithIndex(self, step: Callable[[int, Iterable[Any]], Iterator[Any]]) -> Partitions:
        """Each partition handed to the step, with its number."""
        return Partitions([list(step(index, iter(part))) for index, part in enumerate(self.parts)])

    def partitionBy(self, count: int, chosen: Callable[[Any], int]) -> Partitions:
        """Pairs by their key."""
        parts: list[list[Any]] = [[] for _ in range(count)]
        for key, value in (pair for part in self.parts for pair in part):
            parts[chosen(key) % count].append((key, value))
        return Partitions(parts)

    def collect(self) -> list[Any]:
        """Everything."""
        return [item for part in self.parts for item in part]
