"""The command kaput in this process, judging in a Spark that is there, or played.

For tests of what a command finds and says: a process with a JVM of its own for each takes seconds.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import SparkContext

from fakes.called import Said, called
from fakes.in_process import InProcess
from kaput.analysis.spark import engines


class InSession:
    """Calls the command; its Spark is `spark`, whatever it asks for."""

    def __init__(
        self,
        spark: SparkContext | InProcess,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setattr(engines, "engine_for", lambda *_, **__: _There(spark))

    def __call__(self, *words: str) -> Said:
        return called(list(words), self._monkeypatch, self._capsys)


class _There:
    """An engine whose session is there already."""

    def __init__(self, spark: SparkContext | InProcess) -> None:
        self._spark = spark

    def session(self) -> SparkContext | InProcess:
        return self._spark

    def __enter__(self) -> _There:
        return self

    def __exit__(self, *error: Any) -> None:
        """The session stays."""
