"""The Spark session of a Python program: the program's own if it has one, else one of kaput's.

kaput's ends with the program. Not here: the command line's session, which ends with the command
(background.py).
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

from kaput.analysis.spark.background import MANY, Background, without_spark
from kaput.analysis.spark.in_process import WithoutSpark
from kaput.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame


class ProgramSession:
    """Starts a session at most once, and only if the program has none. See Background."""

    def __init__(self) -> None:
        self._background: Background | None = None

    def begin(self) -> None:
        """Starts a session in the background."""
        if self._program_context() is None:
            self._own_background().begin()

    def session(self) -> SparkContext:
        """Waits for the session and returns it. Raises JavaError."""
        own = self._program_context()
        if own is not None:
            return own
        context = self._own_background().session()
        if context._jsc is None:  # the program has stopped it
            self.close()
            context = self._own_background().session()
        return context

    def there(self) -> bool:
        """Whether the program has a session, or kaput has begun one for it."""
        return self._background is not None or self._program_context() is not None

    def close(self) -> None:
        """Stops kaput's own session; the next call starts another one."""
        background, self._background = self._background, None
        if background is not None:
            background.__exit__(None, None, None)

    def _program_context(self) -> SparkContext | None:
        if self._background is not None or "pyspark" not in sys.modules:
            return None
        from pyspark import SparkContext

        own = SparkContext._active_spark_context
        return None if own is None else _with_this_python(own)

    def _own_background(self) -> Background:
        if self._background is None:
            self._background = Background().__enter__()
            atexit.register(self.close)
        return self._background


PROGRAM = ProgramSession()


def engine_of_program(messages: int) -> ProgramSession | WithoutSpark:
    """What judges so many messages: the program's Spark; without one, this process below MANY."""
    return WithoutSpark() if without_spark(messages) and not PROGRAM.there() else PROGRAM


def context_of(spark: Any, messages: int = MANY) -> SparkContext:
    """The context of a SparkSession, or the context itself; for None the program's, or what stands in for it
    with so many messages. Raises UsageError.
    """
    if spark is None:
        return engine_of_program(messages).session()
    kind = type(spark).__module__
    if ".connect." in kind:
        raise UsageError("spark: a Spark Connect session has no SparkContext, which the analysis needs")
    return _with_this_python(spark.sparkContext if kind.startswith("pyspark.sql") else spark)


def _with_this_python(context: SparkContext) -> SparkContext:
    """Makes local workers run this Python, which has kaput, unless the user set another."""
    if getattr(context, "master", "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return context


def frame(context: SparkContext, files: Sequence[Path], schema: pa.Schema | None) -> DataFrame:
    """All rows of these Parquet files. Columns of the schema that they lack are null."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import lit
    from pyspark.sql.pandas.types import from_arrow_schema

    spark = SparkSession(context)
    if not files:
        return spark.createDataFrame([], from_arrow_schema(schema or pa.schema([])))
    rows = spark.read.parquet(*(str(path.absolute()) for path in files))
    if schema is None:
        return rows
    wanted = from_arrow_schema(schema)
    lacking = [lit(None).cast(f.dataType).alias(f.name) for f in wanted if f.name not in rows.columns]
    return rows.select("*", *lacking).select(*schema.names)
