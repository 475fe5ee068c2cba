"""Append-only recording: one writer a process and table, an Arrow stream while the run lasts.

Rows gather in plain lists and go to disk as one record batch at `flush`, with a single write call each,
so that what was flushed survives a SIGKILL of the writer. Not here: sealing to Parquet (sealing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from kaput.evidence.schemas import TABLES


class Recorder:
    """Writes rows of one table to FOLDER/evidence/TABLE/WRITER.arrows."""

    def __init__(self, folder: Path, table: str, writer: str, flush_rows: int = 4096) -> None:
        self.schema = TABLES[table].schema
        self._flush_rows = flush_rows
        self._rows: list[Sequence[Any]] = []
        directory = folder / "evidence" / table
        directory.mkdir(parents=True, exist_ok=True)
        self._file = pa.OSFile(str(directory / f"{writer}.arrows"), "wb")
        self._stream = pa.ipc.new_stream(self._file, self.schema)

    def row(self, *values: Any) -> None:
        """One row, values in the order of the table's columns; trailing nullable columns may be left out."""
        self._rows.append(values)
        if len(self._rows) >= self._flush_rows:
            self.flush()

    def columns(self, columns: Sequence[Any]) -> None:
        """A batch from arrays, in the order of the table's columns; goes to disk at once."""
        self.flush()
        arrays = [pa.array(c, type=f.type) for c, f in zip(columns, self.schema, strict=True)]
        self._stream.write_batch(pa.record_batch(arrays, schema=self.schema))

    def flush(self) -> None:
        """Everything recorded so far is the operating system's after this."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        missing = len(self.schema) - min(len(r) for r in rows)
        padded = [tuple(r) + (None,) * (len(self.schema) - len(r)) for r in rows] if missing else rows
        arrays = [
            pa.array(column, type=field.type)
            for column, field in zip(zip(*padded, strict=True), self.schema, strict=True)
        ]
        self._stream.write_batch(pa.record_batch(arrays, schema=self.schema))

    def close(self) -> None:
        """Flush and end the stream."""
        self.flush()
        self._stream.close()
        self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
