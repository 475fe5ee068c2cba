"""The evidence as DataFrames: the four big tables, with the contract's columns and types.

The small tables (faults, cluster_events, end_offsets) are read on the driver: inputs.py, timeline.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaput.evidence.reading import Evidence, TableFiles

_DDL = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean"}


@dataclass(frozen=True)
class Frames:
    """`identified` and `handed` are the intact rows of log and deliveries that carry an identity.

    `deliveries` and `group_events` have `grp` (the group's index in `groups`), `file` and `row` (file order).
    """

    spark: SparkSession
    groups: Sequence[str]
    sends: DataFrame
    log: DataFrame
    deliveries: DataFrame
    group_events: DataFrame

    @property
    def identified(self) -> DataFrame:
        """Log records that are a message."""
        return self.log.where("intact AND producer IS NOT NULL AND seq IS NOT NULL")

    @property
    def handed(self) -> DataFrame:
        """Deliveries of a message."""
        return self.deliveries.where("intact AND producer IS NOT NULL AND seq IS NOT NULL")


def load(spark: SparkSession, evidence: Evidence, groups: Sequence[str]) -> Frames:
    """The big tables of a checked run folder."""
    tables = evidence.tables
    return Frames(
        spark,
        groups,
        sends=_read(spark, tables["sends"]),
        # A negative epoch is a client's way to say that it knows none.
        log=_read(spark, tables["log"]).withColumn(
            "leader_epoch", F.expr("CASE WHEN leader_epoch >= 0 THEN leader_epoch END")
        ),
        deliveries=_numbered(_read(spark, tables["deliveries"], in_order=True), groups),
        group_events=_numbered(_read(spark, tables["group_events"], in_order=True), groups),
    )


def local(spark: SparkSession, rows: Sequence[dict[str, object]], schema: pa.Schema) -> DataFrame:
    """A small DataFrame of the driver's own rows."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))


def quoted(text: str) -> str:
    """Text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _read(spark: SparkSession, found: TableFiles, in_order: bool = False) -> DataFrame:
    fields = [f for f in found.table.schema if f.name not in found.lacking]
    order = [("file", "string"), ("row", "bigint")] if in_order else []
    ddl = ", ".join(f"`{f.name}` {_DDL[f.type]}" for f in fields)
    if not found.files:
        names = ", ".join(f"`{name}` {kind}" for name, kind in order)
        return spark.createDataFrame([], ddl + (", " + names if names else ""))
    frame = spark.read.schema(ddl).parquet(*(_address(path) for path in found.files))
    if in_order:
        frame = frame.selectExpr("*", "_metadata.file_name AS file", "_metadata.row_index AS row")
    return frame


def _address(path: Path) -> str:
    """The path for Hadoop, whose file systems would take some characters for patterns."""
    plain = "".join("\\" + c if c in "\\{}[]*?" else c for c in str(path.resolve()))
    return f"file://{plain}"


def _numbered(frame: DataFrame, groups: Sequence[str]) -> DataFrame:
    names = ", ".join(quoted(group) for group in groups)
    number = f"CAST(array_position(array({names}), group) - 1 AS INT)" if groups else "CAST(NULL AS INT)"
    return frame.selectExpr("*", f"{number} AS grp")
