"""Which Spark a program's calls use: what it passes, what it has, else kaput's own, started once."""

from __future__ import annotations

import atexit
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from kaput.analysis.spark import engines
from kaput.analysis.spark.engines import ProgramSpark, context_of
from kaput.errors import UsageError


class FakeSpark:
    """A session that is there at once. `made`: all of them."""

    made: list[FakeSpark]

    def __init__(self) -> None:
        self.context = SimpleNamespace(_jsc=object())
        self.closed = False
        self.made.append(self)

    def __exit__(self, *error: object) -> None:
        self.closed = True

    def session(self) -> Any:
        return self.context


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> ProgramSpark:
    """Of a program that has no session of its own."""
    monkeypatch.setattr(engines, "OwnSpark", FakeSpark)
    monkeypatch.setattr(FakeSpark, "made", [], raising=False)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(atexit, "register", lambda _call: None)
    return ProgramSpark()


def test_kaputs_own_session_is_started_once(own: ProgramSpark) -> None:
    """Later calls use it; after it was closed there is another one."""
    assert own.session() is own.session()
    own.close()
    assert FakeSpark.made[0].closed
    own.session()
    assert len(FakeSpark.made) == 2


def test_a_session_that_the_program_has_stopped_is_replaced(own: ProgramSpark) -> None:
    """The first one is closed before the next one starts."""
    own.session()._jsc = None
    assert own.session()._jsc is not None
    assert [made.closed for made in FakeSpark.made] == [True, False]


def test_the_programs_own_session_is_used(own: ProgramSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started next to it, not even for a run."""
    theirs = SimpleNamespace(_jsc=object(), master="spark://host")
    monkeypatch.setattr(SparkContext, "_active_spark_context", theirs)
    assert own.session() is theirs and not FakeSpark.made


def test_a_spark_connect_session_is_refused() -> None:
    """It has no context to run the analysis with."""
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UsageError, match="Spark Connect"):
        context_of(connected)


def test_local_workers_run_the_programs_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has kaput; the user's own choice, and a cluster's, are left alone."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    here = SimpleNamespace(master="local[2]", pythonExec="python3")
    classic = type("SparkSession", (), {"__module__": "pyspark.sql.session", "sparkContext": here})()
    assert context_of(classic).pythonExec == sys.executable
    there = SimpleNamespace(master="spark://host:7077", pythonExec="python3")
    assert context_of(there).pythonExec == "python3"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.12")
    chosen = SimpleNamespace(master="local", pythonExec="python3.12")
    assert context_of(chosen).pythonExec == "python3.12"
