"""Append-only recording: one writer per process and table, to an Arrow stream while the run lasts.

Values gather in typed arrays per column (no Python object per row), and `flush` writes them as one record
batch: a plain write, so flushed rows survive a SIGKILL of the writer. Not here: sealing to Parquet
(sealing.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kaput.core import NULL_INT, NULL_LONG
from kaput.errors import EvidenceError
from kaput.evidence.recording import hold_to_record
from kaput.evidence.schemas import CLUSTER, TABLES

_NULL_FLAG = -1  # in a boolean column

_WORD = pa.dictionary(pa.int16(), pa.string())

# A whole column: an array, or one value for all rows.
Values = np.ndarray[Any, Any] | str | int | bool | None


class _NumberColumn:
    """A numeric or boolean column in an array. `null`: the sentinel for null; None if not nullable."""

    def __init__(self, code: str, dtype: pa.DataType, null: float | None) -> None:
        self._type, self._null = dtype, null
        self.values: array[Any] = array(code)
        self.append: Callable[[Any], None] = self.values.append

    def add(self, value: Any) -> None:
        self.append(self._null if value is None else value)

    def take(self) -> pa.Array:
        # A copy, because an array with an exported buffer cannot be emptied in place.
        copy = np.array(self.values)
        del self.values[:]
        mask: np.ndarray[Any, Any] | None = None
        if self._null is not None:
            mask = np.isnan(copy) if isnan(self._null) else copy == self._null
        if pa.types.is_boolean(self._type):
            return pa.array(copy.astype(bool), mask=mask)
        return pa.array(copy, type=self._type, mask=mask)


class _TextColumn:
    """A text column, dictionary-encoded: rows hold the numbers of words."""

    def __init__(self, dtype: pa.DataType) -> None:
        self._type = dtype
        self._numbers: dict[str, int] = {}
        self._rows: array[int] = array("i")
        self.append: Callable[[int], None] = self._rows.append

    def number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))

    def add(self, value: str | None) -> None:
        self.append(NULL_INT if value is None else self.number(value))

    def fill(self, count: int, value: str | None) -> None:
        """Fills up to `count` rows with the same value."""
        number = NULL_INT if value is None else self.number(value)
        self._rows.extend(array("i", [number]) * (count - len(self._rows)))

    def take(self) -> pa.Array:
        rows = np.array(self._rows)
        del self._rows[:]
        words, numbers = pa.array(list(self._numbers), pa.string()), pa.array(rows, mask=rows == NULL_INT)
        return pa.DictionaryArray.from_arrays(numbers, words).cast(self._type)


class _ObjectColumn:
    """A column of lists or maps, for small tables."""

    def __init__(self, dtype: pa.DataType) -> None:
        self._type = dtype
        self._rows: list[Any] = []
        self.append: Callable[[Any], None] = self._rows.append

    def add(self, value: Any) -> None:
        self.append(value)

    def take(self) -> pa.Array:
        taken = pa.array(self._rows, type=self._type)
        self._rows.clear()
        return taken


def _column(dtype: pa.DataType, nullable: bool) -> _NumberColumn | _TextColumn | _ObjectColumn:
    if pa.types.is_int64(dtype):
        return _NumberColumn("q", dtype, NULL_LONG)
    if pa.types.is_int32(dtype):
        return _NumberColumn("i", dtype, NULL_INT)
    if pa.types.is_boolean(dtype):
        return _NumberColumn("b", dtype, _NULL_FLAG)
    if pa.types.is_float64(dtype):
        return _NumberColumn("d", dtype, nan if nullable else None)
    return _TextColumn(dtype) if pa.types.is_string(dtype) or dtype == _WORD else _ObjectColumn(dtype)


def _stream_field(field: pa.Field) -> pa.Field:
    """A field as it is written: non-null text dictionary-encoded, which halves a row's size."""
    return field.with_type(_WORD) if pa.types.is_string(field.type) and not field.nullable else field


def whole_column(values: Values, field: pa.Field, count: int) -> pa.Array:
    """All rows of a column, from an array (NULL_* for null) or from one value for all. Raises ValueError."""
    if isinstance(values, np.ndarray):
        if len(values) != count:
            raise ValueError(f"column {field.name} has {len(values)} values for {count} rows")
        null = NULL_LONG if pa.types.is_int64(field.type) else NULL_INT
        mask = values == null if field.nullable else None
        return pa.array(values, field.type, mask=mask if mask is not None and mask.any() else None)
    if values is None and not field.nullable:
        raise ValueError(f"column {field.name} is never null")
    if field.type == _WORD:
        return pa.DictionaryArray.from_arrays(np.zeros(count, np.int16), pa.array([values], pa.string()))
    return pa.repeat(pa.scalar(values, field.type), count)


