"""What judges: Spark, or this process (in_process.py).

Nothing here imports PySpark at module level: that takes a second, which most programs do not need.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kaput.analysis.spark.in_process import THREADS_MAX, WithoutSpark
from kaput.errors import UsageError
from kaput.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from kaput.scenario.model import Scenario

MANY = 100_000_000  # messages: from there on, a local Spark makes use of many cores (docs/decisions/0078)


def messages_to_judge(scenario: Scenario) -> int:
    """How many messages a run will have, 0 if that is unknown."""
    from kaput.scenario.timeline import total_messages

    return total_messages(scenario) or 0


def _fits(messages: int) -> bool:
    """Whether so many messages are judged without Spark: they are few enough, and the user has not set one
    up.
    """
    return messages < MANY and not os.environ.get("SPARK_CONF_DIR")


def engine_for(
    messages: int | None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    threads: int | None = None,
) -> OwnSpark | WithoutSpark:
    """What judges so many messages: Spark, or `threads` of this process. None: how many is not known before
    Spark has read them. Raises JavaError.
    """
    few_cores = (os.cpu_count() or 1) <= THREADS_MAX
    if messages is not None and not master and not conf and _fits(0 if few_cores else messages):
        return WithoutSpark(threads)
    find_java()
    return OwnSpark(master, conf)


class OwnSpark:
    """A session that starts when it is first asked for. A context manager, which stops it."""

    def __init__(self, master: str | None = None, conf: Mapping[str, str] | None = None) -> None:
        self._master, self._conf = master, conf
        self._context: SparkContext | None = None
        self._stack = ExitStack()

    def session(self) -> SparkContext:
        """The session. Raises JavaError."""
        if self._context is None:
            from kaput.analysis.spark.session import owned

            self._context = self._stack.enter_context(owned(self._master, self._conf))
        return self._context

    def __enter__(self) -> OwnSpark:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


class ProgramSpark:
    """The session of a Python program: its own if it has one, else one of kaput's, which ends with it."""

    def __init__(self) -> None:
        self._own: OwnSpark | None = None

    def session(self) -> SparkContext:
        """Returns the session. Raises JavaError."""
        theirs = self._program_context()
        if theirs is not None:
            return theirs
        context = self._own_spark().session()
        if context._jsc is None:  # the program has stopped it
            self.close()
            context = self._own_spark().session()
        return context

    def there(self) -> bool:
        """Whether the program has a session, or kaput has one for it."""
        return self._own is not None or self._program_context() is not None

    def close(self) -> None:
        """Stops kaput's own session; the next call starts another one."""
        own, self._own = self._own, None
        if own is not None:
            own.__exit__(None, None, None)

    def _program_context(self) -> SparkContext | None:
        if self._own is not None or "pyspark" not in sys.modules:
            return None
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        return None if context is None else _with_this_python(context)

    def _own_spark(self) -> OwnSpark:
        if self._own is None:
            self._own = OwnSpark()
            atexit.register(self.close)
        return self._own


PROGRAM = ProgramSpark()


def engine_of_program(messages: int) -> ProgramSpark | WithoutSpark:
    """What judges so many messages: the program's Spark; without one, this process below MANY."""
    return WithoutSpark() if _fits(messages) and not PROGRAM.there() else PROGRAM


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
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return context


def frame(context: SparkContext, files: Sequence[Path], schema: pa.Schema | None) -> DataFrame:
    """All rows of these Parquet files. Columns of the schema that they lack are null."""
    import pyarrow as pa
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
