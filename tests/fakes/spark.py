"""The one Spark that all tests share: starting it costs more than most of them."""

from __future__ import annotations

from functools import cache

from pyspark import SparkContext

from kaput.analysis.spark.session import start

# For the analysis in SQL: what tests judge is small, shuffles and plans would cost more than the rows.
_SQL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
}


@cache
def shared_context() -> SparkContext:
    """Made at first use; ends with the process."""
    return start("local[2]", _SQL)