class Recorder:
    """Writes rows of one table to FOLDER/evidence/TABLE/WRITER.arrows. Not thread-safe. While it is open no
    other process can seal the folder (recording.py). Raises EvidenceError if the writer's file exists
    already, StillRecording if the folder is being sealed. `cluster`: the default of the column `cluster`;
    change it only after a `flush`.
    """

    def __init__(self, folder: Path, table: str, writer: str, cluster: str | None = None) -> None:
        self.cluster = cluster
        self.schema: pa.Schema = pa.schema([_stream_field(field) for field in TABLES[table].schema])
        self._columns = [_column(field.type, field.nullable) for field in self.schema]
        clusters = self._columns[-1] if self.schema.names[-1] == CLUSTER else None
        self._clusters = clusters if isinstance(clusters, _TextColumn) else None
        self._pending = 0
        self._shared: dict[str, tuple[Any, pa.Array]] = {}
        directory = folder / "evidence" / table
        directory.mkdir(parents=True, exist_ok=True)
        stream = directory / f"{writer}.arrows"
        self._hold = hold_to_record(folder, f"{table}/{writer}")
        for existing in (stream, stream.with_name(f"{writer}.parquet")):
            if existing.exists():
                self._hold.release()
                raise EvidenceError(f"{existing}: already recorded, and never overwritten; rename the writer")
        self._file = pa.OSFile(str(stream), "wb")
        self._stream = pa.ipc.new_stream(self._file, self.schema)

    def row(self, *first: Any, **values: Any) -> None:
        """Adds a row, by column; nullable ones may be left out. Raises ValueError for unknown columns."""
        named = {**dict(zip(self.schema.names, first, strict=False)), **values}
        if len(named) != len(first) + len(values) or not named.keys() <= set(self.schema.names):
            raise ValueError(f"not the columns of a row: {first}, {values}")
        if self._clusters is not None:
            named.setdefault(CLUSTER, self.cluster)
        for name, column in zip(self.schema.names, self._columns, strict=True):
            column.add(named.get(name))
        self._pending += 1

    def appender(self, column: str) -> Callable[[Any], None]:
        """For hot loops: the bare append of one column. Text takes numbers from `word`; nulls are NULL_*. A
        loop that uses appenders must append one value per row to every column, except `cluster`, and call
        `flush` with the number of rows.
        """
        append: Callable[[Any], None] = self._columns[self.schema.get_field_index(column)].append
        return append

    def word(self, column: str, text: str) -> int:
        """The number of a word in a text column, for its appender."""
        text_column = self._columns[self.schema.get_field_index(column)]
        assert isinstance(text_column, _TextColumn)
        return text_column.number(text)

    def flush(self, appended: int = 0) -> None:
        """Hands everything recorded so far to the operating system. `appended`: rows added by appenders."""
        rows, self._pending = self._pending + appended, 0
        if rows == 0:
            return
        if self._clusters is not None:
            self._clusters.fill(rows, self.cluster)
        batch = pa.record_batch([column.take() for column in self._columns], schema=self.schema)
        self._stream.write_batch(batch)

    def batch(self, count: int, columns: Mapping[str, Values]) -> None:
        """Writes `count` rows at once, after flushing earlier ones. A column is an array of numbers (NULL_*
        for null), or one value for all rows; missing columns are null. Raises ValueError for columns that the
        table does not have.
        """
        self.flush()
        unknown = set(columns) - set(self.schema.names)
        if unknown:
            raise ValueError(f"no such columns: {', '.join(sorted(unknown))}")
        if self._clusters is not None:
            columns = {CLUSTER: self.cluster, **columns}
        arrays = [self._whole_column(columns.get(field.name), field, count) for field in self.schema]
        if count == 0:
            return
        self._stream.write_batch(pa.record_batch(arrays, schema=self.schema))

    def _whole_column(self, values: Values, field: pa.Field, count: int) -> pa.Array:
        """The same. Reuses the last one with the same value in all rows if it is long enough."""
        if isinstance(values, np.ndarray):
            return whole_column(values, field, count)
        of, made = self._shared.get(field.name, (None, None))
        if made is None or of != values or len(made) < count:
            made = whole_column(values, field, count)
            self._shared[field.name] = values, made
        return made.slice(0, count)

    def close(self) -> None:
        try:
            self.flush()
            self._stream.close()
            self._file.close()
        finally:
            self._hold.release()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
