"""The same evidence as each library that people use would write it: every encoding that texts can have.

A writer takes one table with the contract's types, the name of the table and the directory for its files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import SparkSession

Writer = Callable[[pa.Table, Path], None]
INDICES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
UNUSED = ("", "a word of no row", "zz")
_PANDAS = {pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


def texts(table: pa.Table) -> list[str]:
    """The names of the columns that are text."""
    return [field.name for field in table.schema if pa.types.is_string(field.type)]


def words(table: pa.Table, column: str) -> list[str]:
    """The distinct words of a column, in no natural order."""
    found = [word for word in table[column].unique().to_pylist() if word is not None]
    return sorted(found, reverse=True)


def with_texts(table: pa.Table, change: Callable[[pa.Array], pa.Array]) -> pa.Table:
    """The table with each text column in another encoding; lists become large ones where texts do."""
    for name in texts(table):
        at = table.schema.get_field_index(name)
        array = change(table[name].combine_chunks())
        table = table.set_column(at, pa.field(name, array.type, table.schema.field(name).nullable), array)
    return table


def with_large_lists(table: pa.Table) -> pa.Table:
    """The table with 64-bit lists."""
    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            kind = pa.large_list(field.type.value_type)
            table = table.set_column(at, pa.field(field.name, kind), table[field.name].cast(kind))
    return table


def dictionary(index: pa.DataType, value: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """A text column as a dictionary with words that no row uses, before and behind the others."""

    def change(array: pa.Array) -> pa.Array:
        used = sorted({word for word in array.to_pylist() if word is not None}, reverse=True)
        listed = [UNUSED[0], *used, *UNUSED[1:]]
        numbers = [None if word is None else listed.index(word) for word in array.to_pylist()]
        return pa.DictionaryArray.from_arrays(pa.array(numbers, index), pa.array(listed, value))

    return change


def _plainly(change: Callable[[pa.Array], pa.Array] | None = None, **options: Any) -> Writer:
    def write(table: pa.Table, directory: Path) -> None:
        encoded = with_texts(table, change) if change else table
        encoding = options.get("column_encoding")
        more = {"column_encoding": dict.fromkeys(texts(table), encoding)} if encoding else {}
        pq.write_table(encoded, directory / "part-0.parquet", **{**options, **more})

    return write


def _large(table: pa.Table, directory: Path) -> None:
    large = with_large_lists(with_texts(table, lambda array: array.cast(pa.large_string())))
    pq.write_table(large, directory / "part-0.parquet")


def _doubled(array: pa.Array) -> pa.Array:
    """A dictionary that has each of its words twice, and rows that use both."""
    known = sorted({word for word in array.to_pylist() if word is not None})
    numbers = [
        None if word is None else known.index(word) + len(known) * (row % 2)
        for row, word in enumerate(array.to_pylist())
    ]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int16()), pa.array([*known, *known]))


def _void(table: pa.Table) -> pa.Table:
    """What is null throughout without a type, as pandas writes it."""
    for at, field in enumerate(table.schema):
        if field.nullable and table[field.name].null_count == table.num_rows > 0:
            table = table.set_column(at, field.name, pa.nulls(table.num_rows))
    return table


def _each_another(table: pa.Table, directory: Path) -> None:
    """Three files with row groups of two rows, each in an encoding of its own."""
    third = -(-table.num_rows // 3)
    ways: list[tuple[Callable[[pa.Array], pa.Array], bool]] = [
        (dictionary(pa.uint8(), pa.large_string()), False),
        (lambda array: array.cast(pa.string_view()), False),
        (lambda array: array, True),
    ]
    for number, (change, deltas) in enumerate(ways):
        part = _void(table.slice(number * third, third))
        encodings = dict.fromkeys(texts(part), "DELTA_BYTE_ARRAY") if deltas else None
        file = directory / f"part-{number}.parquet"
        pq.write_table(
            with_texts(part, change),
            file,
            row_group_size=2,
            use_dictionary=number == 0,
            column_encoding=encodings,
        )


def _pyarrow() -> dict[str, Writer]:
    views = _plainly(lambda array: array.cast(pa.string_view()))
    encodings = ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")
    return {
        "large_string": _large,
        "string_view": views,
        "words twice": _plainly(_doubled),
        "each file another": _each_another,
        "no statistics": _plainly(dictionary(pa.int32(), pa.string()), write_statistics=False),
        "no Arrow schema": _plainly(dictionary(pa.int32(), pa.string()), store_schema=False),
        "pages v2": _plainly(data_page_version="2.0", version="1.0", row_group_size=3),
        **{name: _plainly(use_dictionary=False, column_encoding=name) for name in encodings},
        **{f"dictionary {index}": _plainly(dictionary(index, pa.string())) for index in INDICES},
        "dictionary large": _plainly(dictionary(pa.int32(), pa.large_string())),
    }


def _by_pandas(change: Callable[[pd.Series, list[str]], pd.Series]) -> Writer:
    def dtype(kind: pa.DataType) -> Any:
        return pd.ArrowDtype(kind) if pa.types.is_map(kind) else _PANDAS.get(kind)

    def write(table: pa.Table, directory: Path) -> None:
        frame = table.to_pandas(types_mapper=dtype)
        for name in texts(table):
            frame[name] = change(frame[name], words(table, name))
        frame.to_parquet(directory / "pandas.parquet")

    return write


def _category(column: pd.Series, known: list[str]) -> pd.Series:
    return column.astype(pd.CategoricalDtype([UNUSED[1], *known, UNUSED[2]]))


def _by_polars(change: Callable[[pl.Series, list[str]], pl.Series]) -> Writer:
    def write(table: pa.Table, directory: Path) -> None:
        if any(pa.types.is_map(kind) for kind in table.schema.types):
            pq.write_table(table, directory / "part-0.parquet")  # Polars has no maps
            return
        frame = pl.DataFrame(pl.from_arrow(table))
        frame = frame.with_columns(change(frame[name], words(table, name)) for name in texts(table))
        frame.write_parquet(directory / "polars.parquet", row_group_size=5)

    return write


def _by_duckdb(enum: bool, version: str) -> Writer:
    def write(table: pa.Table, directory: Path) -> None:
        with duckdb.connect() as connection:
            connection.register("evidence", table)
            changes = []
            for name in texts(table) if enum else ():
                listed = ", ".join("'" + w.replace("'", "''") + "'" for w in (*UNUSED, *words(table, name)))
                connection.execute(f'CREATE TYPE "of_{name}" AS ENUM ({listed})')
                changes.append(f'"{name}"::"of_{name}" AS "{name}"')
            replaced = f"* REPLACE ({', '.join(changes)})" if changes else "*"
            file = str(directory / "duckdb.parquet").replace("'", "''")
            options = f"FORMAT parquet, PARQUET_VERSION {version}"
            connection.execute(f"COPY (SELECT {replaced} FROM evidence) TO '{file}' ({options})")

    return write


def by_spark(spark: SparkContext, by: Sequence[str] = (), **options: str) -> Writer:
    """Spark's own writer, with some of parquet-java's options (`_` for `.`). `by`: the columns of which
    folders name the values, in tables that have them.
    """

    def write(table: pa.Table, directory: Path) -> None:
        frame = SparkSession(spark).createDataFrame(table).coalesce(1)
        more = {name.replace("_", "."): value for name, value in options.items()}
        write = frame.write.mode("overwrite").options(**more)
        write.partitionBy(*(name for name in by if name in table.schema.names)).parquet(f"file://{directory}")

    return write


WRITERS: dict[str, Writer] = {
    **{f"pyarrow, {name}": writer for name, writer in _pyarrow().items()},
    "pandas, str": _by_pandas(lambda column, _: column),
    "pandas, object": _by_pandas(lambda column, _: column.astype(object)),
    "pandas, string[pyarrow]": _by_pandas(lambda column, _: column.astype("string[pyarrow]")),
    "pandas, category": _by_pandas(_category),
    "Polars, String": _by_polars(lambda column, _: column),
    "Polars, Categorical": _by_polars(lambda column, _: column.cast(pl.Categorical)),
    "Polars, Enum": _by_polars(lambda column, known: column.cast(pl.Enum([*UNUSED, *known]))),
    **{
        f"DuckDB, {'ENUM' if enum else 'VARCHAR'}, {version}": _by_duckdb(enum, version)
        for enum in (False, True)
        for version in ("V1", "V2")
    },
}
