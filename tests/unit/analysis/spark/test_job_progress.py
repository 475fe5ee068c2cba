"""How far a job has come, of a JVM that dies meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from kaput.analysis.engine import spark_jobs
from waiting import wait_for


class Dying:
    """A Spark whose JVM is gone as soon as it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def statusTracker(self) -> Dying:
        return self

    def getActiveStageIds(self) -> list[int]:
        self.asked += 1
        raise Py4JNetworkError("Answer from Java side is empty")


def test_a_jvm_that_dies_ends_the_watcher_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a run that is interrupted during its rehearsal; the job's own caller gets the error."""
    printed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    monkeypatch.setattr(spark_jobs, "_EVERY_S", 0.001)
    spark = Dying()
    with spark_jobs.watched(spark, 4, spark_jobs.ignored):  # type: ignore[arg-type]
        wait_for(lambda: spark.asked > 0, "the first question")
    assert spark.asked == 1 and not printed
