"""Other ways to the same answer: how many messages met which fate, from the Parquet files of a run folder.

Each way answers outcome x stored (0, 1, n) x delivered (0, 1, n) for a run with one group, and nothing else;
everything.py, the other peer, and `kaput analyze`, which ledger.py holds against all of them, count every
anomaly. Run as: peers.py WAY RUN_DIR
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

OUTCOMES = ("acked", "failed", "unknown", "kept", "refused")
FEW = ("0", "1", "n")
Cells = dict[str, int]


def polars_plain(run: Path) -> Cells:
    """Two lazy group-bys and two joins on (producer, seq), streamed."""
    import polars as pl

    who = ["producer", "seq"]

    def times(table: str, name: str) -> pl.LazyFrame:
        rows = pl.scan_parquet(files(run, table)).filter(pl.col("intact") & pl.col("seq").is_not_null())
        return rows.group_by(who).agg(pl.len().alias(name))

    counted = (
        pl.scan_parquet(files(run, "sends"))
        .select(*who, "outcome")
        .join(times("log", "stored"), on=who, how="left")
        .join(times("deliveries", "delivered"), on=who, how="left")
        .group_by("outcome", *(pl.col(c).fill_null(0).clip(upper_bound=2) for c in ("stored", "delivered")))
        .len()
        .collect(engine="streaming")
    )
    return named(counted.iter_rows())


def polars_packed(run: Path) -> Cells:
    """One number for a message, the three tables in one column, one group-by."""
    import polars as pl

    def claims(table: str, outcome: pl.Expr, stored: int, delivered: int) -> pl.LazyFrame:
        rows = pl.scan_parquet(files(run, table))
        if table != "sends":
            rows = rows.filter(pl.col("intact") & pl.col("seq").is_not_null())
        return rows.select(
            pl.col("producer").cast(pl.Int64) * 2**40 + pl.col("seq"),
            outcome.cast(pl.Int8).alias("outcome"),
            pl.lit(stored, pl.UInt8).alias("stored"),
            pl.lit(delivered, pl.UInt8).alias("delivered"),
        )

    none = pl.lit(-1)
    every = pl.concat(
        [claims("sends", polars_number(), 0, 0), claims("log", none, 1, 0), claims("deliveries", none, 0, 1)]
    )
    counted = (
        every.group_by("producer")
        .agg(pl.col("outcome").max(), pl.col("stored", "delivered").cast(pl.Int32).sum())
        .filter(pl.col("outcome") >= 0)
        .group_by("outcome", pl.col("stored", "delivered").clip(upper_bound=2))
        .len()
        .collect(engine="streaming")
    )
    return named((OUTCOMES[o], s, d, n) for o, s, d, n in counted.iter_rows())


def polars_dense(run: Path) -> Cells:
    """Polars reads, file by file, and numpy counts in arrays that have a place for every message."""
    import polars as pl

    def column(path: str, wanted: str) -> Any:
        rows = pl.scan_parquet(path)
        if wanted == "outcome":
            return rows.select("producer", "seq", polars_number().cast(pl.Int8))
        return rows.filter(pl.col("intact") & pl.col("seq").is_not_null()).select("producer", "seq")

    def numpy(path: str, wanted: str) -> list[Any]:
        return [c.to_numpy() for c in column(path, wanted).collect().iter_columns()]

    return dense(run, numpy)


def polars_number() -> Any:
    """The outcome's position in OUTCOMES."""
    import polars as pl

    outcome = pl.col("outcome")
    return pl.when(outcome == "acked").then(0).when(outcome == "failed").then(1).otherwise(2)


def duckdb_plain(run: Path) -> Cells:
    """Two group-bys and two joins on (producer, seq)."""
    import duckdb

    connection = duckdb.connect()
    for table in ("sends", "log", "deliveries"):
        connection.read_parquet(files(run, table)).create_view(table)
    times = "SELECT producer, seq, count(*) AS n FROM {} WHERE intact AND seq IS NOT NULL GROUP BY ALL"
    counted = connection.execute(
        f"""
        SELECT outcome, least(coalesce(stored.n, 0), 2), least(coalesce(delivered.n, 0), 2), count(*)
        FROM sends
        LEFT JOIN ({times.format("log")}) AS stored USING (producer, seq)
        LEFT JOIN ({times.format("deliveries")}) AS delivered USING (producer, seq)
        GROUP BY ALL
        """
    )
    return named(counted.fetchall())


def duckdb_dense(run: Path) -> Cells:
    """DuckDB reads, file by file, and numpy counts in arrays that have a place for every message."""
    import duckdb

    word = f"CAST(list_position({list(OUTCOMES)}, outcome) - 1 AS TINYINT)"
    connection = duckdb.connect()

    def numpy(path: str, wanted: str) -> list[Any]:
        chosen = f"producer, seq, {word}" if wanted == "outcome" else "producer, seq"
        where = "" if wanted == "outcome" else "WHERE intact AND seq IS NOT NULL"
        asked = connection.execute(f"SELECT {chosen} FROM read_parquet(?) {where}", [path])
        return list(asked.fetchnumpy().values())

    return dense(run, numpy)


