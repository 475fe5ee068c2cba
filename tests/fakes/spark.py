"""The one Spark session that all tests share: starting it costs more than most of them."""

from __future__ import annotations

from functools import cache

from pyspark.sql import SparkSession

from kaput.analysis.spark.session import start


@cache
def shared_session() -> SparkSession:
    """Made at first use; ends with the process."""
    return start("local[2]", {"spark.sql.shuffle.partitions": "2"})
