"""The one Spark that all tests share: starting it costs more than most of them."""

from __future__ import annotations

import atexit
from functools import cache

from pyspark import SparkContext

from kaput.analysis.spark.session import close, start
from kaput.processes.ownership import Owner

# For the analysis in SQL: what tests judge is small, shuffles and plans would cost more than the rows.
_SQL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Nor is it worth it to make Java of a plan and to compile that.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
    # Each column would note where in our code it was made, through Java and back.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


@cache
def shared_context() -> SparkContext:
    """Made at first use; ends with the process."""
    owner = Owner(marks_environment=False).__enter__()
    atexit.register(owner.__exit__)
    context = start(owner.own_path, "local[2]", _SQL)
    atexit.register(close)
    return context
