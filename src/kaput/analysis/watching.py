"""How far Spark has come with a job, told while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import SparkContext

_EVERY_S = 0.5

Tell = Callable[[int, int], None]  # parts done, and of how many


def nobody(_done: int, _total: int) -> None:
    """Tells nobody."""


@contextmanager
def watched(spark: SparkContext, total: int, tell: Tell) -> Iterator[None]:
    """Within, `tell` hears how many of `total` tasks are done, twice a second."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, total, tell, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(spark: SparkContext, total: int, tell: Tell, over: threading.Event) -> None:
    tracker = spark.statusTracker()
    done: dict[int, int] = {}
    sizes: dict[int, int] = {}
    while not over.wait(_EVERY_S):
        # A stage that is active no longer has ended.
        done = dict(sizes)
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                sizes[stage], done[stage] = info.numTasks, info.numCompletedTasks
        tell(min(sum(done.values()), total), total)
