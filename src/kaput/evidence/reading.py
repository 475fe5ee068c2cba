"""Checks a run folder, which may be from any tool, before anything is computed from it.

Reads only Parquet footers, and values of a column chunk if its statistics do not suffice. Not here: the
meaning of the values (analysis), sealing (sealing.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kaput.core import INT64_MAX, NULL_LONG
from kaput.errors import EvidenceError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.foreign import files_of, strict
from kaput.evidence.foreign_columns import same_kind
from kaput.evidence.parquet import (
    DAMAGE,
    bounds_of,
    broken,
    check_footer,
    distinct_words,
    footer_of,
    open_file,
    qualify,
    read_row_group,
    statistics_of,
    table_of,
    values,
)
from kaput.evidence.schemas import (
    CLUSTER,
    CLUSTER_EVENT_KINDS,
    GROUP_EVENT_KINDS,
    MIRROR_EVENT_KINDS,
    SHARE_EVENT_KINDS,
    STEP_OUTCOMES,
    TABLES,
    EvidenceTable,
)
from kaput.evidence.time_units import are_s, is_calendar, other_unit
from kaput.scenario.vocabulary import OUTCOMES, TRANSACTION_OUTCOMES

_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("sends", "outcome"): OUTCOMES,
    ("group_events", "kind"): GROUP_EVENT_KINDS,
    ("share_events", "kind"): SHARE_EVENT_KINDS,
    ("transactions", "outcome"): TRANSACTION_OUTCOMES,
    ("cluster_events", "kind"): CLUSTER_EVENT_KINDS,
    ("mirror", "kind"): MIRROR_EVENT_KINDS,
    ("plan", "outcome"): STEP_OUTCOMES,
}
# The tables about stores.
STORE_TABLES = ("kept", "replayed", "left_in_store")
# The tables that name groups, members and topics.
GROUP_TABLES = ("deliveries", "group_events", "share_events", "outputs")
_NUMBERED = ("seq", "offset", "last_seq")  # columns that increase within runs
_DURATIONS = ("within_ns",)  # of the columns in ns
# The (table, column) whose distinct words the analysis needs in advance.
_DISTINCT_WORDS = (
    ("sends", "topic"),
    ("log", "topic"),
    *((table, column) for table in GROUP_TABLES for column in ("group", "member", "topic")),
    ("replayed", "topic"),
    *((table, "store") for table in STORE_TABLES),
)


@dataclass(frozen=True)
class TableFiles:
    """One table as found: its files (none: an empty table), the files that another program wrote of which
    they were made, rows, and the optional columns that all files lack. `times`: by column of times the last
    of these files, and the least and greatest of all.
    """

    table: EvidenceTable
    files: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()
    rows: int = 0
    lacking: frozenset[str] = frozenset()
    times: Mapping[str, tuple[Path, int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """A checked run folder. `words`: the distinct texts of some (table, column). A topic of a named cluster
    is `dc2:orders`, in words and in rows (core.py: qualified).
    """

    folder: RunFolder
    manifest: Manifest
    tables: Mapping[str, TableFiles]
    words: Mapping[tuple[str, str], frozenset[str]]

    @property
    def most_rows(self) -> int:
        return max(table.rows for table in self.tables.values())

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A small table's rows in file order (faults, cluster_events, end_offsets). Raises EvidenceError."""
        return [row for _, row in self.located(name)]

    def located(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The same rows, each with its location: the file and its number in it, from 1 on."""
        files = self.tables[name]
        schema = pa.schema([column for column in files.table.schema if column.name not in files.lacking])
        known = {column: words for (table, column), words in self.words.items() if table == name}
        for path, written in zip(files.files, files.written, strict=True):
            for number, row in enumerate(_rows(path, written, schema, known), 1):
                yield f"{written}, row {number}", {**dict.fromkeys(files.lacking), **row}


def _rows(
    path: Path, written: Path, schema: pa.Schema, known: Mapping[str, frozenset[str]]
) -> list[dict[str, Any]]:
    """`written`: the file to name in a message about a row."""
    try:
        rows: list[dict[str, Any]] = table_of(path, schema).to_pylist()
    except DAMAGE as error:
        raise broken(path, error) from None
    for row in rows:
        if row.get(CLUSTER):
            qualify(row, row[CLUSTER])
    for name, words in known.items():
        if unknown := {row[name] for row in rows} - words - {None}:
            raise broken(path, f"column {name!r} has {min(unknown)!r}, which contradicts its footer")
    _check_partitions(written, schema, rows)
    for name in (column.name for column in schema if pa.types.is_list(column.type)):
        for number, row in enumerate(rows, 1):
            if row[name] is not None and None in row[name]:
                raise EvidenceError(f"{written}, row {number}: the list {name!r} has a null in it")
    return rows


def _check_partitions(path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    """Makes negative partitions null, as clients mean them. Raises EvidenceError where null is forbidden."""
    for number, row in enumerate(rows, 1):
        if (partition := row.get("partition")) is not None and partition < 0:
            if not schema.field("partition").nullable:
                raise EvidenceError(f"{path}, row {number}: partition {partition} is invalid")
            row["partition"] = None


def check(folder: RunFolder) -> Evidence:
    """Checks a run folder against evidence/schemas.py, in any form that foreign.py converts. Raises
    EvidenceError naming the file at fault, OSError if the folder has to be written to and cannot be.
    """
    folder, manifest = strict(folder, folder.read_manifest())
    recording = manifest.state == "recording"
    # Only the manifest's state tells a required table without rows from a missing one.
    tables = {
        name: _check_table(folder, table, table.required and not recording) for name, table in TABLES.items()
    }
    _check_seconds(tables)
    words = {key: _check_words(tables[key[0]], key[1], allowed) for key, allowed in _WORDS.items()}
    words |= {
        (table, column): distinct_words(tables[table].files, column, by_cluster=column == "topic")
        for table, column in _DISTINCT_WORDS
    }
    return Evidence(folder, manifest, tables, words)


def _check_table(folder: RunFolder, table: EvidenceTable, required: bool) -> TableFiles:
    files = files_of(folder, table)
    if not files:
        if required:
            directory = folder.table(table.name)
            raise EvidenceError(
                f"{directory}: table {table.name} is required and has no file (.parquet, .csv, .jsonl)"
            )
        return TableFiles(table)
    footers, written = [footer_of(path) for path in files], _as_written(folder, table, files)
    lacking: list[set[str]] = []
    times: dict[str, tuple[Path, int, int]] = {}
    for path, footer, source in zip(files, footers, written, strict=True):
        check_footer(path, footer)
        absent = _check_columns(table, path, footer)
        lacking.append(absent)
        _check_nulls(table, path, footer)
        for column, least, greatest in _check_numbers(table, path, footer, source):
            _, low, high = times.get(column, (source, least, greatest))
            times[column] = source, min(low, least), max(high, greatest)
        _check_lists_of_times(table, path, footer, absent, source)
    for path, absent in zip(files, lacking, strict=True):
        if absent != lacking[0]:
            raise EvidenceError(
                f"{path}: its columns differ from those of {files[0].name} in the same folder"
            )
    rows = sum(footer.num_rows for footer in footers)
    return TableFiles(table, files, written, rows, frozenset(lacking[0]), times)


def _check_columns(table: EvidenceTable, path: Path, footer: pq.FileMetaData) -> set[str]:
    """Checks the columns of a file. Returns the optional ones that it lacks."""
    try:
        actual = footer.schema.to_arrow_schema()
    except DAMAGE as error:
        raise broken(path, error) from None
    mistakes = []
    for column in table.schema:
        name, times = column.name, actual.names.count(column.name)
        if times > 1:
            mistakes.append(f"column {name!r} is there twice")
            continue
        if times == 0:
            if name not in table.optional_columns:
                mistakes.append(f"column {name!r} is missing")
            continue
        kind = actual.field(name).type
        # Of Arrow's null type, since all its values are null: pandas writes such columns.
        is_untyped = column.nullable and pa.types.is_null(kind)
        if not (is_untyped or same_kind(column.type, kind)):
            mistakes.append(f"column {name!r} is {kind}, the contract says {column.type}")
    if mistakes:
        raise EvidenceError(f"{path}: table {table.name}: {'; '.join(mistakes)}")
    return {name for name in table.optional_columns if name not in actual.names}


def _check_nulls(table: EvidenceTable, path: Path, footer: pq.FileMetaData) -> None:
    for column in table.schema:
        if column.nullable or pa.types.is_nested(column.type):
            continue
        for index in range(footer.num_row_groups):
            statistics = statistics_of(footer.row_group(index), column.name)
            nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
            if nulls is None:
                nulls = values(path, index, column.name).null_count
            if nulls:
                raise EvidenceError(
                    f"{path}: table {table.name}: column {column.name!r} has {nulls} nulls, and may have none"
                )


def _check_numbers(
    table: EvidenceTable, path: Path, footer: pq.FileMetaData, written: Path
) -> Iterator[tuple[str, int, int]]:
    """Rejects the lowest int64, which the analysis uses for null (analysis/runs/run.py); and the highest in
    columns that increase within runs, whose end is one above the last number. Yields the columns of times
    with the bounds of their row groups.
    """
    for column in table.schema:
        if not pa.types.is_int64(column.type) or column.name not in footer.schema.names:
            continue
        for index in range(footer.num_row_groups):
            least, greatest = bounds_of(path, footer, index, column.name)
            if least == NULL_LONG:
                raise EvidenceError(f"{written}: table {table.name}: column {column.name!r} has {least}")
            if greatest == INT64_MAX and column.name in _NUMBERED:
                raise EvidenceError(
                    f"{written}: table {table.name}: column {column.name!r} has {greatest}, the last number"
                )
            if (own := _unit_of(column.name)) is None or least is None or greatest is None:
                continue
            if unit := other_unit(least, greatest, own):
                raise _in_another_unit(table.name, written, column.name, least, unit)
            yield column.name, least, greatest


def _check_lists_of_times(
    table: EvidenceTable, path: Path, footer: pq.FileMetaData, absent: Collection[str], written: Path
) -> None:
    for column in table.schema:
        if not pa.types.is_list(column.type) or column.name in absent:
            continue
        if (own := _unit_of(column.name)) is None:
            continue
        for index in range(footer.num_row_groups):
            lists = values(path, index, column.name)
            if pa.types.is_null(lists.type):
                continue
            times = pc.min_max(pc.list_flatten(lists))
            least, greatest = times["min"].as_py(), times["max"].as_py()
            if least is not None and (unit := other_unit(least, greatest, own)):
                raise _in_another_unit(table.name, written, column.name, least, unit)


def _unit_of(column: str) -> str | None:
    """Of the times in a column; None if there are none."""
    unit = column.rpartition("_")[2]
    return unit if unit in ("ns", "ms") and column not in _DURATIONS else None


def _in_another_unit(table: str, path: Path, column: str, time: int, unit: str) -> EvidenceError:
    own = _unit_of(column)
    return EvidenceError(
        f"{path}: table {table}: column {column!r} has {time}, which is a time in {unit}; "
        f"its times must be in {own}"
    )


def _check_seconds(tables: Mapping[str, TableFiles]) -> None:
    """Rejects a column of ns that holds s, which are only told from a clock that begins at 0 by the times of
    other columns.
    """
    spans = [(name, column, *span) for name, files in tables.items() for column, span in files.times.items()]
    if any(is_calendar(high, str(_unit_of(column))) for _, column, *_, high in spans):
        for name, column, written, low, high in spans:
            if are_s(low, high):
                raise _in_another_unit(name, written, column, low, "s")


def _as_written(folder: RunFolder, table: EvidenceTable, files: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files that another program wrote, of which those of a table were made."""
    if folder.imported is None or table.name not in folder.foreign or not files:
        return files
    written = files_of(replace(folder, imported=None), table)
    return tuple(written[int(path.name.partition("-")[0])] for path in files)


def _check_words(files: TableFiles, column: str, allowed: Iterable[str]) -> frozenset[str]:
    seen: frozenset[str] = frozenset()
    for path, written in zip(files.files, files.written, strict=True):
        words = distinct_words([path], column)
        unknown = sorted(words - set(allowed))
        if unknown:
            raise EvidenceError(
                f"{written}: table {files.table.name}: {column} {unknown[0]!r} is none of "
                f"{', '.join(allowed)}"
            )
        seen |= words
    return seen


def distinct(evidence: Evidence, table: str, columns: Sequence[str]) -> set[tuple[Any, ...]]:
    """The distinct combinations of values in these columns. Raises EvidenceError."""
    combinations: set[tuple[Any, ...]] = set()
    schema = TABLES[table].schema
    for path in evidence.tables[table].files:
        for index in range(footer_of(path).num_row_groups):
            rows = read_row_group(open_file(path), path, index, columns)
            try:
                # Text comes in many encodings, some of which do not support group_by.
                once = pa.table({name: rows[name].cast(schema.field(name).type) for name in columns})
                once = once.group_by(columns).aggregate([])
                combinations.update(zip(*(once[name].to_pylist() for name in columns), strict=True))
            except DAMAGE as error:
                raise broken(path, error) from None
    return combinations
