"""Spark jobs as the driver sees them: how far they are, and which kind of error a failed task is; and what
tasks leave in the memory of their process.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kaput.errors import EvidenceError, LabError

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker

IN_PROCESS = "in-process"  # the master of spark/in_process.py
_EVERY_S = 0.5
_TASKS_PER_TRIM = 4  # each leaves some 20 MB; after every one it costs 1 to 3 s with 50 million messages
_done = itertools.count(1)  # the tasks of this process

Progress = Callable[[int, int], None]  # tasks done, total


def ignored(_done: int, _total: int) -> None:
    """A Progress that does nothing."""


@contextmanager
def watched(spark: SparkContext, total: int, progress: Progress) -> Iterator[None]:
    """Inside the context, calls `progress` twice a second with the number of tasks done."""
    over = threading.Event()
    watched = (spark.statusTracker(), total, progress, over)
    watcher = threading.Thread(target=_watch, args=watched, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(tracker: StatusTracker, total: int, progress: Progress, over: threading.Event) -> None:
    sizes: dict[int, int] = {}
    try:
        while not over.wait(_EVERY_S):
            done = dict(sizes)  # a stage that is no longer active has ended
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    sizes[stage], done[stage] = info.numTasks, info.numCompletedTasks
            progress(min(sum(done.values()), total), total)
    except Exception as error:
        # If the JVM is gone the job itself fails, and its caller gets that error.
        if not _of_spark(error):
            raise


def after_task() -> None:
    """Returns memory that tasks have freed to the kernel, after some of them. By itself glibc returns only
    what is at the end of its heap, and what a task leaves there keeps the rest: 20 MB more with each.
    """
    if next(_done) % _TASKS_PER_TRIM == 0:
        with suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


class TaskError(Exception):
    """A Spark task failed unexpectedly. The message is Spark's."""


# Errors raised by a task, in Spark's message.
_RAISED_IN_TASK = re.compile(r"^(?:.*: )?kaput\.errors\.EvidenceError: (.+)$", re.MULTILINE)
_LAB_FAILED = re.compile(
    r"^(?:.*: )?kaput\.(?:errors|cluster\.wire)\.(?:LabError|Unanswered|AccessRefused|WrongProtocol): (.+)$",
    re.MULTILINE,
)
# The message of a task, or of Spark itself, about a file that it could not write.
_NOT_WRITTEN = re.compile(r"^(?:\w*Error: \[Errno (\d+)\]|.*\bNo space left on device)(.*)$", re.MULTILINE)


@contextmanager
def readable() -> Iterator[None]:
    """Raises EvidenceError for a file that cannot be read, LabError for a failure of the lab, OSError for a
    file that cannot be written, else TaskError.
    """
    try:
        yield
    except Exception as error:
        if not _of_spark(error):
            raise
        # Read now: the message of a Java exception is only available while its JVM lives.
        text = str(error)
        if match := _RAISED_IN_TASK.search(text):
            raise EvidenceError(match[1]) from None
        if match := _LAB_FAILED.search(text):
            raise LabError(match[1]) from None
        if match := _NOT_WRITTEN.search(text):
            number = int(match[1] or errno.ENOSPC)
            raise OSError(number, os.strerror(number), match[2].strip(" :'") or None) from None
        raise TaskError(text) from None


def _of_spark(error: Exception) -> bool:
    """Whether PySpark or Py4J raised an error. Small runs are judged without loading these."""
    return any(kind.__module__.startswith(("pyspark.", "py4j.")) for kind in type(error).__mro__)
