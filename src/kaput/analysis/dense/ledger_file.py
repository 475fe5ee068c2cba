"""The ledger on disk: one row a message, written by the task that counted it.

A file is complete under its name before anybody can see it, and a task that is run again writes the same one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.analysis.dense.context import Context
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.names import SHIFT
from kaput.scenario.vocabulary import OUTCOMES

if TYPE_CHECKING:
    from kaput.analysis.dense.messages import Chunk

_ROW_GROUP_ROWS = 250_000  # several chunks: each row group costs something by itself
_RISING = ("seq", "attempt_ns", "done_ns", "offset", "first_offset")  # stored as differences


def schema(groups: Sequence[str]) -> pa.Schema:
    """The ledger's columns. `delivered` has a field for each group."""
    text = pa.dictionary(pa.int32(), pa.string())
    columns = [
        ("producer", pa.int32()),
        ("seq", pa.int64()),
        ("topic", text),
        ("partition", pa.int32()),
        ("attempt_ns", pa.int64()),
        ("done_ns", pa.int64()),
        ("outcome", text),
        ("offset", pa.int64()),
        ("error", text),
        ("stored", pa.int32()),
        ("first_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("unread", pa.bool_()),
    ]
    if groups:
        columns.append(("delivered", pa.struct([(group, pa.int32()) for group in groups])))
    return pa.schema(columns)


class LedgerFile:
    """One task's file in the ledger's directory: a context manager. Made with the first row."""

    def __init__(self, context: Context, part: int) -> None:
        assert context.ledger is not None
        self._context = context
        self._schema = schema(context.names.groups)
        self._path = Path(context.ledger) / f"part-{part:05d}.parquet"
        self._beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[pa.Table] = []

    def add(self, laid: Chunk) -> None:
        """The rows of a chunk."""
        if self._writer is None:
            self._beside.parent.mkdir(parents=True, exist_ok=True)
            self._writer = _writer(self._beside, self._schema)
        self._rows.append(table(laid, self._context, self._schema))
        if sum(rows.num_rows for rows in self._rows) >= _ROW_GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        """The rows gathered, as one row group."""
        rows = pa.concat_tables(self._rows)
        if rows.num_rows and self._writer is not None:
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows = []

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            if kind is None and self._rows:
                self._write()
            self._writer.close()
            if kind is None:
                self._beside.replace(self._path)
            else:
                self._beside.unlink()


def empty(directory: Path, groups: Sequence[str]) -> None:
    """A file without rows, so that a ledger of nothing can be read."""
    directory.mkdir(parents=True, exist_ok=True)
    with _writer(directory / "part-00000.parquet", schema(groups)) as writer:
        writer.write_table(schema(groups).empty_table())


def _writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    # Small numbers are packed by the compression alone: a dictionary costs twice the time to make.
    return pq.ParquetWriter(
        path,
        columns,
        compression="lz4",
        use_dictionary=["topic", "outcome", "error"],
        column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
    )


def table(laid: Chunk, context: Context, columns: pa.Schema) -> pa.Table:
    """The messages of a chunk that were sent, as rows."""
    ran = laid.ran
    rows: slice | npt.NDArray[np.intp] = slice(None) if ran.all() else np.flatnonzero(ran)
    place, stored = laid.place[rows], laid.stored[rows]
    count = len(stored)
    known = place != NULL
    found: dict[str, Any] = {
        "producer": _numbers(np.broadcast_to(np.int32(laid.producer), (count,))),
        "seq": _numbers(laid.seq[rows]),
        "topic": _words(laid.topic[rows], context.names.topics),
        "partition": _numbers((place % SHIFT).astype(np.int32), ~known),
        "attempt_ns": _numbers(laid.attempt_ns[rows]),
        "done_ns": _nullable(laid.done_ns[rows]),
        "outcome": _words(laid.outcome[rows], OUTCOMES),
        "offset": _nullable(laid.offset[rows]),
        "error": _words(laid.error[rows], laid.words),
        "stored": _numbers(stored.astype(np.int32)),
        "first_offset": _nullable(laid.first_offset[rows]),
        "leader_epoch": _nullable(laid.epoch[rows], np.int32),
        "unread": pa.array(unread(place, laid.topic[rows], stored, context)),
    }
    groups = context.names.groups
    if groups:
        times = [_numbers(laid.delivered[g][rows].astype(np.int32)) for g in range(len(groups))]
        found["delivered"] = pa.StructArray.from_arrays(times, fields=list(columns.field("delivered").type))
    return pa.table([found[name] for name in columns.names], schema=columns)


def unread(place: Ints, topic: Ints, stored: Ints, context: Context) -> npt.NDArray[np.bool_]:
    """Not found, and not everything that could hold it was read to its end."""
    missing: npt.NDArray[np.bool_] = stored == 0
    if not missing.any():
        return missing
    read = np.zeros(len(place), bool)
    lacking = np.flatnonzero(missing)
    where = place[lacking]
    complete = np.array(sorted(context.complete), np.int64)
    topics = np.array(sorted(context.complete_topics), np.int64)
    read[lacking] = np.where(where == NULL, np.isin(topic[lacking], topics), np.isin(where, complete))
    missing &= ~read
    return missing


def _numbers(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    mask = absent if absent is not None and absent.any() else None
    return pa.array(np.ascontiguousarray(values), mask=mask)


def _nullable(values: Ints, kind: type[np.int32] | type[np.int64] = np.int64) -> pa.Array:
    return _numbers(values.astype(kind, copy=False), values == NULL)


def _words(numbers: Ints, words: Sequence[str]) -> pa.Array:
    absent = numbers < 0
    indices = _numbers(np.where(absent, 0, numbers).astype(np.int32), absent)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(words), pa.string()))
