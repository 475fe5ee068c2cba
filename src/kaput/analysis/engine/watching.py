"""Reports the progress of a Spark job while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext

_EVERY_S = 0.5

Progress = Callable[[int, int], None]  # tasks done, total


def ignored(_done: int, _total: int) -> None:
    """A Progress that does nothing."""


@contextmanager
def watched(spark: SparkContext, total: int, progress: Progress) -> Iterator[None]:
    """Inside the context, calls `progress` twice a second with the number of tasks done."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, total, progress, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(spark: SparkContext, total: int, progress: Progress, over: threading.Event) -> None:
    # If the JVM is gone the job itself fails, and its caller gets that error.
    with suppress(Py4JError):
        _poll(spark, total, progress, over)


def _poll(spark: SparkContext, total: int, progress: Progress, over: threading.Event) -> None:
    tracker = spark.statusTracker()
    done: dict[int, int] = {}
    sizes: dict[int, int] = {}
    while not over.wait(_EVERY_S):
        # A stage that is no longer active has ended.
        done = dict(sizes)
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                sizes[stage], done[stage] = info.numTasks, info.numCompletedTasks
        progress(min(sum(done.values()), total), total)
