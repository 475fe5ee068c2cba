"""Reads what clients have recorded since the last call: rows of their streams that the ledger does not have.

The number of rows read of each stream is part of the ledger's state: a stream that is read again from its
beginning continues where the last kept version ended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from kaput.evidence.schemas import TABLES
from kaput.evidence.tails import StreamTail

READ = ("sends", "deliveries")  # what clients record
_STREAM = ".arrows"
_MAX_READS = 64  # of a very long file at a time; the rest is for the next micro-batch


class RecordedEvidence:
    """The streams in a run folder. `taken`: by TABLE/FILE, how many rows were read so far."""

    def __init__(self, folder: Path, taken: Mapping[str, int]) -> None:
        self._folder = folder / "evidence"
        self.taken = dict(taken)
        self._skip = dict(taken)
        self._tails: dict[str, StreamTail] = {}

    def take(self) -> dict[str, pa.Table]:
        """New rows by table, of tables with any."""
        rows_by_table: dict[str, pa.Table] = {}
        for table in READ:
            self._find(table)
            batches = [
                batch
                for name, tail in sorted(self._tails.items())
                if name.startswith(f"{table}/")
                for batch in self._rows(name, tail)
            ]
            if batches:
                rows_by_table[table] = pa.concat_tables(batches)
        return rows_by_table

    def _find(self, table: str) -> None:
        """Opens new streams."""
        directory = self._folder / table
        if not directory.is_dir():
            return
        columns = [field.name for field in TABLES[table].schema]
        for path in directory.iterdir():
            name = f"{table}/{path.name}"
            if path.suffix == _STREAM and name not in self._tails:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._tails[name] = StreamTail(descriptor, columns)

    def _rows(self, name: str, tail: StreamTail) -> list[pa.Table]:
        schema = TABLES[name.partition("/")[0]].schema
        tables = []
        for _ in range(_MAX_READS):
            for batch in tail.take():
                rows = batch.num_rows
                skipped = min(rows, self._skip.get(name, 0))
                if skipped:
                    self._skip[name] -= skipped
                if rows > skipped:
                    # Text is dictionary-encoded in streams, with a dictionary per batch.
                    tables.append(pa.table(batch.slice(skipped)).select(schema.names).cast(schema))
                    self.taken[name] = self.taken.get(name, 0) + rows - skipped
            if not tail.more:
                break
        return tables
