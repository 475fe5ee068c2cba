"""The Spark session of a Python program: its own if it has one, else one of kaput's until the program ends.

Not here: the command line's, which ends with a verb (background.py).
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

from kaput.analysis.spark.background import Background
from kaput.errors import UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext


class ProgramSession:
    """A session that is started at most once, and only if the program has none. See Background."""

    def __init__(self) -> None:
        self._background: Background | None = None

    def prepare(self) -> None:
        """Starts getting ready, behind the load of a run."""
        if self._theirs() is None:
            self._ours().prepare()

    def begin(self) -> None:
        """Starts a session in the background."""
        if self._theirs() is None:
            self._ours().begin()

    def session(self) -> SparkContext:
        """The session, waited for. Raises JavaError."""
        theirs = self._theirs()
        if theirs is not None:
            return theirs
        found = self._ours().session()
        if found._jsc is None:  # the program has stopped it
            self.close()
            found = self._ours().session()
        return found

    def close(self) -> None:
        """Stops kaput's own; the next call starts another one."""
        background, self._background = self._background, None
        if background is not None:
            background.__exit__(None, None, None)

    def _theirs(self) -> SparkContext | None:
        if self._background is not None or "pyspark" not in sys.modules:
            return None
        from pyspark import SparkContext

        theirs = SparkContext._active_spark_context
        return None if theirs is None else _with_this_python(theirs)

    def _ours(self) -> Background:
        if self._background is None:
            self._background = Background().__enter__()
            atexit.register(self.close)
        return self._background


PROGRAM = ProgramSession()


def context_of(spark: Any) -> SparkContext:
    """The context of a SparkSession, or the context itself. None: the program's. Raises UsageError."""
    if spark is None:
        return PROGRAM.session()
    kind = type(spark).__module__
    if ".connect." in kind:
        raise UsageError("spark: a Spark Connect session has no SparkContext, which the analysis needs")
    return _with_this_python(spark.sparkContext if kind.startswith("pyspark.sql") else spark)


def _with_this_python(context: SparkContext) -> SparkContext:
    """Workers on this machine run the program's Python, which has kaput, unless the user names another."""
    if getattr(context, "master", "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return context
