"""A row group of an evidence table as arrays.

A column that its row group's statistics show to be one value alone is never read. Not here: which stretches
there are (work.py) and what is counted in them (sends.py, log.py, deliveries.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.work import Unit
from kaput.evidence.parquet import (
    broken,
    nulls_alone,
    only_value,
    open_file,
    read_row_group,
    words_of,
)
from kaput.evidence.schemas import TABLES


@dataclass(frozen=True)
class Columns:
    """`path` and `first_row` tell where the rows stand in their table; `same`: columns of one value."""

    rows: int
    path: str = ""
    first_row: int = 0
    arrays: Mapping[str, pa.Array] = field(default_factory=dict)
    same: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The name of the rows' file."""
        return Path(self.path).name

    def numbers(self, name: str) -> Ints:
        """An integer, boolean or time column as int64."""
        if name in self.same:
            return constant(int(self.same[name]), self.rows)
        array = self.arrays.get(name)
        if array is None:
            return constant(NULL, self.rows)
        numbers: Ints
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.int8())
        if array.null_count:
            if array.null_count == len(array):
                return constant(NULL, self.rows)
            numbers = _raw(array).astype(np.int64)
            numbers[_nulls(array)] = NULL
            return numbers
        numbers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return numbers

    def flags(self, name: str) -> npt.NDArray[np.bool_]:
        """A boolean column; false where it is null."""
        if name in self.same:
            return np.broadcast_to(np.bool_(self.same[name]), (self.rows,))
        array = self.arrays.get(name)
        if array is None:
            return np.broadcast_to(np.bool_(False), (self.rows,))
        if array.true_count == len(array):
            return np.broadcast_to(np.bool_(True), (self.rows,))
        found: npt.NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
        return found

    def known(self, *names: str) -> npt.NDArray[np.bool_]:
        """Where none of some columns is null."""
        valid = None
        for name in names:
            array = self.arrays.get(name)
            if array is None and name not in self.same:
                return np.broadcast_to(np.bool_(False), (self.rows,))
            if array is not None and array.null_count:
                valid = array.is_valid() if valid is None else pc.and_(valid, array.is_valid())
        if valid is None:
            return np.broadcast_to(np.bool_(True), (self.rows,))
        found: npt.NDArray[np.bool_] = valid.to_numpy(zero_copy_only=False)
        return found

    def raw(self, name: str) -> npt.NDArray[Any]:
        """An integer column as it lies in memory: of its own width, with anything where it is null."""
        array = self.arrays.get(name)
        if array is None or array.null_count == self.rows:
            return self.numbers(name)
        return _raw(array)

    def blocks(self, rows: int) -> Iterator[Columns]:
        """The rows in blocks of at most so many, of which nothing is copied."""
        if self.rows <= rows:
            yield self
            return
        for first in range(0, self.rows, rows):
            yield self.part(first, min(rows, self.rows - first))

    def part(self, first: int, rows: int) -> Columns:
        """So many rows from one on; nothing is copied."""
        arrays = {name: array.slice(first, rows) for name, array in self.arrays.items()}
        return Columns(rows, self.path, self.first_row + first, arrays, self.same)

    def take(self, rows: npt.NDArray[np.intp]) -> Columns:
        """Some of the rows, by their positions; where they stand in their table is not known any more."""
        arrays = {name: array.take(pa.array(rows)) for name, array in self.arrays.items()}
        return Columns(len(rows), self.path, self.first_row, arrays, self.same)

    def bytes_of(self, name: str, numbers: Mapping[str, int]) -> npt.NDArray[np.uint8]:
        """As codes, for a column without nulls and small numbers. Raises EvidenceError for another word."""
        if name in self.same:
            return np.broadcast_to(np.uint8(self._number(name, self.same[name], numbers)), (self.rows,))
        return self._coded(name, numbers).astype(np.uint8)

    def codes(self, name: str, numbers: Mapping[str, int]) -> Ints:
        """A text column by the numbers of its words; NULL for null. Raises EvidenceError for another word."""
        if name in self.same:
            return constant(self._number(name, self.same[name], numbers), self.rows)
        array = self.arrays.get(name)
        if array is None or array.null_count == self.rows:
            return constant(NULL, self.rows)
        return self._coded(name, numbers)

    def texts(self, name: str) -> tuple[Ints, Sequence[str]]:
        """A text column as positions in a list of its words; -1 for null. Raises EvidenceError."""
        if name in self.same:
            return constant(0, self.rows), [self.same[name]]
        array = self.arrays.get(name)
        if array is None or array.null_count == self.rows:
            return constant(-1, self.rows), []
        indices, words = self._encoded(name)
        return self._looked_up(name, np.append(np.arange(len(words)), -1), indices), words

    def _coded(self, name: str, numbers: Mapping[str, int]) -> Ints:
        indices, words = self._encoded(name)
        # A dictionary may have words that no row uses: only the used ones must be known.
        strange = [at for at, word in enumerate(words) if word is not None and word not in numbers]
        used = strange and np.intersect1d(strange, indices)
        if len(used):
            self._number(name, words[int(used[0])], numbers)
        known = np.array([numbers.get(word, NULL) for word in words] + [NULL], np.int64)
        return self._looked_up(name, known, indices)

    def _encoded(self, name: str) -> tuple[npt.NDArray[np.intp], Sequence[str]]:
        """Positions in a list of words, that of nulls is behind its end; and the words."""
        array = self.arrays[name]
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        words: Any = words_of(self.path, name, encoded.dictionary)
        indices = encoded.indices
        if indices.null_count:
            indices = pc.fill_null(indices.cast(pa.int64()), len(words))
        return indices.to_numpy(zero_copy_only=False).astype(np.intp, copy=False), words

    def _looked_up(self, name: str, table: Ints, indices: npt.NDArray[np.intp]) -> Ints:
        try:
            return table[indices]
        except IndexError as error:
            raise broken(self.path, f"column {name!r}: {error}") from None

    def _number(self, name: str, word: str, numbers: Mapping[str, int]) -> int:
        if word not in numbers:
            raise broken(self.path, f"column {name!r} has {word!r}, which its other pages or its footer deny")
        return numbers[word]


