"""One Parquet file of evidence, as whichever library wrote it: its footer, its row groups, its statistics.

Anybody may have written the file, and a disk may have damaged it: what cannot be read, or contradicts its own
footer, is an EvidenceError that names the file. Texts come in whatever encoding the writer chose.
Not here: which columns a table has (reading.py), and what they mean (analysis).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.errors import EvidenceError

# What pyarrow raises on damage: its own, the file system's, and what Python makes of impossible numbers and
# of text that is not UTF-8.
DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError, IndexError, TypeError)
# Writers that never put a word into a dictionary twice. DuckDB does for the words of an ENUM that no row has;
# Arrow then keeps one of them and takes the rows' words from the wrong places, without an error.
_ONE_OF_EACH = ("parquet-cpp-arrow", "parquet-mr", "parquet-rs", "Polars")
SURE = 32  # writers may shorten longer texts in statistics


def broken(path: Path | str, why: object) -> EvidenceError:
    """The error for a file that is not what its name says."""
    lines = str(why).splitlines() or [type(why).__name__]
    return EvidenceError(f"{path}: not a whole Parquet file ({lines[0]})")


def footer_of(path: Path | str) -> pq.FileMetaData:
    """The file's footer. Raises EvidenceError."""
    if not Path(path).is_file():  # a pipe would be waited for
        raise broken(path, "not a file")
    try:
        return pq.read_metadata(path)
    except DAMAGE as error:
        raise broken(path, error) from None


def check_footer(path: Path | str, footer: pq.FileMetaData) -> None:
    """Looks at all that a footer tells of its row groups, once for all. Raises EvidenceError."""
    try:
        _look(path, footer)
        groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
        wrong = next((problem for group in groups if (problem := _wrong(group, footer))), None)
    except DAMAGE as error:
        raise broken(path, error) from None
    if wrong is not None:
        raise broken(path, wrong)
    if sum(group.num_rows for group in groups) != footer.num_rows:
        raise broken(path, "its row groups do not add up to its rows")


def _look(path: Path | str, footer: pq.FileMetaData) -> None:
    """Has Arrow look at every column chunk's entry once, in the one way in which it says what is wrong.

    Where Python asks for a damaged entry itself, Arrow's C++ ends the whole process. Before it reads ahead it
    goes through all of them; one row is read as well, since nothing less can be had.
    """
    file = pq.ParquetFile(path, metadata=footer, pre_buffer=True, memory_map=True)
    next(file.iter_batches(batch_size=1, use_threads=False), None)


def _wrong(group: pq.RowGroupMetaData, footer: pq.FileMetaData) -> str | None:
    """What is wrong with a row group's entry, everything that it tells having been looked at."""
    if group.num_rows < 0:
        return "a row group has fewer than no rows"
    if group.num_columns != footer.num_columns:
        return "a row group has other columns than its schema"
    for index in range(group.num_columns):
        column, leaf = group.column(index), footer.schema.column(index)
        # Where the types differ, to ask for the statistics would end the process (see _look).
        if (column.path_in_schema, column.physical_type) != (leaf.path, leaf.physical_type):
            return f"column {leaf.path!r} is another in a row group than in the schema"
        statistics = column.statistics
        if statistics is not None and statistics.has_null_count:
            int(statistics.null_count)
        list(column.encodings)
    return None


def open_file(path: Path | str, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """The file, mapped; its columns `texts` come as dictionaries where they can. Raises EvidenceError."""
    footer = footer_of(path)
    try:
        trusted = str(footer.created_by).startswith(_ONE_OF_EACH)
        there = [name for name in texts if name in footer.schema.names]  # an optional one may be missing
        words = [name for name in there if trusted and not _deltas(footer, name)]
        return pq.ParquetFile(path, metadata=footer, read_dictionary=words, memory_map=True)
    except DAMAGE as error:
        raise broken(path, error) from None


def _deltas(footer: pq.FileMetaData, name: str) -> bool:
    """Whether some page may tell words by how they differ from others: Arrow makes no dictionary of those."""
    chunks = (footer.row_group(i) for i in range(footer.num_row_groups))
    columns = (group.column(i) for group in chunks for i in range(group.num_columns))
    return any(
        encoding.startswith("DELTA")
        for column in columns
        if column.path_in_schema == name
        for encoding in column.encodings
    )


def read_row_group(file: pq.ParquetFile, path: Path | str, index: int, names: Sequence[str]) -> pa.Table:
    """Columns of one row group, as many rows as its footer says. Raises EvidenceError."""
    try:
        table = file.read_row_group(index, columns=list(names), use_threads=False)
    except DAMAGE as error:
        raise broken(path, f"its pages cannot be read: {error}") from None
    rows = file.metadata.row_group(index).num_rows
    for name in names:
        if len(table.column(name)) != rows:
            raise broken(path, f"column {name!r} has {len(table.column(name))} of {rows} rows")
    return table


def table_of(path: Path | str, schema: pa.Schema) -> pa.Table:
    """A small file as a table of the given columns and types. Raises EvidenceError."""
    file = open_file(path)
    groups = range(file.metadata.num_row_groups)
    try:
        found = [read_row_group(file, path, index, schema.names) for index in groups]
        found = [table.select(schema.names).cast(schema) for table in found]
        return pa.concat_tables(found) if found else schema.empty_table()
    except DAMAGE as error:
        raise broken(path, error) from None


def words_of(path: Path | str, name: str, array: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """A text column's values. Raises EvidenceError where they are not text."""
    try:
        found: list[str | None] = array.to_pylist()
    except DAMAGE as error:
        raise broken(path, f"column {name!r} is not text: {error}") from None
    return found


def statistics_of(group: pq.RowGroupMetaData, name: str) -> Any:
    """The statistics of a column in a row group, None where it has none."""
    for i in range(group.num_columns):
        if group.column(i).path_in_schema == name:
            return group.column(i).statistics
    return None


def bounds(statistics: Any) -> tuple[Any, Any] | None:
    """The smallest and greatest value; None if the statistics lack them."""
    try:
        if statistics is None or not statistics.has_min_max:
            return None
        return statistics.min, statistics.max
    except DAMAGE:  # the bytes are no such value
        return None


def only_value(statistics: Any) -> Any:
    """The one value that every row has, None where there may be more, or nulls.

    Who asks this gets the same answer everywhere: pages of such a column are never read.
    """
    found = bounds(statistics)
    if found is None or not statistics.has_null_count or statistics.null_count or found[0] != found[1]:
        return None
    value = found[0]
    return None if isinstance(value, str | bytes) and len(value) >= SURE else value


def nulls_alone(statistics: Any, rows: int) -> bool:
    """Whether statistics say that every row is null."""
    return bool(
        rows and statistics is not None and statistics.has_null_count and statistics.null_count == rows
    )
