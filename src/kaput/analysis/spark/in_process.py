"""A stand-in for Spark that runs the analysis's tasks in this process, without a JVM.

For a few thousand messages (kaput.Lab's `account`), where starting a JVM would take longer than the analysis,
and for tests that judge thousands of folders. Only what the analysis (job.py) and bench/generate.py use.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark import SparkContext


class InProcess:
    """Stands in for a SparkContext."""

    def statusTracker(self) -> InProcess:
        """Returns itself."""
        return self

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        """Does nothing: jobs are not looked up by group."""

    def getJobIdsForGroup(self, group: str) -> list[int]:
        """Empty: no job runs in the background."""
        return []

    getJobInfo = getJobIdsForGroup

    def getActiveStageIds(self) -> list[int]:
        """Empty: callers only run between stages."""
        return []

    def parallelize(self, items: Sequence[Any], count: int) -> LocalRdd:
        """The items as an RDD of `count` partitions, in order."""
        bounds = [len(items) * part // count for part in range(count + 1)]
        return LocalRdd([items[bounds[part] : bounds[part + 1]] for part in range(count)])

    def runJob(
        self, rdd: LocalRdd, step: Callable[[Iterable[Any]], list[Any]], parts: Sequence[int]
    ) -> list[Any]:
        """The step's results for the given partitions."""
        return [item for part in parts for item in step(iter(rdd.parts[part]))]


class WithoutSpark:
    """Stands in for a Background: what is small is judged sooner than a JVM starts. A context manager."""

    def __enter__(self) -> WithoutSpark:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing."""

    def prepare(self) -> None:
        """Does nothing: under load, an import would hold the interpreter's lock."""

    def begin(self) -> None:
        """Loads the analysis in the background."""
        threading.Thread(target=_load, name="load-analysis", daemon=True).start()

    def session(self) -> SparkContext:
        """The stand-in."""
        return cast("SparkContext", InProcess())


def _load() -> None:
    import kaput.analysis.pipeline  # noqa: F401


class LocalRdd:
    """Stands in for an RDD. Pickles what moves between tasks, as Spark does."""

    def __init__(self, parts: Sequence[Iterable[Any]]) -> None:
        self.parts = parts

    def mapPartitions(self, step: Callable[[Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        """Applies the step to each partition."""
        return LocalRdd([_LazyPartition(lambda part=part: step(iter(part))) for part in self.parts])  # type: ignore[misc]

    def map(self, make: Callable[[Any], Any]) -> LocalRdd:
        """Applies `make` to each item."""
        return LocalRdd([[make(item) for item in part] for part in self.parts])

    def mapPartitionsWithIndex(self, step: Callable[[int, Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        """Applies the step to each partition and its index."""
        return LocalRdd(
            [_LazyPartition(lambda i=i, part=part: step(i, iter(part))) for i, part in enumerate(self.parts)]  # type: ignore[misc]
        )

    def union(self, other: LocalRdd) -> LocalRdd:
        """The partitions of both."""
        return LocalRdd([*self.parts, *other.parts])

    def partitionBy(self, count: int, partition_of: Callable[[Any], int]) -> LocalRdd:
        """Repartitions pairs by key."""
        parts: list[list[Any]] = [[] for _ in range(count)]
        for key, value in (pair for part in self.parts for pair in part):
            parts[partition_of(key) % count].append(pickle.loads(pickle.dumps((key, value))))
        return LocalRdd(parts)

    def collect(self) -> list[Any]:
        """All items."""
        return [item for part in self.parts for item in part]


class _LazyPartition:
    """A partition computed when it is iterated, as in Spark."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._make()))
