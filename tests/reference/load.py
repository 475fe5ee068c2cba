"""The evidence as DataFrames: the four big tables, with the contract's columns, and numbers for names.

`topic`, `grp` and `member` are numbers (names.py); `place` is the partition of a topic as one number, null
where the partition is not known. The small tables are read on the driver: inputs.py, timeline.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Names
from kaput.evidence.reading import TableFiles
from kaput.evidence.schemas import GROUP_EVENT_KINDS
from reference.words import KIND, PLACE, listed, quoted

_FEW = 16  # up to so many names are looked up one after the other, more by a join
_DDL = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean"}
ASSIGNMENT = f"kind IN ({KIND['assigned']}, {KIND['revoked']}, {KIND['lost']})"
GIVEN_UP = f"kind IN ({KIND['revoked']}, {KIND['lost']})"
GONE = f"kind IN ({KIND['left']}, {KIND['killed']})"
NAMED = "intact AND producer IS NOT NULL AND seq IS NOT NULL"  # a record that is known to be a message


@dataclass(frozen=True)
class Frames:
    """The tables."""

    spark: SparkSession
    names: Names
    sends: DataFrame
    log: DataFrame
    deliveries: DataFrame
    group_events: DataFrame
    transactions: DataFrame
    outputs: DataFrame
    dirty: frozenset[int]  # the groups with read_uncommitted

    @property
    def identified(self) -> DataFrame:
        """Log records that are a message."""
        return self.log.where(NAMED)

    @property
    def given(self) -> str:
        """SQL: whether a group (grp) is given a record of the log."""
        dirty = ", ".join(map(str, sorted(self.dirty)))
        return f"(visible OR grp IN ({dirty}))" if dirty else "visible"

    @property
    def handed(self) -> DataFrame:
        """Deliveries of a message."""
        return self.deliveries.where(NAMED)


def load(spark: SparkSession, given: Inputs) -> Frames:
    """The big tables of a checked run folder."""
    evidence, names = given.evidence, given.names

    def table(name: str) -> DataFrame:
        frame = _read(spark, evidence.tables[name])
        nullable = evidence.tables[name].table.schema.field("topic").nullable
        return _numbered(spark, frame, "topic", names.topics, "topic", nullable)

    def of_groups(name: str) -> DataFrame:
        frame = _numbered(spark, table(name), "group", names.groups, "grp")
        return _numbered(spark, frame, "member", names.members, "member").selectExpr("*", PLACE)

    # A negative epoch is a client's way to say that it knows none.
    epoch = "CASE WHEN leader_epoch >= 0 THEN leader_epoch END AS leader_epoch"
    kinds = f"CAST(array_position(array({listed(GROUP_EVENT_KINDS)}), kind) AS INT) AS kind"
    return Frames(
        spark,
        names,
        sends=table("sends").selectExpr("*", PLACE),
        log=_shown(table("log")).selectExpr(PLACE, "offset", epoch, "producer", "seq", "intact", "visible"),
        deliveries=of_groups("deliveries").select(
            "grp", "member", "place", "offset", "producer", "seq", "intact", "polled_ns"
        ),
        group_events=of_groups("group_events").selectExpr(
            "grp", "member", kinds, "topic", "place", "offset", "at_ns"
        ),
        transactions=_read(spark, evidence.tables["transactions"]).select(
            "producer", "transaction", "first_seq", "last_seq", F.col("outcome").alias("state")
        ),
        outputs=of_groups("outputs").select("grp", "producer", "seq", "place", "offset"),
        dirty=frozenset(n for n, word in enumerate(given.isolations) if word == "read_uncommitted"),
    )


def _shown(log: DataFrame) -> DataFrame:
    """Whether each record is visible; where nobody says, it is."""
    said = "coalesce(visible, true)" if "visible" in log.columns else "true"
    return log.withColumn("visible", F.expr(said))


def local(spark: SparkSession, rows: Sequence[dict[str, object]], schema: pa.Schema) -> DataFrame:
    """A small DataFrame of the driver's own rows."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))


def _read(spark: SparkSession, found: TableFiles) -> DataFrame:
    fields = [f for f in found.table.schema if f.name not in found.lacking]
    ddl = ", ".join(f"`{f.name}` {_DDL[f.type]}" for f in fields)
    if not found.files:
        return spark.createDataFrame([], ddl)
    alike: dict[frozenset[str], list[str]] = defaultdict(list)
    for path in found.files:
        alike[found.voids.get(path, frozenset())].append(_address(path))
    frames = [_columns(spark, fields, void, files) for void, files in alike.items()]
    return reduce(DataFrame.unionByName, frames)


def _columns(
    spark: SparkSession, fields: Sequence[pa.Field], void: frozenset[str], files: list[str]
) -> DataFrame:
    """The columns of some files; `void`: those that have no type there, which Spark would refuse to read."""
    ddl = ", ".join(f"`{f.name}` {_DDL[f.type]}" for f in fields if f.name not in void)
    null = {f.name: f"CAST(NULL AS {_DDL[f.type]}) AS `{f.name}`" for f in fields if f.name in void}
    return (
        spark.read.schema(ddl).parquet(*files).selectExpr(*(null.get(f.name, f"`{f.name}`") for f in fields))
    )


def _address(path: Path) -> str:
    """The path for Hadoop, whose file systems would take some characters for patterns."""
    plain = "".join("\\" + c if c in "\\{}[]*?" else c for c in str(path.resolve()))
    return f"file://{plain}"


def _numbered(
    spark: SparkSession, frame: DataFrame, column: str, names: Sequence[str], to: str, nullable: bool = False
) -> DataFrame:
    """The frame with text `column` replaced by numbers as `to`. `names` are all that the column holds."""
    if len(names) > _FEW:
        table = pa.table({column: pa.array(names), "number": pa.array(range(len(names)), pa.int32())})
        joined = frame.join(F.broadcast(spark.createDataFrame(table)), column, "left").drop(column)
        return joined.withColumnRenamed("number", to)
    return frame.withColumn(column, F.expr(_lookup(column, names, nullable))).withColumnRenamed(column, to)


def _lookup(column: str, names: Sequence[str], nullable: bool) -> str:
    """SQL for a few names; a single one is what every row has, and the column need not be read."""
    if len(names) == 1 and not nullable:
        return "0"
    whens = "".join(f" WHEN {quoted(name)} THEN {number}" for number, name in enumerate(names))
    return f"CASE {column}{whens} END" if whens else "CAST(NULL AS INT)"
