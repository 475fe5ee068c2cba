"""The shared Spark as a fixture."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from fakes.in_process import InProcess
from fakes.in_session import InSession
from fakes.spark import shared_context


@pytest.fixture(scope="session")
def spark() -> SparkContext:
    """One Spark for the whole test run."""
    return shared_context()


@pytest.fixture
def in_session(
    spark: SparkContext, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InSession:
    """The command, in this process and in that Spark."""
    return InSession(spark, monkeypatch, capsys)


@pytest.fixture
def played() -> InProcess:
    """Spark's part, played in this process: for histories of a few rows, which no distribution changes."""
    return InProcess()


@pytest.fixture
def in_process(
    played: InProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InSession:
    """The command, in this process and without a JVM."""
    return InSession(played, monkeypatch, capsys)
