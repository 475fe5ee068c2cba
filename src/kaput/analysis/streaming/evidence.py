"""What clients have recorded since it was last looked at: rows of their streams that the ledger has not.

How far each stream was read is part of the ledger's state, in rows: a stream that is read anew from its
beginning goes on where the last kept version ended.
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
_LOOKS = 64  # at a file of which there is very much: the rest is the next micro-batch's


class RecordedEvidence:
    """The streams in a run folder, open until the process ends. `taken`: by TABLE/FILE, how many rows were
    read so far.
    """

    def __init__(self, folder: Path, taken: Mapping[str, int]) -> None:
        self._folder = folder / "evidence"
        self.taken = dict(taken)
        self._skip = dict(taken)
        self._tails: dict[str, StreamTail] = {}

    def take(self) -> dict[str, pa.Table]:
        """New rows by table, of tables that have any."""
        found: dict[str, pa.Table] = {}
        for table in READ:
            self._find(table)
            batches = [
                batch
                for name, tail in sorted(self._tails.items())
                if name.startswith(f"{table}/")
                for batch in self._rows(name, tail)
            ]
            if batches:
                found[table] = pa.concat_tables(batches)
        return found

    def _find(self, table: str) -> None:
        """Opens the streams that are new."""
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
        found = []
        for _ in range(_LOOKS):
            for batch in tail.take():
                rows = batch.num_rows
                skipped = min(rows, self._skip.get(name, 0))
                if skipped:
                    self._skip[name] -= skipped
                if rows > skipped:
                    # Words are numbers in streams, each with the words that it was written with.
                    found.append(pa.table(batch.slice(skipped)).select(schema.names).cast(schema))
                    self.taken[name] = self.taken.get(name, 0) + rows - skipped
            if not tail.more:
                break
        return found
