"""Tables of a run folder as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import from_arrow_schema


def frame(context: SparkContext, files: Sequence[Path], schema: pa.Schema | None) -> DataFrame:
    """All rows of these Parquet files. Columns of the schema that they lack are null."""
    spark = SparkSession(context)
    if not files:
        return spark.createDataFrame([], from_arrow_schema(schema or pa.schema([])))
    found = spark.read.parquet(*(str(path.absolute()) for path in files))
    if schema is None:
        return found
    wanted = from_arrow_schema(schema)
    lacking = [lit(None).cast(f.dataType).alias(f.name) for f in wanted if f.name not in found.columns]
    return found.select("*", *lacking).select(*schema.names)
