"""Writes tables as CSV: any table of the evidence, or of the analysis (the ledger, the lost messages).

Lists and maps are JSON in a cell; a struct has a column for each of its fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from kaput.errors import UsageError
from kaput.evidence.folder import RunFolder
from kaput.evidence.parquet import DAMAGE, broken, open_file
from kaput.evidence.schemas import TABLES

DERIVED = ("ledger", "lost")
_BATCH_ROWS = 1 << 16


def present(folder: RunFolder) -> list[str]:
    """The tables that the folder has, the evidence's first."""
    return [name for name in (*TABLES, *DERIVED) if _files(folder, name)]


def write_csv(folder: RunFolder, name: str, out: IO[bytes]) -> int:
    """Writes a table with a header; returns its rows. Raises UsageError, EvidenceError, OSError."""
    files = _files(folder, name)
    if not files and name in DERIVED:
        raise UsageError(
            f"{folder.title}: has no analysis/{name}; kaput analyze makes it "
            "(with --ledger messages a row for each message)"
        )
    schema = _flat(pq.read_schema(files[0]) if files else TABLES[name].schema).schema
    rows = 0
    with pc.CSVWriter(out, schema) as writer:
        for batch in _batches(files):
            flat = _flat(batch).select(schema.names).cast(schema)
            writer.write_table(flat)
            rows += len(flat)
    return rows


def _files(folder: RunFolder, name: str) -> list[Path]:
    directory = folder.analysis / name if name in DERIVED else folder.table(name)
    return sorted(path for path in directory.glob("*.parquet") if not path.name.startswith((".", "_")))


def _batches(files: list[Path]) -> Iterator[pa.Table]:
    for path in files:
        try:
            for batch in open_file(path).iter_batches(_BATCH_ROWS, use_threads=False):
                yield pa.Table.from_batches([batch])
        except DAMAGE as error:
            raise broken(path, error) from None


def _flat(table: pa.Table | pa.Schema) -> pa.Table:
    """Converts to columns of single values, with plain strings."""
    if isinstance(table, pa.Schema):
        table = table.empty_table()
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    for at, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            cells = [
                None if cell is None else json.dumps(_plain(cell)) for cell in table.column(at).to_pylist()
            ]
            table = table.set_column(at, field.name, pa.array(cells, pa.string()))
        elif pa.types.is_dictionary(field.type) or pa.types.is_large_string(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.string()))
    return table


def _plain(cell: list[Any]) -> list[Any] | dict[str, Any]:
    """Converts a map, which is a list of pairs, to a dict."""
    return dict(cell) if cell and isinstance(cell[0], tuple) else cell
