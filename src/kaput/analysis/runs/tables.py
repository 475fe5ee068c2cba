"""Reads the big tables as frames: one row group at a time, with numbers instead of names (names.py).

Which columns: columns.py. A topic of a named cluster is `dc2:orders`. Not here: encoding rows as runs
(encoding.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.analysis.runs.columns import ENCODINGS, InRun, type_of
from kaput.analysis.runs.names import Names
from kaput.core import qualified
from kaput.evidence.parquet import (
    DAMAGE,
    all_null,
    bounds,
    broken,
    footer_of,
    only_value,
    open_file,
    read_row_group,
    statistics_of,
    with_clusters,
    words_of,
)
from kaput.evidence.schemas import CLUSTER, SHARE_EVENT_KINDS, TABLES
from kaput.scenario.vocabulary import OUTCOMES, TRANSACTION_OUTCOMES

if TYPE_CHECKING:
    from kaput.evidence.reading import Evidence

MOST_MESSAGES = 2**31  # of a transaction


class Unit(NamedTuple):
    """A row group: its table, file, index in the file, and number of rows."""

    table: str
    path: str
    number: int
    rows: int


class TableRows(NamedTuple):
    """`frame`: the columns in which rows differ, as they are in the file; `same`: the value of each constant
    column; `words`: by column, what its numbers stand for.
    """

    table: str
    frame: pl.DataFrame
    same: Mapping[str, object] = {}
    words: Mapping[str, pl.Series] = {}

    def complete(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Some of the rows, or runs of them, with all columns of ENCODINGS. What is equal in the rows of runs
        is thus decoded and computed once.
        """
        computed = ENCODINGS[self.table].computed
        half = [name for name, kind in frame.schema.items() if kind == pl.Int32 and name not in self.words]
        decoded = frame.with_columns(
            *(words.gather(frame[name]).alias(name) for name, words in self.words.items()),
            *(pl.lit(value, type_of(name)).alias(name) for name, value in self.same.items()),
            *(pl.col(name).cast(pl.Int64) for name in half),
        )
        lacking = [name for name in computed if name not in decoded.columns]
        if not lacking:
            return decoded
        sources = {source for name in lacking for source in computed[name][1]} - computed.keys()
        known = decoded.with_columns(computed[name][0].alias(name) for name in lacking)
        return known.drop(sources - set(ENCODINGS[self.table].columns))

    def whole(self) -> pl.DataFrame:
        """Every row with all columns, in a fixed column order."""
        rows = self.complete(self.frame)
        return rows.select(sorted(rows.columns))


def units(evidence: Evidence, table: str) -> Iterator[Unit]:
    """The nonempty row groups of a table."""
    for path in evidence.tables[table].files:
        footer = footer_of(path)
        for index in range(footer.num_row_groups):
            rows = footer.row_group(index).num_rows
            if rows:
                # Absolute, since tasks may run in other directories.
                yield Unit(table, str(path.resolve()), index, rows)


Span = tuple[int | None, int | None]  # from and to, both inclusive; None: empty


class Extents:
    """The ranges of some columns in a row group of sends, from its file's statistics."""

    def __init__(self, unit: Unit) -> None:
        group = footer_of(unit.path).row_group(unit.number)
        self._bounds = {name: bounds(statistics_of(group, name)) for name in ("attempt_ns", "done_ns", "seq")}

    def meets(self, column: str, span: Span) -> bool:
        """Whether the column may have a value in the span."""
        (first, last), known = span, self._bounds[column]
        if first is None or last is None:
            return False
        return known is None or (known[0] <= last and first <= known[1])


def empty(table: str) -> TableRows:
    schema = {name: type_of(name) for name in ENCODINGS[table].read}
    return TableRows(table, pl.DataFrame(schema=schema))


def together(parts: Sequence[TableRows]) -> TableRows:
    if len(parts) == 1:
        return parts[0]
    rest = [part.same for part in parts[1:]]
    frames = [part.complete(part.frame) for part in parts]
    same = {
        name: value
        for name, value in parts[0].same.items()
        if name in frames[0].columns and all(name in other and other[name] == value for other in rest)
    }
    differing = sorted(set(frames[0].columns) - same.keys())
    every = pl.concat([frame.select(differing) for frame in frames], rechunk=True)
    return TableRows(parts[0].table, every, same)


