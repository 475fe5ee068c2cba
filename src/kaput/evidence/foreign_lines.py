"""Reads CSV and JSON lines, also compressed, as columns of text; counts the lines that cannot be read.

The header of a CSV names its columns; they are separated by commas, semicolons or tabs. JSON may also be one
document, in any form that pandas writes (`rows_of`). Not here: what the texts mean (foreign_columns.py).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kaput.errors import EvidenceError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1 << 16  # of a block
_Row = TypeVar("_Row")
_SHOWN, _EXCERPT = 3, 80
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
_SEPARATORS = (",", "\t", ";")
NAMES_FIRST = "the first line of a CSV names its columns (Spark writes it with header=True)"


def compression_of(start: bytes) -> str | None:
    """How a file is compressed that begins like this, by Arrow's name; None: not at all."""
    return next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)


csv.field_size_limit(1 << 24)


@dataclass
class UnreadableLines:
    """The lines of one table that could not be read: how many, and the first three."""

    count: int = 0
    _first: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def shown(self) -> list[str]:
        """The first ones, with their places."""
        return [f"{name}:{line}: {text}" for name, line, text in self._first]

    def add(self, path: Path, line: int, why: str) -> None:
        """Notes a line. `why`: what is wrong with it, or its text."""
        self.count += 1
        if len(self._first) == _SHOWN and (path.name, line) > self._first[-1][:2]:
            return
        cut = why[:_EXCERPT] + "..." if len(why) > _EXCERPT else why
        self._first.append((path.name, line, cut.encode(errors="backslashreplace").decode()))
        self._first = sorted(self._first)[:_SHOWN]


@dataclass(frozen=True)
class LineBlock:
    """Some rows: their columns, all of text, and the line that each ends on."""

    columns: dict[str, pa.Array]
    lines: list[int]


def blocks(path: Path, unreadable: UnreadableLines) -> Iterator[LineBlock]:
    """The rows of a file. Raises EvidenceError naming it if it cannot be read at all."""
    import pyarrow as pa  # here alone: `kaput sequence check` needs none of it

    try:
        with path.open("rb") as file:
            start = file.read(4)
        with pa.input_stream(str(path), compression=compression_of(start)) as stream:
            wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # of Windows
            how = ("utf-16", "replace") if wide else ("utf-8-sig", "surrogateescape")
            text = io.TextIOWrapper(stream, *how, newline="")
            read = _csv_blocks if _kind(path) == ".csv" else _json_blocks
            yield from read(path, text, unreadable)
    except (OSError, EOFError) as error:
        raise EvidenceError(f"{path}: cannot be read ({error})") from None


def is_lines(path: Path) -> bool:
    """Whether a file's name says that it has CSV or JSON lines."""
    return _kind(path) in (".csv", ".json", ".jsonl", ".ndjson")


def is_csv(path: Path) -> bool:
    return _kind(path) == ".csv"


def _kind(path: Path) -> str:
    suffixes = [suffix for suffix in path.suffixes if suffix.isascii()]
    if suffixes and suffixes[-1] in (".gz", ".zst", ".bz2", ".lz4"):
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    return ".csv" if kind == ".tsv" else kind


def _csv_blocks(path: Path, text: io.TextIOWrapper, unreadable: UnreadableLines) -> Iterator[LineBlock]:
    header, above = text.readline(), 1
    if header.startswith("sep="):  # of Excel
        header, above = text.readline(), 2
    separator = max(_SEPARATORS, key=header.count)
    names = [
        name.strip().lower()
        for name in next(csv.reader([header], delimiter=separator, skipinitialspace=True), [])
    ]
    if not names:
        raise EvidenceError(f"{path}: is empty; {NAMES_FIRST}")
    if double := next((name for name in names if name and names.count(name) > 1), None):
        raise EvidenceError(f"{path}: column {double!r} is there twice; {NAMES_FIRST}")
    for rows in _in_blocks(_csv_rows(path, text, separator, len(names), above, unreadable)):
        yield _block(path, names, rows, unreadable)


def _csv_rows(
    path: Path, text: io.TextIOWrapper, separator: str, width: int, above: int, unreadable: UnreadableLines
) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(text, delimiter=separator, skipinitialspace=True)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            unreadable.add(path, rows.line_num + above, str(error))
            continue
        if len(row) == width:
            yield rows.line_num + above, row
        elif row:
            unreadable.add(path, rows.line_num + above, separator.join(row))


def _json_blocks(path: Path, text: io.TextIOWrapper, unreadable: UnreadableLines) -> Iterator[LineBlock]:
    for rows in _in_blocks(_json_documents(path, text, unreadable)):
        names = list(dict.fromkeys(name for _, row in rows for name in row))
        texts = [(line, [_text(row.get(name)) for name in names]) for line, row in rows]
        yield _block(path, names, texts, unreadable)


def _json_documents(
    path: Path, text: io.TextIOWrapper, unreadable: UnreadableLines
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        if number == 1 and line.lstrip().startswith(("[", "{\n", "{\r")):
            yield from _whole(path, line + text.read())
            return
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            document = None
        if number == 1 and (rows := rows_of(document)) is not None:
            yield from enumerate(rows, 1)
        elif isinstance(document, dict):
            yield number, document
        else:
            unreadable.add(path, number, line.strip())


def _whole(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{path}: neither JSON lines nor one document ({error})") from None
    for number, row in enumerate(rows_of(document) or [document], 1):
        if not isinstance(row, dict):
            raise EvidenceError(f"{path}: item {number} of the array is no object")
        yield number, row


def rows_of(document: Any) -> list[Any] | None:
    """The rows of a JSON document that is a whole table: an array of them, or what pandas' to_json writes by
    default (`{"seq": {"0": 17}}`), as index, split or table, or lists by column. None: it is no table.
    """
    if isinstance(document, list):
        return document
    if not isinstance(document, dict) or not document:
        return None
    data, parts = document.get("data"), list(document.values())
    if isinstance(data, list) and isinstance(names := document.get("columns"), list):
        return [dict(zip(names, row, strict=False)) for row in data]
    if isinstance(data, list) and "schema" in document:
        return data
    if all(isinstance(part, dict) for part in parts):
        if all(name.isdigit() for name in document):
            return parts
        rows = dict.fromkeys(key for part in parts for key in part)
        return [{name: part.get(row) for name, part in document.items()} for row in rows]
    if all(isinstance(part, list) for part in parts):
        return [dict(zip(document, row, strict=False)) for row in zip(*parts, strict=False)]
    return None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _in_blocks(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    return iter(lambda: list(islice(rows, ROWS)), [])


def _block(
    path: Path, names: list[str], rows: list[tuple[int, list[Any]]], unreadable: UnreadableLines
) -> LineBlock:
    """Some rows, each with its line. A row whose text is not UTF-8 is unreadable."""
    try:
        return LineBlock(_arrays(names, [row for _, row in rows]), [line for line, _ in rows])
    except UnicodeEncodeError:
        good = [each for each in rows if _is_text(each[1])]
        for line, row in rows:
            if not _is_text(row):
                unreadable.add(path, line, "not UTF-8: " + ",".join(map(str, row)))
        return LineBlock(_arrays(names, [row for _, row in good]), [line for line, _ in good])


def _arrays(names: list[str], rows: list[list[Any]]) -> dict[str, pa.Array]:
    import pyarrow as pa

    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=True)}


def _is_text(row: list[Any]) -> bool:
    try:
        "".join(each or "" for each in row).encode()
    except UnicodeEncodeError:
        return False
    return True
