"""The big tables as frames: one row group at a time, with numbers for names, in the order in which it is
encoded.

    sends       producer, seq, topic, place, offset, outcome, error, attempt_ns, done_ns
    log         producer, seq, place, offset, epoch, intact
    deliveries  group, member, producer, seq, topic, place, offset, intact, polled_ns

Numbers are those of names.py. Not here: what becomes of the rows (run.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.analysis.names import SHIFT, Names
from kaput.evidence.parquet import (
    footer_of,
    nulls_alone,
    only_value,
    open_file,
    read_row_group,
    statistics_of,
    words_of,
)
from kaput.scenario.vocabulary import OUTCOMES

if TYPE_CHECKING:
    from kaput.evidence.reading import Evidence

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "sends": ("producer", "seq", "topic", "partition", "attempt_ns", "done_ns", "outcome", "offset", "error"),
    "log": ("topic", "partition", "offset", "leader_epoch", "producer", "seq", "intact"),
    "deliveries": (
        "group",
        "member",
        "topic",
        "partition",
        "offset",
        "producer",
        "seq",
        "intact",
        "polled_ns",
    ),
}
_WORDS = {
    "sends": ("topic", "outcome", "error"),
    "log": ("topic",),
    "deliveries": ("group", "member", "topic"),
}

FRAMES: Mapping[str, tuple[str, ...]] = {
    "sends": ("producer", "seq", "topic", "place", "offset", "outcome", "error", "attempt_ns", "done_ns"),
    "log": ("producer", "seq", "place", "offset", "epoch", "intact"),
    "deliveries": ("group", "member", "producer", "seq", "topic", "place", "offset", "intact", "polled_ns"),
}


class Unit(NamedTuple):
    """A row group: its table, its file, its number in it, how many rows it has."""

    table: str
    path: str
    number: int
    rows: int


def units(evidence: Evidence, table: str) -> Iterator[Unit]:
    """The row groups of a table that have any rows."""
    for path in evidence.tables[table].files:
        footer = footer_of(path)
        for index in range(footer.num_row_groups):
            rows = footer.row_group(index).num_rows
            if rows:
                # Tasks may run in other directories.
                yield Unit(table, str(path.resolve()), index, rows)


def read(unit: Unit, names: Names) -> pl.DataFrame:
    """The rows of a row group. Raises EvidenceError."""
    file = open_file(unit.path, _WORDS[unit.table])
    same = _same(file, unit)
    # A column of one value is not read at all.
    wanted = [name for name in COLUMNS[unit.table] if name not in same]
    table = read_row_group(file, unit.path, unit.number, wanted)
    columns = [_series(unit.path, name, table[name], vocabulary(name, names)) for name in wanted]
    rows = (
        pl.DataFrame(columns) if columns else pl.select(pl.repeat(0, unit.rows, dtype=pl.Int8).alias("none"))
    )
    rows = rows.with_columns(
        pl.lit(_number(name, value, vocabulary(name, names)), _dtype(name)).alias(name)
        for name, value in same.items()
    )
    return _placed(rows).select(FRAMES[unit.table])


def empty(table: str) -> pl.DataFrame:
    """A frame of no rows."""
    none = pl.DataFrame(schema=dict.fromkeys(FRAMES[table], pl.Int64))
    special = {"intact": pl.Boolean(), "error": pl.String(), "outcome": pl.Enum(OUTCOMES)}
    return none.with_columns(
        pl.lit(None, special[name]).alias(name) for name in none.columns if name in special
    )


def _same(file: pq.ParquetFile, unit: Unit) -> dict[str, object]:
    """The columns that have one value in all rows of the row group, which may be none."""
    group = file.metadata.row_group(unit.number)
    found: dict[str, object] = {}
    for name in COLUMNS[unit.table]:
        statistics = statistics_of(group, name)
        if name not in file.schema_arrow.names or nulls_alone(statistics, unit.rows):
            found[name] = None
        elif (value := only_value(statistics)) is not None:
            found[name] = value
    return found


def vocabulary(column: str, names: Names) -> Sequence[str] | None:
    """The words of a text column, whose numbers are their positions; None for other columns."""
    return {"topic": names.topics, "group": names.groups, "member": names.members, "outcome": OUTCOMES}.get(
        column
    )


def _series(path: str, name: str, array: pa.ChunkedArray, words: Sequence[str] | None) -> pl.Series:
    if words is None and name != "error":
        return pl.Series(name, array.cast(pa.bool_() if name == "intact" else pa.int64()))
    coded = (
        array.combine_chunks()
        if pa.types.is_dictionary(array.type)
        else array.combine_chunks().dictionary_encode()
    )
    known = words_of(path, name, coded.dictionary)
    indices = pl.Series(name, coded.indices.cast(pa.int64()))
    values = known if words is None else [_number(name, word, words) for word in known]
    return pl.Series(values, dtype=_dtype(name)).gather(indices).alias(name)


def _number(name: str, value: object, words: Sequence[str] | None) -> object:
    """A word's number; other values as they are. A word that no row has may be anything."""
    if value is None:
        return None
    if words is None:
        return str(value) if name == "error" else value
    return words.index(str(value)) if value in words else -1


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Topic and partition as one number."""
    epoch = pl.col("leader_epoch") if "leader_epoch" in rows.columns else pl.lit(None, pl.Int64)
    if "outcome" in rows.columns:
        rows = rows.with_columns(pl.col("outcome").cast(pl.UInt8).cat.to(pl.Enum(OUTCOMES)))
    return rows.with_columns(
        place=pl.when(pl.col("partition") >= 0).then(pl.col("topic") * SHIFT + pl.col("partition")),
        # A negative epoch is a client's way to say that it knows none.
        epoch=pl.when(epoch >= 0).then(epoch),
    )


def _dtype(name: str) -> type[pl.DataType]:
    return {"intact": pl.Boolean, "error": pl.String}.get(name, pl.Int64)
