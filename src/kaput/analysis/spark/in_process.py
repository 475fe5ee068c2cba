"""Spark's part in the count, played in this process: the same tasks, without a JVM behind them.

For a few thousand messages (kaput.Lab's `account`), where starting a JVM would take longer than the count,
and for tests that judge thousands of folders. Only what the analysis (job.py) and bench/generate.py use.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class InProcess:
    """Stands for a SparkContext."""

    def statusTracker(self) -> InProcess:
        """Itself."""
        return self

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        """Nothing is looked up by group."""

    def getJobIdsForGroup(self, group: str) -> list[int]:
        """No job is under way."""
        return []

    getJobInfo = getJobIdsForGroup

    def getActiveStageIds(self) -> list[int]:
        """Whoever asks comes between two stages."""
        return []

    def parallelize(self, items: Sequence[Any], count: int) -> LocalRdd:
        """The items in so many partitions, neighbours together."""
        bounds = [len(items) * part // count for part in range(count + 1)]
        return LocalRdd([items[bounds[part] : bounds[part + 1]] for part in range(count)])

    def runJob(
        self, rdd: LocalRdd, step: Callable[[Iterable[Any]], list[Any]], parts: Sequence[int]
    ) -> list[Any]:
        """What the step makes of some partitions."""
        return [item for part in parts for item in step(iter(rdd.parts[part]))]


class LocalRdd:
    """Stands for an RDD. What crosses to another task is pickled, as Spark does it."""

    def __init__(self, parts: Sequence[Iterable[Any]]) -> None:
        self.parts = parts

    def mapPartitions(self, step: Callable[[Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        """Each partition handed to the step."""
        return LocalRdd([_Later(lambda part=part: step(iter(part))) for part in self.parts])  # type: ignore[misc]

    def map(self, make: Callable[[Any], Any]) -> LocalRdd:
        """Each item made into another."""
        return LocalRdd([[make(item) for item in part] for part in self.parts])

    def mapPartitionsWithIndex(self, step: Callable[[int, Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        """Each partition handed to the step, with its number."""
        return LocalRdd(
            [_Later(lambda i=i, part=part: step(i, iter(part))) for i, part in enumerate(self.parts)]  # type: ignore[misc]
        )

    def union(self, other: LocalRdd) -> LocalRdd:
        """Both, one after the other."""
        return LocalRdd([*self.parts, *other.parts])

    def partitionBy(self, count: int, chosen: Callable[[Any], int]) -> LocalRdd:
        """Pairs by their key."""
        parts: list[list[Any]] = [[] for _ in range(count)]
        for key, value in (pair for part in self.parts for pair in part):
            parts[chosen(key) % count].append(pickle.loads(pickle.dumps((key, value))))
        return LocalRdd(parts)

    def collect(self) -> list[Any]:
        """Everything."""
        return [item for part in self.parts for item in part]


class _Later:
    """A partition that is made when it is asked for, as Spark does."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._make()))