def _raw(array: pa.Array) -> npt.NDArray[Any]:
    """Whole numbers as they lie in memory, with anything where they are null."""
    width = array.type.to_pandas_dtype()
    found: npt.NDArray[Any] = np.frombuffer(array.buffers()[1], width)[array.offset :][: len(array)]
    return found


def _nulls(array: pa.Array) -> npt.NDArray[np.intp]:
    """The rows that are null, of an array with some."""
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return np.flatnonzero(bits[array.offset :][: len(array)] == 0)


def constant(value: int, rows: int) -> Ints:
    """An array of one value that takes no room."""
    return np.broadcast_to(np.int64(value), (rows,))


def open_parquet(path: str, texts: Sequence[str]) -> pq.ParquetFile:
    """A Parquet file whose columns `texts` come as dictionaries where they can. Raises EvidenceError."""
    return open_file(path, texts)


def of_row_group(file: pq.ParquetFile, unit: Unit, names: Sequence[str]) -> Columns:
    """Columns of one row group. Raises EvidenceError where it cannot be read."""
    group = file.metadata.row_group(unit.index)
    leaves = {group.column(i).path_in_schema: group.column(i).statistics for i in range(group.num_columns)}
    present = [name for name in names if name in leaves]
    same = {name: found for name in present if (found := only_value(leaves[name])) is not None}
    empty = {name for name in present if nulls_alone(leaves[name], group.num_rows)}
    wanted = [name for name in present if name not in same and name not in empty]
    table = read_row_group(file, unit.path, unit.index, wanted)
    arrays = {name: _whole(table.column(name)) for name in wanted}
    for name, array in arrays.items():
        if array.null_count and not TABLES[unit.table].schema.field(name).nullable:
            raise broken(unit.path, f"column {name!r} has nulls, which its footer denies")
    _check_partitions(unit, same, arrays)
    return Columns(group.num_rows, unit.path, unit.first_row, arrays, same)


def _check_partitions(unit: Unit, same: Mapping[str, Any], arrays: Mapping[str, pa.Array]) -> None:
    """A record is in a partition; only of a send may it be unknown (null, or a negative number)."""
    if TABLES[unit.table].schema.field("partition").nullable:
        return
    array = arrays.get("partition")
    least = same.get("partition", 0) if array is None else pc.min(array).as_py()
    if least < 0:
        raise broken(unit.path, f"partition {least} is none")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)
