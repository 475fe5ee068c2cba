"""Evidence that another program wrote, as tables that follow the contract (schemas.py).

A table may be CSV or JSON lines, its producers may have names, its columns the types that pandas, Polars,
Spark or a Java program give them. Such tables are converted once, to imported/TABLE/ in the run folder; the
files themselves are never changed. What was assumed is told in notes; lines that cannot be read are counted,
and make a result inconclusive where it could depend on them. Not here: single columns (foreign_columns.py).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import plural
from kaput.errors import EvidenceError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.foreign_columns import (
    NULL_WORDS,
    Converted,
    TimeColumn,
    Where,
    converted,
    plain,
    same_kind,
    shown,
)
from kaput.evidence.foreign_lines import NAMES_FIRST, UnreadableLines, blocks, is_csv, is_lines
from kaput.evidence.parquet import DAMAGE, broken, footer_of, open_file, read_row_group, values
from kaput.evidence.schemas import TABLES, TIMES, Column, EvidenceTable
from kaput.evidence.sealing import parquet_writer

_VERSION = 6
# Tables in which a line that cannot be read changes no count.
_UNCOUNTED = ("samples", "requests", "frames", "replica_log")
_SHOWN_NAMES = 10
_HIGHEST = 2**31 - 1
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def files_of(folder: RunFolder, table: EvidenceTable) -> tuple[Path, ...]:
    """The files of a table, from any writer: evidence/TABLE/*, or evidence/TABLE.*, where Spark makes a
    folder of that name; with partitionBy in folders such as producer=0. Raises EvidenceError.
    """
    directory = folder.table(table.name)
    if directory.exists() and not directory.is_dir():
        raise EvidenceError(f"{directory}: a file where the directory of table {table.name} should be")
    single = [path for path in directory.parent.glob(f"{table.name}.*") if _is_readable(path)]
    if len(single) == 1 and single[0].is_dir():
        single = [path for path in _shown(single[0]) if _is_readable(path)]
    there = _shown(directory)
    found = [path for path in there if _is_readable(path)]
    if single and found:
        raise EvidenceError(f"{single[0]}: table {table.name} is also in {directory}; keep one of them")
    if nested := next((path for path in there if path.is_dir() and any(path.rglob("*.parquet"))), None):
        raise EvidenceError(
            f"{nested}: a directory; the files of table {table.name} belong in {directory}, or in folders "
            "named COLUMN=VALUE"
        )
    return tuple(single or found)


def _shown(directory: Path) -> list[Path]:
    """What is in a directory, and in the folders there that name a column's value instead of these."""
    shown: list[Path] = []
    for path in sorted(path for path in directory.glob("*") if not path.name.startswith((".", "_"))):
        shown += _shown(path) if path.name.find("=") > 0 and path.is_dir() else [path]
    return shown


def _folder_values(path: Path) -> dict[str, str | None]:
    """The columns of a file that the names of its folders have: topic=a%2Fb/producer=0."""
    folders = takewhile(lambda folder: folder.name.find("=") > 0, path.parents)
    pairs = [folder.name.split("=", 1) for folder in folders]
    return {unquote(name).lower(): None if value == _NULL_FOLDER else unquote(value) for name, value in pairs}


def _repeated(value: str | None, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), rows)


def _is_readable(path: Path) -> bool:
    return path.suffix == ".parquet" or is_lines(path)


@dataclass
class _Import:
    """What is known while the tables of one run are converted."""

    names: dict[str, int] | None = None  # the producers', if they are not all numbers
    notes: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    unreadable_lines: dict[str, int] = field(default_factory=dict)  # by table, if counts depend on it

    def producers(self, array: pa.Array) -> Converted:
        if self.names is None:
            return converted(array, pa.int32())
        numbers = self.names
        texts = array.cast(pa.string()).to_pylist()
        found = [None if text in (None, "") else numbers.setdefault(text, len(numbers)) for text in texts]
        return Converted(pa.array(found, pa.int32()), np.zeros(len(found), np.bool_))


def strict(folder: RunFolder, manifest: Manifest) -> tuple[RunFolder, Manifest]:
    """The run folder with tables as the contract has them, and notes. Raises EvidenceError, OSError."""
    found = {name: files_of(folder, table) for name, table in TABLES.items()}
    foreign = {name for name, files in found.items() if any(not _is_strict(TABLES[name], p) for p in files)}
    if not foreign:
        return folder, manifest
    target = folder.path / "imported"
    states = [(path.relative_to(folder.path), path.stat()) for name in TABLES for path in found[name]]
    sources = [[str(path), state.st_size, state.st_mtime_ns] for path, state in states]
    known = _known(target, sources)
    if known is None:
        known = _import(found, foreign, target, sources)
    imported = replace(folder, imported=target, foreign=frozenset(known["tables"]))
    added = {key: [*getattr(manifest, key), *known[key]] for key in ("notes", "troubles")}
    return imported, manifest.model_copy(update={**added, "unreadable_lines": known["unreadable_lines"]})


def _is_strict(table: EvidenceTable, path: Path) -> bool:
    """Whether a file is as the contract says, or wrong in a way that its check names."""
    if path.suffix != ".parquet":
        return False
    try:
        schema = footer_of(path).schema.to_arrow_schema()
    except (EvidenceError, *DAMAGE):
        return True
    if path.parent.name != table.name:
        return False
    for column in table.columns:
        if schema.names.count(column.name) > 1:
            return True
        if column.name not in schema.names:
            if not column.optional and _source_of(table, column, schema.names) is not None:
                return False
            continue
        kind = schema.field(column.name).type
        if not same_kind(column.type, kind) and not (column.null is not None and pa.types.is_null(kind)):
            return False
    return True


def _known(target: Path, sources: list[Any]) -> dict[str, Any] | None:
    """What an earlier import of the same files noted."""
    try:
        known = json.loads((target / "sources.json").read_bytes())
    except (OSError, ValueError):
        return None
    same = isinstance(known, dict) and (known.get("version"), known.get("sources")) == (_VERSION, sources)
    return known if same else None


def _import(
    found: Mapping[str, tuple[Path, ...]], foreign: set[str], target: Path, sources: list[Any]
) -> dict[str, Any]:
    known = _Import(None if _are_numbers(found) else {})
    if known.names is not None:
        foreign = foreign | {name for name, files in found.items() if files and _has_producers(name)}
    shutil.rmtree(target, ignore_errors=True)
    temporary = target.with_name(f".imported-{os.getpid()}")
    try:
        for name in TABLES:
            if name in foreign:
                _ImportedTable(TABLES[name], known).write(found[name], temporary / name)
        if known.names:
            known.notes.append(_names_sentence(known.names))
        noted = {
            "notes": known.notes,
            "troubles": known.troubles,
            "unreadable_lines": known.unreadable_lines,
            "tables": sorted(foreign),
        }
        document = {"version": _VERSION, "sources": sources, **noted}
        (temporary / "sources.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        temporary.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return noted


def _has_producers(name: str) -> bool:
    return any(column.name == "producer" for column in TABLES[name].columns)


def _are_numbers(found: Mapping[str, tuple[Path, ...]]) -> bool:
    """Whether all producers are numbers that the contract's column holds."""
    return all(
        _is_number(array)
        for name, files in found.items()
        if _has_producers(name)
        for path in files
        for array in _producers_in(path)
    )


def _producers_in(path: Path) -> Iterator[pa.Array]:
    if "producer" in (folders := _folder_values(path)):
        yield _repeated(folders["producer"], 1)
    if is_lines(path):
        for block in blocks(path, UnreadableLines()):
            if "producer" in block.columns:
                yield block.columns["producer"]
        return
    footer = footer_of(path)
    if "producer" in footer.schema.names:
        for index in range(footer.num_row_groups):
            yield _plain(path, "producer", values(path, index, "producer"))


def _plain(path: Path, name: str, array: pa.ChunkedArray) -> pa.Array:
    try:
        return plain(array)
    except DAMAGE as error:
        raise EvidenceError(f"{path}: column {name!r} has a text that is not UTF-8 ({error})") from None


def _is_number(array: pa.Array) -> bool:
    found = converted(array, pa.int64())
    least = pc.min(found.values).as_py()
    return not found.unreadable.any() and (
        least is None or (least >= 0 and pc.max(found.values).as_py() <= _HIGHEST)
    )


def _names_sentence(names: Mapping[str, int]) -> str:
    shown = ", ".join(f"{number} is {name}" for name, number in list(names.items())[:_SHOWN_NAMES])
    rest = f", and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return f"Producers have names in the evidence, and numbers here: {shown}{rest}."


def _bases(column: Column) -> tuple[str, list[str]]:
    """The name of a column of times without a unit, and all names that it may have."""
    base, _, own = column.name.rpartition("_")
    return base, [column.name, *(f"{base}_{unit}" for unit in ("ns", "us", "ms", "s") if unit != own), base]


def _is_time(column: Column) -> bool:
    return column.type != TIMES and column.name.endswith(("_ns", "_ms")) and column.name != "within_ns"


def _source_of(table: EvidenceTable, column: Column, names: Iterable[str]) -> str | None:
    """The name that a column has in a file; None: it is not there."""
    there = set(names)
    if not _is_time(column):
        return column.name if column.name in there else None
    own = {each.name for each in table.columns} - {column.name}
    found = [name for name in _bases(column)[1] if name in there and name not in own]
    return found[0] if found else None


def _at_line(path: Path, lines: Sequence[int], row: int) -> str:
    return f"{path}:{lines[row]}"


def _at_row(path: Path, before: int, row: int) -> str:
    return f"{path}, row {before + row + 1}"


class _ImportedTable:
    """Converts the files of one table."""

    def __init__(self, table: EvidenceTable, known: _Import) -> None:
        self._table, self._known = table, known
        self._times: dict[str, TimeColumn] = {}
        self._unreadable = UnreadableLines()
        self._rows = 0

    def write(self, files: tuple[Path, ...], target: Path) -> None:
        """Writes a Parquet file for each of `files`. Raises EvidenceError naming the file at fault."""
        target.mkdir(parents=True)
        for number, path in enumerate(files):  # in several folders they may have the same name
            name = f"{number:06}-{path.name.removesuffix('.parquet')}.parquet"
            with parquet_writer(self._table, target / name) as out:
                for rows in self._lines(path) if is_lines(path) else self._row_groups(path):
                    out.write_table(rows)
                    self._rows += rows.num_rows
        self._note(files)

    def _note(self, files: tuple[Path, ...]) -> None:
        name, times = self._table.name, [each for each in self._times.values() if not each.is_expected]
        by_unit: dict[str, list[str]] = {}
        for each in times:
            by_unit.setdefault(str(each.read_as), []).append(f"{name}.{each.source}")
        self._known.notes += [
            f"Times read as {how}: {', '.join(columns)}." for how, columns in by_unit.items()
        ]
        if self._unreadable.count:
            sentence = (
                f"{plural(self._unreadable.count, 'line')} of table {name} could not be read and "
                f"{'is' if self._unreadable.count == 1 else 'are'} not counted: "
                f"{'; '.join(self._unreadable.shown)}"
            )
            if name in _UNCOUNTED:
                self._known.notes.append(sentence)
            else:
                self._known.troubles.append(sentence)
                self._known.unreadable_lines[name] = self._unreadable.count
            if not self._rows:
                raise EvidenceError(f"{files[0]}: no line could be read: {self._unreadable.shown[0]}")

    def _lines(self, path: Path) -> Iterator[pa.Table]:
        """The rows of a file with lines, without those that cannot be read."""
        for block in blocks(path, self._unreadable):
            lines = block.lines
            columns = self._with_folders(path, block.columns, len(lines))
            self._check_names(path, columns, lines=True)
            where = partial(_at_line, path, lines)
            found = [self._column(column, columns, len(lines), where) for column in self._table.columns]
            bad: dict[int, str] = {}
            for column, each in zip(self._table.columns, found, strict=True):
                missing = each.unreadable
                if column.null is None:
                    missing = missing | np.asarray(each.values.is_null())
                for row in np.flatnonzero(missing).tolist():
                    source = _source_of(self._table, column, columns)
                    value = columns[source][row].as_py() if source else None
                    name = source or column.name
                    bad.setdefault(row, f"{name} {value!r}" if value else f"{name} is missing")
            for row, why in sorted(bad.items()):
                self._unreadable.add(path, lines[row], why)
            kept = np.ones(len(lines), np.bool_)
            kept[list(bad)] = False
            yield pa.table([each.values.filter(pa.array(kept)) for each in found], schema=self._table.schema)

    def _row_groups(self, path: Path) -> Iterator[pa.Table]:
        """The rows of a Parquet file; every value must be readable."""
        file, before = open_file(path), 0
        in_file = file.schema_arrow.names
        names = {*in_file, *_folder_values(path)}
        self._check_names(path, names, lines=False)
        sources = {source for c in self._table.columns if (source := _source_of(self._table, c, names))}
        for index in range(file.metadata.num_row_groups):
            rows = read_row_group(file, path, index, sorted(sources.intersection(in_file)))
            count = file.metadata.row_group(index).num_rows
            try:
                arrays = {name: _plain(path, name, rows[name]) for name in rows.column_names}
                arrays = self._with_folders(path, arrays, count)
                where = partial(_at_row, path, before)
                found = [self._column(column, arrays, count, where) for column in self._table.columns]
            except DAMAGE as error:
                raise broken(path, error) from None
            for column, each in zip(self._table.columns, found, strict=True):
                self._check_readable(path, before, column, each, arrays)
            before += count
            yield pa.table([each.values for each in found], schema=self._table.schema)

    def _with_folders(self, path: Path, arrays: dict[str, pa.Array], rows: int) -> dict[str, pa.Array]:
        """The columns of a file, and those that its folders name. Raises EvidenceError if they disagree."""
        folders = {name: _repeated(value, rows) for name, value in _folder_values(path).items()}
        both = folders.keys() & arrays.keys() if rows else set()
        for column in self._table.columns:
            if (source := _source_of(self._table, column, both)) is None:
                continue
            there, named = (
                _ImportedTable(self._table, self._known)._column(column, {source: array}, rows, str).values
                for array in (arrays[source], folders[source].slice(0, 1))
            )
            others = (value for value in there.to_pylist() if value not in (None, named[0].as_py()))
            if (other := next(others, None)) is not None:
                raise EvidenceError(
                    f"{path}: table {self._table.name}: column {source!r} has {other!r}, and its folder's "
                    f"name says {_folder_values(path)[source]!r}"
                )
        return folders | arrays

    def _check_readable(
        self, path: Path, before: int, column: Column, found: Converted, arrays: Mapping[str, pa.Array]
    ) -> None:
        place = f"table {self._table.name}: column {column.name!r}"
        if found.unreadable.any():
            row = int(np.flatnonzero(found.unreadable)[0])
            value = shown(arrays[str(_source_of(self._table, column, arrays))], row)
            raise EvidenceError(
                f"{_at_row(path, before, row)}: {place} has {value!r}, the contract says {column.type}"
            )
        if column.null is None and found.values.null_count:
            raise EvidenceError(f"{path}: {place} has {found.values.null_count} nulls, and may have none")

    def _check_names(self, path: Path, names: Iterable[str], lines: bool) -> None:
        """Raises EvidenceError for columns that are missing."""
        there = list(names)
        missing = [
            column.name
            for column in self._table.columns
            if not (column.optional or (lines and column.null is not None))
            and _source_of(self._table, column, there) is None
        ]
        if missing:
            mistakes = "; ".join(f"column {name!r} is missing" for name in missing)
            mistakes += f"; {NAMES_FIRST}" if is_csv(path) else ""
            raise EvidenceError(f"{path}: table {self._table.name}: {mistakes}")

    def _column(self, column: Column, arrays: Mapping[str, pa.Array], rows: int, where: Where) -> Converted:
        source = _source_of(self._table, column, arrays)
        if source is None:
            return converted(pa.nulls(rows), column.type)
        array = arrays[source]
        if _is_time(column):
            if source not in self._times:
                self._times[source] = TimeColumn(column, source, bare=source == _bases(column)[0])
            return self._times[source].read(array, where)
        if column.name == "producer":
            return self._known.producers(array)
        found = converted(array, column.type)
        if column.name == "outcome":  # Java's enums have capitals
            return replace(found, values=pc.utf8_lower(found.values))
        if pa.types.is_string(column.type) and column.null is not None:
            blank = pc.is_in(found.values, pa.array(NULL_WORDS))
            return replace(found, values=pc.if_else(blank, None, found.values))
        return found
