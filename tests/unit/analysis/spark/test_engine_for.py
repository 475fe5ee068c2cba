"""What judges a run: this process if it fits and the user has chosen no Spark, else Spark."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from kaput.analysis.spark import engines
from kaput.analysis.spark.engines import (
    MANY,
    OwnSpark,
    ProgramSpark,
    engine_for,
    engine_of_program,
    messages_to_judge,
)
from kaput.analysis.spark.in_process import ROOM_BYTES, THREADS_MAX, InProcess, WithoutSpark
from kaput.errors import JavaError
from kaput.scenario.loader import find, resolve
from waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Spark."""
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


@pytest.fixture(autouse=True)
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than this process makes use of."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2 * THREADS_MAX)


def test_a_run_is_judged_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the limit, and any run on few cores; else by Spark, as what only Spark can read."""
    with engine_for(MANY - 1) as engine:
        assert isinstance(engine.session(), InProcess)
    assert isinstance(engine_for(MANY), OwnSpark)
    monkeypatch.setattr(os, "cpu_count", lambda: THREADS_MAX)
    assert isinstance(engine_for(10 * MANY), WithoutSpark)
    assert isinstance(engine_for(None), OwnSpark)


def test_tasks_with_much_to_read_run_one_after_another() -> None:
    """Those that fit together do not wait, and one that is too large for that runs alone."""
    spark, began = InProcess(2), threading.Event()

    def large() -> None:
        with spark.room(3 * ROOM_BYTES):
            began.set()

    with spark.room(ROOM_BYTES), spark.room(ROOM_BYTES):
        waiting = threading.Thread(target=large)
        waiting.start()
        assert not began.wait(0.05)
    waiting.join(PATIENCE_S)
    assert began.is_set()


def test_tasks_may_leave_more_files_open_than_a_shell_allows() -> None:
    """A task of four million rows leaves one, and a billion have 250. What was started before judging, and
    what comes after it, keeps the limit of the shell.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = (before[1] - 1, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, few)
    try:
        with WithoutSpark() as engine:
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == few
            engine.session()
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == few
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_limit_that_cannot_be_raised_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an infinite one of macOS: judging begins all the same."""

    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with WithoutSpark() as engine:
        assert isinstance(engine.session(), InProcess)


def test_whoever_chooses_a_spark_gets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a master, a setting of Spark, or a directory of settings."""
    assert isinstance(engine_for(1, "local[*]"), OwnSpark)
    assert isinstance(engine_for(1, None, {"spark.executor.memory": "2g"}), OwnSpark)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert isinstance(engine_for(1), OwnSpark)


def test_only_spark_needs_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fewer messages are judged where there is none."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert isinstance(engine_for(1), WithoutSpark)
    with pytest.raises(JavaError):
        engine_for(MANY)


def test_a_run_of_unknown_size_needs_no_spark() -> None:
    assert 0 < messages_to_judge(resolve(find("noop")[1], [])) < MANY
    changes = ["workload.producers.0.duration=5s", "workload.producers.0.messages=null"]
    assert messages_to_judge(resolve(find("noop")[1], changes)) == 0


def test_a_program_with_a_spark_uses_it_for_small_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only without one are they judged in the program's own process."""
    own = ProgramSpark()
    monkeypatch.setattr(engines, "PROGRAM", own)
    there: Any = None
    monkeypatch.setattr(own, "_program_context", lambda: there)
    assert isinstance(engine_of_program(1), WithoutSpark)
    assert engine_of_program(MANY) is own
    there = object()
    assert engine_of_program(1) is own


def test_garbage_is_collected_as_before_when_judging_is_over() -> None:
    """A program that goes on afterwards is not left with rare collections."""
    before = gc.get_threshold()
    with WithoutSpark(1):
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's heap")
def test_memory_that_tasks_have_freed_is_returned() -> None:
    """After every fourth, although what they leave is above it in the heap."""
    left = []

    def task(_: Iterable[int]) -> Iterator[int]:
        freed = []
        for _ in range(20):
            freed.append(np.ones(2**20))
            left.append(np.ones(2**14))
        yield len(freed)

    def resident_mb() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))

    with WithoutSpark(1) as engine:
        before = resident_mb()
        after = []
        for _ in range(4):
            assert engine.session().parallelize([0], 1).mapPartitions(task).collect() == [20]
            after.append(resident_mb())
        assert min(after) < before + 80  # of 160


def test_the_heap_of_a_program_is_left_to_it() -> None:
    """As its allocators are: only where they were tuned is memory returned."""
    engine = WithoutSpark(1)
    assert not cast(InProcess, engine.session()).own
    with engine:
        assert cast(InProcess, engine.session()).own