def read(unit: Unit, names: Names) -> TableRows:
    """Reads a row group. Raises EvidenceError."""
    encoding = ENCODINGS[unit.table]
    columns = [part for name in encoding.read for part in encoding.columns[name].sources or (name,)]
    columns = list(dict.fromkeys([*columns, *([CLUSTER] if "topic" in columns else [])]))
    file = open_file(unit.path, [name for name in columns if _is_text(unit.table, name)])
    same = _same(file, unit, columns)
    table = read_row_group(file, unit.path, unit.number, [name for name in columns if name not in same])
    table = _qualified(unit, table, same) if "topic" in columns else table
    texts = [name for name in table.column_names if _is_text(unit.table, name)]
    coded = {name: _codes(unit, name, table[name], names) for name in texts}
    frame = pl.DataFrame(
        coded[name][0] if name in coded else _series(unit, name, table[name]) for name in table.column_names
    )
    known = {name: _value(unit, name, value, names) for name, value in same.items()}
    rows = _computed(unit, frame, known)._replace(words={name: words for name, (_, words) in coded.items()})
    _check_transactions(unit, rows)
    return rows


def _is_text(table: str, name: str) -> bool:
    return bool(pa.types.is_string(TABLES[table].schema.field(name).type))


def _same(file: pq.ParquetFile, unit: Unit, columns: Sequence[str]) -> dict[str, Any]:
    """The columns with the same value in all rows, which may be null. Their pages are not read."""
    group = file.metadata.row_group(unit.number)
    constants: dict[str, Any] = {}
    for name in columns:
        statistics = statistics_of(group, name)
        if name not in file.schema_arrow.names or all_null(statistics, unit.rows):
            constants[name] = None
        elif (value := only_value(statistics)) is not None:
            constants[name] = value
    return constants


def _qualified(unit: Unit, table: pa.Table, same: dict[str, Any]) -> pa.Table:
    """Replaces the columns topic and cluster by qualified topic names."""
    cluster = same.pop(CLUSTER, None)
    if CLUSTER not in table.column_names and (cluster is None or "topic" in same):
        same.update({"topic": qualified(cluster, same["topic"])} if "topic" in same else {})
        return table
    try:
        parts = {CLUSTER: cluster, "topic": same.pop("topic", None)}
        columns = [
            table[name] if value is None else pa.chunked_array([pa.repeat(str(value), unit.rows)])
            for name, value in parts.items()
        ]
        topics = with_clusters(*columns)
    except DAMAGE as error:
        raise broken(unit.path, f"column {CLUSTER!r} is not text: {error}") from None
    rest = [name for name in table.column_names if name not in parts]
    return table.select(rest).append_column("topic", topics)


def _vocabulary(table: str, name: str, names: Names) -> Sequence[str] | None:
    """The words of a text column, whose positions are their numbers; None for other columns."""
    words = {"topic": names.topics, "group": names.groups, "member": names.members, "store": names.stores}
    outcomes = TRANSACTION_OUTCOMES if table == "transactions" else OUTCOMES
    return {**words, "outcome": outcomes, "kind": SHARE_EVENT_KINDS}.get(name)


def _value(unit: Unit, name: str, value: Any, names: Names) -> Any:
    """The number of a word, or the value itself. Raises EvidenceError for an unknown word."""
    words = _vocabulary(unit.table, name, names)
    if value is None or words is None:
        return str(value) if name == "error" and value is not None else value
    if value not in words:
        raise broken(
            unit.path, f"column {name!r} has {value!r}, which contradicts its other pages or its footer"
        )
    return value if name == "outcome" else words.index(value)


def _check_nulls(unit: Unit, name: str, array: pa.ChunkedArray) -> None:
    if array.null_count and not TABLES[unit.table].schema.field(name).nullable:
        raise broken(unit.path, f"column {name!r} has nulls, but its footer says it has none")


