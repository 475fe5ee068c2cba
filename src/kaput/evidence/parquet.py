"""Reads Parquet files of evidence, written by any library: footer, row groups, statistics.

A file may be from anybody, or damaged: one that cannot be read, or contradicts its own footer, raises
EvidenceError with its name. Text may have any encoding.
Not here: which columns a table has (reading.py), and what they mean (analysis).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.errors import EvidenceError

# What pyarrow raises for damaged files: its own errors, the file system's, and Python's for invalid numbers
# and text.
DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError, IndexError, TypeError)
# Writers whose dictionaries never have duplicates. DuckDB's do for unused values of an ENUM; Arrow then
# merges them and silently decodes rows to wrong values.
_UNIQUE_DICTIONARY_WRITERS = ("parquet-cpp-arrow", "parquet-mr", "parquet-rs", "Polars")
_FOOTERS_KEPT = 128
MAX_EXACT_TEXT = 32  # writers may truncate longer texts in statistics


def broken(path: Path | str, why: object) -> EvidenceError:
    lines = str(why).splitlines() or [type(why).__name__]
    return EvidenceError(f"{path}: not a whole Parquet file ({lines[0]})")


def footer_of(path: Path | str) -> pq.FileMetaData:
    """The file's footer. Raises EvidenceError."""
    if not Path(path).is_file():  # opening a pipe would block
        raise broken(path, "not a file")
    try:
        found = Path(path).stat()
        return _footer(str(path), (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    except DAMAGE as error:
        raise broken(path, error) from None


@lru_cache(_FOOTERS_KEPT)
def _footer(path: str, _version: tuple[int, ...]) -> pq.FileMetaData:
    # Every question about a file begins with it: a run of 12 files was judged with 179 reads of footers.
    return pq.read_metadata(path)


def check_footer(path: Path | str, footer: pq.FileMetaData) -> None:
    """Checks everything in a footer about its row groups. Raises EvidenceError."""
    try:
        _probe_footer(path, footer)
        groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
        wrong = next((problem for group in groups if (problem := _footer_problem(group, footer))), None)
    except DAMAGE as error:
        raise broken(path, error) from None
    if wrong is not None:
        raise broken(path, wrong)
    if sum(group.num_rows for group in groups) != footer.num_rows:
        raise broken(path, "its row groups do not add up to its rows")


def _probe_footer(path: Path | str, footer: pq.FileMetaData) -> None:
    """Makes Arrow examine every column chunk's entry in the only way that raises an error for a damaged one.
    If Python accesses a damaged entry directly, Arrow's C++ aborts the process. With pre_buffer, Arrow goes
    through all entries first; reading one row is the minimum that triggers that.
    """
    file = pq.ParquetFile(path, metadata=footer, pre_buffer=True, memory_map=True)
    next(file.iter_batches(batch_size=1, use_threads=False), None)


def _footer_problem(group: pq.RowGroupMetaData, footer: pq.FileMetaData) -> str | None:
    """Examines a row group's entry completely. Returns what is wrong with it, or None."""
    if group.num_rows < 0:
        return "a row group has fewer than no rows"
    if group.num_columns != footer.num_columns:
        return "a row group has other columns than its schema"
    for index in range(group.num_columns):
        column, leaf = group.column(index), footer.schema.column(index)
        # If types differ, accessing the statistics would abort the process (see _probe_footer).
        if (column.path_in_schema, column.physical_type) != (leaf.path, leaf.physical_type):
            return f"column {leaf.path!r} is another in a row group than in the schema"
        statistics = column.statistics
        if statistics is not None and statistics.has_null_count:
            int(statistics.null_count)
        list(column.encodings)
    return None


def open_file(path: Path | str, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """Memory-maps it; columns `texts` are dictionary-encoded if possible. Raises EvidenceError."""
    footer = footer_of(path)
    try:
        trusted = str(footer.created_by).startswith(_UNIQUE_DICTIONARY_WRITERS)
        there = [name for name in texts if name in footer.schema.names]  # an optional one may be missing
        words = [name for name in there if trusted and not _may_have_delta_encoding(footer, name)]
        return pq.ParquetFile(path, metadata=footer, read_dictionary=words, memory_map=True)
    except DAMAGE as error:
        raise broken(path, error) from None


def _may_have_delta_encoding(footer: pq.FileMetaData, name: str) -> bool:
    """Whether a column may have delta-encoded pages, which Arrow cannot read as a dictionary."""
    chunks = (footer.row_group(i) for i in range(footer.num_row_groups))
    columns = (group.column(i) for group in chunks for i in range(group.num_columns))
    return any(
        encoding.startswith("DELTA")
        for column in columns
        if column.path_in_schema == name
        for encoding in column.encodings
    )


def read_row_group(file: pq.ParquetFile, path: Path | str, index: int, names: Sequence[str]) -> pa.Table:
    """Reads columns of one row group, and checks the number of rows. Raises EvidenceError."""
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
    """Reads a small file as a table with the given columns and types. Raises EvidenceError."""
    file = open_file(path)
    groups = range(file.metadata.num_row_groups)
    try:
        tables = [read_row_group(file, path, index, schema.names) for index in groups]
        tables = [table.select(schema.names).cast(schema) for table in tables]
        return pa.concat_tables(tables) if tables else schema.empty_table()
    except DAMAGE as error:
        raise broken(path, error) from None


def words_of(path: Path | str, name: str, array: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """A text column's values. Raises EvidenceError if they are not text."""
    try:
        words: list[str | None] = array.to_pylist()
    except DAMAGE as error:
        raise broken(path, f"column {name!r} is not text: {error}") from None
    return words


def statistics_of(group: pq.RowGroupMetaData, name: str) -> Any:
    """The statistics of a column in a row group, None if there are none."""
    for i in range(group.num_columns):
        if group.column(i).path_in_schema == name:
            return group.column(i).statistics
    return None


def bounds(statistics: Any) -> tuple[Any, Any] | None:
    """The minimum and maximum; None if the statistics lack them."""
    try:
        if statistics is None or not statistics.has_min_max:
            return None
        return statistics.min, statistics.max
    except DAMAGE:  # the bytes are not a valid value
        return None


def only_value(statistics: Any) -> Any:
    """The value that all rows have; None if there may be several, or nulls. Used everywhere instead of
    reading the pages of such a column, so all readers agree.
    """
    extremes = bounds(statistics)
    if (
        extremes is None
        or not statistics.has_null_count
        or statistics.null_count
        or extremes[0] != extremes[1]
    ):
        return None
    value = extremes[0]
    return None if isinstance(value, str | bytes) and len(value) >= MAX_EXACT_TEXT else value


def all_null(statistics: Any, rows: int) -> bool:
    """Whether every row is null, according to the statistics."""
    return bool(
        rows and statistics is not None and statistics.has_null_count and statistics.null_count == rows
    )
