"""Reads Parquet files of evidence, written by any library: footer, row groups, statistics; bounds and
distinct values of columns; topics qualified with the names of their clusters (core.py: qualified).

A file may be from anybody, or damaged: one that cannot be read, or contradicts its own footer, raises
EvidenceError with its name. Text may have any encoding.
Not here: which columns a table has (reading.py), and what they mean (analysis).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kaput.core import CLUSTER_SEPARATOR, FOREVER_NS, qualified
from kaput.errors import EvidenceError
from kaput.evidence.schemas import CLUSTER

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
        # In mapped memory, what is read ahead is only copied.
        return pq.ParquetFile(path, metadata=footer, read_dictionary=words, memory_map=True, pre_buffer=False)
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


def with_clusters(clusters: pa.ChunkedArray, topics: pa.ChunkedArray) -> pa.ChunkedArray:
    """Qualified names, from columns of cluster and topic names. Raises Arrow's errors."""
    clusters, topics = (
        pa.nulls(len(column), pa.string()) if pa.types.is_null(column.type) else column.cast(pa.string())
        for column in (clusters, topics)
    )
    named = pc.and_kleene(pc.is_valid(clusters), pc.not_equal(clusters, ""))
    joined = pc.binary_join_element_wise(clusters, topics, CLUSTER_SEPARATOR)
    return pc.if_else(named, joined, topics)


def qualify(row: dict[str, Any], cluster: str) -> None:
    """Qualifies the row's topic with the cluster's name, also in the labels of a sample."""
    if row.get("topic") is not None:
        row["topic"] = qualified(cluster, row["topic"])
    if row.get("labels"):
        row["labels"] = [(k, qualified(cluster, v) if k == "topic" and v else v) for k, v in row["labels"]]


def values(path: Path, index: int, name: str) -> pa.ChunkedArray:
    """A column of a row group; text dictionary-encoded if possible. Raises EvidenceError."""
    return read_row_group(open_file(path, [name]), path, index, [name]).column(0)


def bounds_of(path: Path, footer: pq.FileMetaData, index: int, name: str) -> tuple[int | None, int | None]:
    """A column's minimum and maximum in a row group, from statistics, else from the values."""
    group = footer.row_group(index)
    statistics = statistics_of(group, name)
    if all_null(statistics, group.num_rows):
        return None, None
    known = bounds(statistics)
    if known is not None:
        return known
    extremes = pc.min_max(values(path, index, name))
    return extremes["min"].as_py(), extremes["max"].as_py()


def distinct_words(files: Iterable[Path], column: str, by_cluster: bool = False) -> frozenset[str]:
    """The distinct texts of a column. Row groups with a single value are not read: statistics suffice.
    `by_cluster`: qualified with the cluster of the row. Raises EvidenceError.
    """
    words: set[str] = set()
    for path in files:
        footer = footer_of(path)
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            if group.num_rows == 0:
                continue
            if by_cluster and not _without_cluster(group):
                words |= _with_cluster(path, index, column)
                continue
            only = only_value(statistics_of(group, column))
            if only is not None:
                words.add(str(only))
                continue
            column_values = values(path, index, column)
            words.update(word for word in words_of(path, column, column_values.unique()) if word is not None)
    return frozenset(words)


def _without_cluster(group: pq.RowGroupMetaData) -> bool:
    """Whether no row names a cluster, according to the footer."""
    names = [group.column(index).path_in_schema for index in range(group.num_columns)]
    return CLUSTER not in names or all_null(statistics_of(group, CLUSTER), group.num_rows)


def _with_cluster(path: Path, index: int, column: str) -> set[str]:
    rows = read_row_group(open_file(path, [column, CLUSTER]), path, index, [column, CLUSTER])
    try:
        qualified_words = with_clusters(rows[CLUSTER], rows[column]).unique()
    except DAMAGE as error:
        raise broken(path, f"column {column!r} or {CLUSTER!r} is not text: {error}") from None
    return {word for word in words_of(path, column, qualified_words) if word is not None}


def downtimes(
    events: Iterable[Mapping[str, Any]],
) -> dict[tuple[str | None, int], list[tuple[int, int | None]]]:
    """By cluster and broker, from when to when its process was gone (ns); None: to the end."""
    by_broker: dict[tuple[str | None, int], list[tuple[int, int | None]]] = {}
    for row in sorted(events, key=lambda row: (row["at_ns"], row["kind"] != "stopped")):
        if row["kind"] not in ("stopped", "started") or row["broker"] is None:
            continue
        spans = by_broker.setdefault((row.get("cluster"), row["broker"]), [])
        is_down = bool(spans) and spans[-1][1] is None
        if row["kind"] == "stopped" and not is_down:
            spans.append((row["at_ns"], None))
        elif row["kind"] == "started" and is_down:
            spans[-1] = (spans[-1][0], row["at_ns"])
    return by_broker


class Absence(NamedTuple):
    """When a broker's process was gone, was there again, and was unfenced (ns); None: not on record."""

    stopped_ns: int
    started_ns: int | None
    unfenced_ns: int | None

    @property
    def back_ns(self) -> int:
        """When it served again, as far as that is on record."""
        started_ns = FOREVER_NS if self.started_ns is None else self.started_ns
        return started_ns if self.unfenced_ns is None else self.unfenced_ns


def absences(events: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, int], list[Absence]]:
    """The downtimes by cluster and broker, each with the first unfencing from the start on, before the next
    stop: a broker registers as fenced, so it may be fenced once more before that. One that an ISR took in
    before had registered unseen, as where changes are polled.
    """
    events = list(events)
    unfenced: defaultdict[tuple[str | None, int], list[int]] = defaultdict(list)
    joined: defaultdict[tuple[str | None, int], list[int]] = defaultdict(list)
    for row in events:
        if row["kind"] == "unfenced":
            unfenced[row.get("cluster"), row["broker"]].append(row["at_ns"])
    for row, brokers in taken_in(events):
        for one in brokers:
            joined[row.get("cluster"), one].append(row["at_ns"])
    found = {}
    for broker, spans in downtimes(events).items():
        stops = [*(down for down, _ in spans[1:]), FOREVER_NS]
        found[broker] = [
            Absence(down, up, _registered(unfenced[broker], joined[broker], (up, stop)))
            if up is not None
            else Absence(down, None, None)
            for (down, up), stop in zip(spans, stops, strict=False)
        ]
    return found


def _registered(unfenced: Iterable[int], joined: Iterable[int], alive: tuple[int, int]) -> int | None:
    first = min((at for at in unfenced if alive[0] <= at < alive[1]), default=None)
    return None if first is None or any(alive[0] <= at < first for at in joined) else first


def taken_in(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], frozenset[int]]]:
    """Each change of an ISR, with the brokers that it took in."""
    isrs: dict[tuple[Any, ...], frozenset[int]] = {}
    for row in sorted(events, key=lambda row: row["at_ns"]):
        if row["kind"] not in ("leader", "isr") or row.get("isr") is None:
            continue
        place = row.get("cluster"), row["topic"], row["partition"]
        isr, before = frozenset(row["isr"]), isrs.get(place)
        isrs[place] = isr
        if row["kind"] == "isr" and before is not None:
            yield row, isr - before
