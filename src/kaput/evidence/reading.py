"""Checking a run folder that anybody may have written, before a single number is drawn from it.

Only Parquet footers are read, and the values of a column chunk where its statistics do not settle a question.
Not here: what the values mean (analysis), sealing what a run left (sealing.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kaput.errors import EvidenceError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.schemas import CLUSTER_EVENT_KINDS, GROUP_EVENT_KINDS, TABLES, Table

_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("sends", "outcome"): ("acked", "failed", "unknown"),
    ("group_events", "kind"): GROUP_EVENT_KINDS,
    ("cluster_events", "kind"): CLUSTER_EVENT_KINDS,
}
# Which distinct words the analysis needs to know beforehand.
_LISTED = (
    ("sends", "topic"),
    ("log", "topic"),
    *((table, column) for table in ("deliveries", "group_events") for column in ("group", "member", "topic")),
)


@dataclass(frozen=True)
class TableFiles:
    """One table as found: its files (none: an empty table), rows, and the columns that all of them lack."""

    table: Table
    files: tuple[Path, ...] = ()
    rows: int = 0
    lacking: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Evidence:
    """A run folder that follows kaput.evidence/1; `words` are the distinct texts of some (table, column)."""

    folder: RunFolder
    manifest: Manifest
    tables: Mapping[str, TableFiles]
    words: Mapping[tuple[str, str], frozenset[str]]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A small table's rows in file order (faults, cluster_events, end_offsets). Raises EvidenceError."""
        return [row for _, row in self.located(name)]

    def located(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The same rows, each with where it is: its file and its number in it, from 1 on."""
        found = self.tables[name]
        columns = [n for n in found.table.schema.names if n not in found.lacking]
        for path in found.files:
            try:
                rows = pq.ParquetFile(path).read(columns=columns).to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise _broken(path, error) from None
            for number, row in enumerate(rows, 1):
                yield f"{path}, row {number}", {**dict.fromkeys(found.lacking), **row}


def check(folder: RunFolder) -> Evidence:
    """The run folder, checked against evidence/schemas.py. Raises EvidenceError naming the file at fault."""
    manifest = folder.read_manifest()
    recording = manifest.state == "recording"
    # A required table without rows is told apart from a forgotten one by the manifest's state alone.
    tables = {
        name: _check_table(folder, table, table.required and not recording) for name, table in TABLES.items()
    }
    words = {key: _check_words(tables[key[0]], key[1], allowed) for key, allowed in _WORDS.items()}
    words |= {key: _distinct(tables[key[0]].files, key[1]) for key in _LISTED}
    return Evidence(folder, manifest, tables, words)


def _check_table(folder: RunFolder, table: Table, required: bool) -> TableFiles:
    directory = folder.table(table.name)
    if directory.exists() and not directory.is_dir():
        raise EvidenceError(f"{directory}: a file where the directory of table {table.name} should be")
    files = tuple(sorted(p for p in directory.glob("*.parquet") if not p.name.startswith((".", "_"))))
    if not files:
        if required:
            raise EvidenceError(f"{directory}: table {table.name} is required and has no Parquet file")
        return TableFiles(table)
    footers = [_footer(path) for path in files]
    lacking: list[set[str]] = []
    for path, footer in zip(files, footers, strict=True):
        lacking.append(_check_columns(table, path, footer.schema.to_arrow_schema()))
        _check_nulls(table, path, footer)
    for path, absent in zip(files, lacking, strict=True):
        if absent != lacking[0]:
            raise EvidenceError(f"{path}: its columns are not those of {files[0].name} beside it")
    return TableFiles(table, files, sum(footer.num_rows for footer in footers), frozenset(lacking[0]))


def _footer(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise _broken(path, error) from None


def _broken(path: Path, error: Exception) -> EvidenceError:
    return EvidenceError(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]})")


def _check_columns(table: Table, path: Path, found: pa.Schema) -> set[str]:
    """The optional columns that the file lacks."""
    mistakes = []
    for field in table.schema:
        if field.name not in found.names:
            if field.name not in table.optional_columns:
                mistakes.append(f"column {field.name!r} is missing")
        elif not _same_kind(field.type, found.field(field.name).type):
            mistakes.append(
                f"column {field.name!r} is {found.field(field.name).type}, the contract says {field.type}"
            )
    if mistakes:
        raise EvidenceError(f"{path}: table {table.name}: {'; '.join(mistakes)}")
    return {name for name in table.optional_columns if name not in found.names}


def _same_kind(wanted: pa.DataType, found: pa.DataType) -> bool:
    """Whether two types hold the same values; how text is encoded and list items are named is no matter."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
    if pa.types.is_map(wanted):
        return bool(
            pa.types.is_map(found)
            and _same_kind(wanted.key_type, found.key_type)
            and _same_kind(wanted.item_type, found.item_type)
        )
    if pa.types.is_list(wanted):
        listed = pa.types.is_list(found) or pa.types.is_large_list(found)
        return bool(listed and _same_kind(wanted.value_type, found.value_type))
    return bool(wanted.equals(found))


def _check_nulls(table: Table, path: Path, footer: pq.FileMetaData) -> None:
    for field in table.schema:
        if field.nullable or pa.types.is_nested(field.type):
            continue
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(_leaf(footer, field.name)).statistics
            nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
            if nulls is None:
                nulls = _values(path, group, field.name).null_count
            if nulls:
                raise EvidenceError(
                    f"{path}: table {table.name}: column {field.name!r} has {nulls} nulls, and may have none"
                )


def _leaf(footer: pq.FileMetaData, name: str) -> int:
    """The column's position among the leaves of the Parquet schema."""
    return next(i for i in range(footer.num_columns) if footer.schema.column(i).path == name)


def _values(path: Path, group: int, name: str) -> pa.ChunkedArray:
    try:
        return pq.ParquetFile(path, read_dictionary=[name]).read_row_group(group, columns=[name]).column(0)
    except (pa.ArrowException, OSError) as error:
        raise _broken(path, error) from None


def _check_words(found: TableFiles, column: str, allowed: Iterable[str]) -> frozenset[str]:
    seen: frozenset[str] = frozenset()
    for path in found.files:
        words = _distinct([path], column)
        strange = sorted(words - set(allowed))
        if strange:
            raise EvidenceError(
                f"{path}: table {found.table.name}: {column} {strange[0]!r} is none of {', '.join(allowed)}"
            )
        seen |= words
    return seen


def _distinct(files: Iterable[Path], column: str) -> frozenset[str]:
    """The distinct texts of a column; row groups of one value alone are settled by their statistics."""
    words: set[str] = set()
    for path in files:
        footer = _footer(path)
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group)
            statistics = chunk.column(_leaf(footer, column)).statistics
            if chunk.num_rows == 0:
                continue
            if statistics is not None and statistics.has_min_max and statistics.min == statistics.max:
                least = str(statistics.min)
                # Writers may shorten long texts in statistics: only short ones are taken at their word.
                if len(least) < 32:
                    words.add(least)
                    continue
            words.update(w for w in _values(path, group, column).unique().to_pylist() if w is not None)
    return frozenset(words)
