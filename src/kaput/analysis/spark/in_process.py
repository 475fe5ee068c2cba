"""Runs the analysis's tasks in threads of this process, without Spark: the same tasks, from the same job.py.

Polars, numpy and Arrow do most of their work without the interpreter's lock, so tasks run side by side. What
moves between them is in files without names (engine/pieces.py), which vanish with the process. Only what
analysis and compare use of Spark.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from kaput.analysis.engine.spark_jobs import IN_PROCESS, after_task

if TYPE_CHECKING:
    from pyspark import SparkContext

THREADS_MAX = 4  # each holds a task of some 300 MB
ROOM_BYTES = 2**27  # for each thread, of what tasks have to read: they hold up to five times as much
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of malloc.h


@dataclass
class Stage:
    """How far tasks are, as Spark says it."""

    numTasks: int
    done: list[int] = field(default_factory=list)  # by thread-safe appending

    @property
    def numCompletedTasks(self) -> int:
        """The number of tasks that have ended."""
        return len(self.done)


@dataclass(frozen=True)
class Tracker:
    """Stands in for a StatusTracker: of the stages from the first one on."""

    stages: Sequence[Stage]
    first: int

    def getActiveStageIds(self) -> Sequence[int]:
        """All of them, also those that have ended."""
        return range(self.first, len(self.stages))

    def getStageInfo(self, number: int) -> Stage:
        """How far a stage is."""
        return self.stages[number]


class InProcess:
    """Stands in for a SparkContext. `threads`: how many tasks run at once; by default as many as cores, up to
    THREADS_MAX. `own`: whether the process is one of kaput's own, so that its heap may be trimmed.
    """

    master = IN_PROCESS

    def __init__(self, threads: int | None = None, own: bool = False) -> None:
        self.own = own
        self.threads = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self.stages: list[Stage] = []
        self._held, self._changed = 0, threading.Condition()

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Waits until a task with so many bytes to read may run: they fit with those of the tasks that run
        (ROOM_BYTES), or none runs.
        """
        room = self.threads * ROOM_BYTES
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + size <= room)
            self._held += size
        try:
            yield
        finally:
            with self._changed:
                self._held -= size
                self._changed.notify_all()

    def statusTracker(self) -> Tracker:
        """How far the stages from now on are."""
        return Tracker(self.stages, len(self.stages))

    def parallelize(self, items: Sequence[Any], count: int) -> LocalRdd:
        """The items as an RDD of `count` partitions, in order."""
        bounds = [len(items) * part // count for part in range(count + 1)]
        return LocalRdd(self, [items[bounds[part] : bounds[part + 1]] for part in range(count)])

    def runJob(
        self, rdd: LocalRdd, step: Callable[[Iterable[Any]], list[Any]], parts: Sequence[int]
    ) -> list[Any]:
        """The step's results for the given partitions."""
        chosen = LocalRdd(self, [rdd.parts[part] for part in parts])
        return chosen.mapPartitions(lambda items: iter(step(items))).collect()

    def lists(self, parts: Sequence[Iterable[Any]]) -> list[list[Any]]:
        """The items of each partition, which are computed by as many threads as there may be. After an error
        or an interrupt no further task begins.
        """
        stage = Stage(len(parts))
        self.stages.append(stage)

        def computed(part: Iterable[Any]) -> list[Any]:
            items = list(part)
            stage.done.append(len(items))
            if self.own:
                after_task()
            return items

        if min(self.threads, len(parts)) < 2:
            return [computed(part) for part in parts]
        with ThreadPoolExecutor(self.threads, "kaput-task") as pool:
            return list(pool.map(computed, parts))


class WithoutSpark:
    """Judges in this process. `threads`: see InProcess. A context manager, which tunes allocators for this:
    only for kaput's own processes.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads, self._own = threads, False

    def __enter__(self) -> WithoutSpark:
        self._own = True
        _keep_freed_memory()
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Tasks make few objects that refer to each other, and the analysis many.
        self._collects = gc.get_threshold()
        gc.set_threshold(100_000, 50)
        return self

    def __exit__(self, *error: object) -> None:
        """Lets the garbage be collected as before, and as few files be open."""
        gc.set_threshold(*self._collects)
        _limit_open_files(self._open_files)

    def session(self) -> SparkContext:
        """The stand-in. Judging begins: what the process has started before keeps the old limit."""
        if self._own:
            _, most = self._open_files
            _limit_open_files((most, most))  # each task that encodes leaves an open file
        return cast("SparkContext", InProcess(self._threads, self._own))


def _limit_open_files(limits: tuple[int, int]) -> None:
    with suppress(ValueError, OSError):  # macOS has an infinite limit that cannot be set
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _keep_freed_memory() -> None:
    """Columns of a million rows come and go: returning each to the kernel and getting it again costs a tenth
    of the CPU time. So glibc keeps the last 256 MB, for numpy and Arrow, and jemalloc what was freed in the
    last ten seconds, for Polars, which reads this when it is loaded.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", "oversize_threshold:0,dirty_decay_ms:10000,muzzy_decay_ms:0")
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, 2**28)
        mallopt(_M_MMAP_THRESHOLD, 2**28)
        mallopt(_M_ARENA_MAX, 1)  # of all threads: what one has freed is there for the others


def load_analysis() -> None:
    """Loads the analysis in the background: not under load, as an import holds the interpreter's lock."""
    threading.Thread(target=_load, name="load-analysis", daemon=True).start()


def _load() -> None:
    import kaput.analysis.pipeline  # noqa: F401


@dataclass(frozen=True)
class LocalRdd:
    """Stands in for an RDD."""

    spark: InProcess
    parts: Sequence[Iterable[Any]]

    def mapPartitions(self, step: Callable[[Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        """Applies the step to each partition."""
        return self.mapPartitionsWithIndex(lambda _, part: step(part))

    def mapPartitionsWithIndex(self, step: Callable[[int, Iterable[Any]], Iterator[Any]]) -> LocalRdd:
        """Applies the step to each partition and its index."""
        return LocalRdd(self.spark, [_Partition(step, i, part) for i, part in enumerate(self.parts)])

    def union(self, other: LocalRdd) -> LocalRdd:
        """The partitions of both."""
        return LocalRdd(self.spark, [*self.parts, *other.parts])

    def partitionBy(self, count: int, partition_of: Callable[[Any], int]) -> LocalRdd:
        """Repartitions pairs by key."""
        parts: list[list[Any]] = [[] for _ in range(count)]
        for key, value in self.collect():
            parts[partition_of(key) % count].append((key, value))
        return LocalRdd(self.spark, parts)

    def collect(self) -> list[Any]:
        """All items."""
        return [item for items in self.spark.lists(self.parts) for item in items]


@dataclass(frozen=True)
class _Partition:
    """A partition that is computed when it is iterated, as in Spark."""

    step: Callable[[int, Iterable[Any]], Iterator[Any]]
    number: int
    items: Iterable[Any]

    def __iter__(self) -> Iterator[Any]:
        return self.step(self.number, iter(self.items))