def _series(unit: Unit, name: str, array: pa.ChunkedArray) -> pl.Series:
    """A column of integers or flags. Half as wide ones stay so if they are only compared, row by row."""
    _check_nulls(unit, name, array)
    column = ENCODINGS[unit.table].columns.get(name)
    if array.type == pa.int32() and (column is None or column.in_run is InRun.SAME):
        return pl.Series(name, array)
    # Other writers may have stored flags as something else.
    flag = pa.types.is_boolean(TABLES[unit.table].schema.field(name).type)
    return pl.Series(name, array.cast(pa.bool_() if flag else pa.int64()))


def _codes(unit: Unit, name: str, array: pa.ChunkedArray, names: Names) -> tuple[pl.Series, pl.Series]:
    """A column of text: the positions of its words, and these."""
    _check_nulls(unit, name, array)
    coded = array.unify_dictionaries() if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    coded = coded.combine_chunks()
    words = words_of(unit.path, name, coded.dictionary)
    known = coded.indices.fill_null(len(words)) if coded.null_count else coded.indices
    indices = known.cast(pa.int32()).to_numpy(zero_copy_only=False)
    if len(indices) and indices.view(np.uint32).max() > len(words):  # negative ones become huge
        raise broken(unit.path, f"column {name!r} has values that are not in its dictionary")
    vocabulary = _vocabulary(unit.table, name, names)
    # A dictionary may have words that no row uses: only used ones must be known.
    values = [
        _value(unit, name, word, names)
        if vocabulary is None or word in vocabulary or (indices == at).any()
        else None
        for at, word in enumerate(words)
    ]
    return pl.Series(name, indices), pl.Series([*values, None], dtype=type_of(name))


def _computed(unit: Unit, frame: pl.DataFrame, same: dict[str, Any]) -> TableRows:
    """The columns of ENCODINGS, or what those are computed from that are equal within runs."""
    encoding = ENCODINGS[unit.table]
    spread_out = [
        pl.Series(name, [same.pop(name)], encoding.columns[name].type).new_from_index(0, unit.rows)
        for name in encoding.read
        if name in same and encoding.columns[name].in_run is not InRun.SAME
    ]
    frame = pl.DataFrame([*frame.get_columns(), *spread_out])
    _check_partitions(unit, frame, same)
    wanted = set(encoding.read)
    for name, (value, sources) in encoding.computed.items():
        if all(source in same for source in sources):
            constants = [pl.lit(same[source], pl.Int64).alias(source) for source in sources]
            same[name] = pl.select(constants).select(value).item()
        elif encoding.columns[name].in_run is InRun.SAME:
            wanted |= set(sources)
        else:
            frame = frame.with_columns(value.alias(name))
    return TableRows(
        unit.table,
        frame.select(name for name in frame.columns if name in wanted),
        {name: value for name, value in same.items() if name in wanted and name not in frame.columns},
    )


def _check_transactions(unit: Unit, rows: TableRows) -> None:
    """Checks that transactions have valid message numbers, and at most MOST_MESSAGES messages."""
    if unit.table != "transactions":
        return
    first, last = pl.col("first_seq"), pl.col("last_seq")
    invalid = (
        rows.complete(rows.frame)
        .filter((first < 0) | (last < first - 1) | (last >= first + MOST_MESSAGES))
        .head(1)
    )
    for one in invalid.iter_rows(named=True):
        raise broken(unit.path, f"a transaction of the messages {one['first_seq']} to {one['last_seq']}")


def _check_partitions(unit: Unit, frame: pl.DataFrame, same: Mapping[str, object]) -> None:
    """Checks that partitions are not negative, except of sends, where that means unknown."""
    if "partition" not in TABLES[unit.table].schema.names:
        return
    if TABLES[unit.table].schema.field("partition").nullable:
        return
    known = frame["partition"] if "partition" in frame.columns else pl.Series([same["partition"]])
    least = known.min()
    if isinstance(least, int) and least < 0:
        raise broken(unit.path, f"partition {least} is invalid")
