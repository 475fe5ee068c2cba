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
from kaput.evidence.column_values import with_clusters
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
    """`frame`: the columns in which rows differ; `same`: the value of each constant column."""

    frame: pl.DataFrame
    same: Mapping[str, object] = {}

    def with_same(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Adds the constant columns to some of the rows, or to runs of them."""
        return frame.with_columns(
            pl.lit(value, type_of(name)).alias(name) for name, value in self.same.items()
        )

    def whole(self) -> pl.DataFrame:
        """Every row with all columns, in a fixed column order."""
        rows = self.with_same(self.frame)
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
    return TableRows(pl.DataFrame(schema={name: type_of(name) for name in ENCODINGS[table].read}))


def together(parts: Sequence[TableRows]) -> TableRows:
    if len(parts) == 1:
        return parts[0]
    rest = [part.same for part in parts[1:]]
    same = {
        name: value
        for name, value in parts[0].same.items()
        if all(name in other and other[name] == value for other in rest)
    }
    frames = [part.whole().drop(same) for part in parts]
    return TableRows(pl.concat(frames, rechunk=True), same)


def read(unit: Unit, names: Names) -> TableRows:
    """Reads a row group. Raises EvidenceError."""
    encoding = ENCODINGS[unit.table]
    columns = [part for name in encoding.read for part in encoding.columns[name].sources or (name,)]
    columns = list(dict.fromkeys([*columns, *([CLUSTER] if "topic" in columns else [])]))
    file = open_file(unit.path, [name for name in columns if _is_text(unit.table, name)])
    same = _same(file, unit, columns)
    table = read_row_group(file, unit.path, unit.number, [name for name in columns if name not in same])
    table = _qualified(unit, table, same) if "topic" in columns else table
    frame = pl.DataFrame([_series(unit, name, table[name], names) for name in table.column_names])
    known = {name: _value(unit, name, value, names) for name, value in same.items()}
    rows = _computed(unit, frame, known)
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


def _series(unit: Unit, name: str, array: pa.ChunkedArray, names: Names) -> pl.Series:
    if array.null_count and not TABLES[unit.table].schema.field(name).nullable:
        raise broken(unit.path, f"column {name!r} has nulls, but its footer says it has none")
    if not _is_text(unit.table, name):
        # Other writers may have stored flags as something else.
        flag = pa.types.is_boolean(TABLES[unit.table].schema.field(name).type)
        return pl.Series(name, array.cast(pa.bool_() if flag else pa.int64()))
    coded = array.unify_dictionaries() if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    coded = coded.combine_chunks()
    words = words_of(unit.path, name, coded.dictionary)
    known = coded.indices.fill_null(len(words)) if coded.null_count else coded.indices
    indices = known.to_numpy(zero_copy_only=False).astype(np.uint32)  # negative ones become huge
    if len(indices) and indices.max() > len(words):
        raise broken(unit.path, f"column {name!r} has values that are not in its dictionary")
    # A dictionary may have words that no row uses: only used ones must be known.
    used = np.zeros(len(words) + 1, bool)
    used[indices] = True
    values = [_value(unit, name, word, names) if used[at] else None for at, word in enumerate(words)]
    # Polars uses a Series of positions as is, but checks each number of an array.
    return pl.Series([*values, None], dtype=type_of(name)).gather(pl.Series(indices)).alias(name)


def _computed(unit: Unit, frame: pl.DataFrame, same: dict[str, Any]) -> TableRows:
    """The columns of ENCODINGS, computed if need be; those that differ within runs are in the frame."""
    encoding = ENCODINGS[unit.table]
    spread_out = [
        pl.Series(name, [same.pop(name)], encoding.columns[name].type).new_from_index(0, unit.rows)
        for name in encoding.read
        if name in same and encoding.columns[name].in_run is not InRun.SAME
    ]
    frame = pl.DataFrame([*frame.get_columns(), *spread_out])
    for name, (value, sources) in encoding.computed.items():
        constants = [pl.lit(same[source], pl.Int64).alias(source) for source in sources if source in same]
        if len(constants) == len(sources):
            same[name] = pl.select(constants).select(value).item()
        else:
            frame = frame.with_columns(frame.with_columns(constants).select(value.alias(name)).to_series())
    _check_partitions(unit, frame, same)
    return TableRows(
        frame.select(name for name in encoding.read if name in frame.columns),
        {name: value for name, value in same.items() if name in encoding.read and name not in frame.columns},
    )


def _check_transactions(unit: Unit, rows: TableRows) -> None:
    """Checks that transactions have valid message numbers, and at most MOST_MESSAGES messages."""
    if unit.table != "transactions":
        return
    first, last = pl.col("first_seq"), pl.col("last_seq")
    invalid = (
        rows.with_same(rows.frame)
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