def python_sets(run: Path) -> Cells:
    """A Python object for every message, as Kafka's own system tests compare what was acked and consumed."""
    import pyarrow.parquet as pq

    def rows(table: str, *columns: str) -> Iterable[tuple[Any, ...]]:
        for path in files(run, table):
            read = pq.read_table(path, columns=list(columns))
            yield from zip(*(read[name].to_pylist() for name in columns), strict=True)

    def times(table: str) -> Counter[tuple[int, int]]:
        return Counter((p, s) for p, s, intact in rows(table, "producer", "seq", "intact") if intact)

    stored, delivered = times("log"), times("deliveries")
    cells = Counter(
        (outcome, min(stored[p, s], 2), min(delivered[p, s], 2))
        for p, s, outcome in rows("sends", "producer", "seq", "outcome")
    )
    return named((*cell, count) for cell, count in cells.items())


def spark_sql(run: Path) -> Cells:
    """One number for a message, one number for what is said of it, one sum."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "8",
    }
    producers, messages = extent(files(run, "sends"))
    if producers * messages <= 2_000_000:
        # So few are counted before Java's second compiler pays.
        settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    delivery, outcome = 2**24, 2**48  # a stored record counts 1
    number = " ".join(f"WHEN '{word}' THEN {place * outcome}L" for place, word in enumerate(OUTCOMES, 1))

    def claims(table: str, said: str) -> Any:
        rows = spark.read.parquet(*files(run, table))
        if table != "sends":
            rows = rows.where("intact AND seq IS NOT NULL")
        return rows.selectExpr("shiftleft(CAST(producer AS BIGINT), 40) | seq AS who", f"{said} AS said")

    every = claims("sends", f"CASE outcome {number} END").union(claims("log", "1L"))
    sums = every.union(claims("deliveries", f"{delivery}L")).groupBy("who").agg(F.sum("said").alias("said"))
    cells = sums.where(f"said >= {outcome}").groupBy(
        F.expr(f"CAST(said DIV {outcome} AS INT)"),
        F.expr(f"least(said % {delivery}, 2)"),
        F.expr(f"least(said % {outcome} DIV {delivery}, 2)"),
    )
    found = named((OUTCOMES[o - 1], s, d, n) for o, s, d, n in cells.count().collect())
    spark.stop()
    return found


def dense(run: Path, read: Callable[[str, str], list[Any]]) -> Cells:
    """Counts with a place for every message: seq * producers + producer. `read` gives numpy columns.

    Sequence numbers are dense, so that each file touches one stretch of the places only.
    """
    import numpy as np

    sends = files(run, "sends")
    producers, messages = extent(sends)
    places = producers * messages
    outcome = np.full(places, 3, np.uint8)
    for path in sends:
        producer, seq, number = read(path, "outcome")
        outcome[seq * producers + producer] = number
    cells = outcome
    for table in ("log", "deliveries"):
        times = np.zeros(places, np.uint8)
        for path in files(run, table):
            producer, seq = read(path, table)
            # What cannot have been sent is left out; what was not sent has no outcome.
            known = (producer < producers) & (seq < messages)
            place = (seq * producers + producer)[known]
            if len(place):
                low = int(place.min())
                found = np.bincount(place - low)
                stretch = times[low : low + len(found)]
                np.minimum(stretch + found, 2, out=stretch, casting="unsafe")
        cells = cells * np.uint8(3) + times
    counts = np.bincount(cells)[: 9 * len(OUTCOMES)].tolist()
    return named((OUTCOMES[c // 9], c // 3 % 3, c % 3, n) for c, n in enumerate(counts) if n)


def extent(sends: list[str]) -> tuple[int, int]:
    """How many producers, and the most messages of one, from the footers' statistics."""
    import pyarrow.parquet as pq

    most = [0, 0]
    for path in sends:
        footer = pq.read_metadata(path)
        for group in range(footer.num_row_groups):
            for column in (0, 1):
                greatest = footer.row_group(group).column(column).statistics.max
                most[column] = max(most[column], greatest + 1)
    return most[0], most[1]


def files(run: Path, table: str) -> list[str]:
    """The Parquet files of a table."""
    return sorted(str(path) for path in (run / "evidence" / table).glob("*.parquet"))


def named(rows: Iterable[tuple[Any, ...]]) -> Cells:
    """Rows of (outcome, times stored, times delivered, messages) under the names of expected.json."""
    return {f"{o}/{FEW[s]}/{FEW[d]}": int(n) for o, s, d, n in rows}


WAYS: dict[str, Callable[[Path], Cells]] = {
    "polars": polars_plain,
    "polars-packed": polars_packed,
    "polars-dense": polars_dense,
    "duckdb": duckdb_plain,
    "duckdb-dense": duckdb_dense,
    "python-sets": python_sets,
    "spark-sql": spark_sql,
}

if __name__ == "__main__":
    print(json.dumps(WAYS[sys.argv[1]](Path(sys.argv[2]))))
