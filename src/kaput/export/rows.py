"""Rows of numbers for exports: made from the columns of a table, and sorted on disk in bounded memory.

Sorting is an external merge sort.
A row is a column of a two-dimensional int64 array; rows are sorted by their first three numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import NULL_LONG

Rows = np.ndarray[Any, np.dtype[np.int64]]

CHUNK_ROWS = 1 << 19  # sorted together in memory
_BLOCK_ROWS = 1 << 14  # of each chunk in memory while merging
KEYS = 3


def in_order(batches: Iterable[Rows], scratch: Path, chunk_rows: int = CHUNK_ROWS) -> Iterator[Rows]:
    """The rows in sorted order, in batches. `scratch`: a directory for temporary files. Raises OSError."""
    chunks = [
        _saved(chunk, scratch / f"{number}.npy") for number, chunk in enumerate(_chunks(batches, chunk_rows))
    ]
    try:
        yield from _merged(chunks)
    finally:
        for path in chunks:
            path.unlink(missing_ok=True)


def _chunks(batches: Iterable[Rows], rows: int) -> Iterator[Rows]:
    gathered: list[Rows] = []
    count = 0
    for batch in batches:
        gathered.append(batch)
        count += batch.shape[1]
        if count >= rows:
            yield _sorted(gathered)
            gathered, count = [], 0
    if count:
        yield _sorted(gathered)


def _sorted(batches: list[Rows]) -> Rows:
    rows = np.concatenate(batches, axis=1)
    return rows[:, np.lexsort(rows[KEYS - 1 :: -1])]


def _saved(chunk: Rows, path: Path) -> Path:
    np.save(path, np.ascontiguousarray(chunk.T))
    return path


def _merged(paths: list[Path]) -> Iterator[Rows]:
    """Merges chunks block by block: rows not above the last row of any block can be yielded."""
    files = [np.load(path, mmap_mode="r") for path in paths]
    at = [0] * len(files)
    while True:
        left = [n for n, file in enumerate(files) if at[n] < len(file)]
        if not left:
            return
        blocks = {n: np.array(files[n][at[n] : at[n] + _BLOCK_ROWS]) for n in left}
        limit = min(tuple(block[-1, :KEYS].tolist()) for block in blocks.values())
        taken: list[Rows] = []
        for n, block in blocks.items():
            count = _rows_up_to(block, limit)
            at[n] += count
            taken.append(block[:count].T)
        yield _sorted(taken)


def _rows_up_to(block: Rows, limit: tuple[int, ...]) -> int:
    """The number of rows of a sorted block that are at or below the limit."""
    above = np.zeros(len(block), np.bool_)
    equal = np.ones(len(block), np.bool_)
    for column, bound in enumerate(limit):
        above |= equal & (block[:, column] > bound)
        equal &= block[:, column] == bound
    return int(len(block) - above.sum())


def ints(batch: pa.Table, name: str) -> Rows:
    """A numeric column as int64; NULL_LONG for null."""
    column: Rows = batch[name].cast(pa.int64()).fill_null(NULL_LONG).to_numpy()
    return column


def mapped(batch: pa.Table, name: str, number: Any) -> Rows:
    """A text column mapped to numbers by `number`; NULL_LONG for null."""
    encoded = batch[name].combine_chunks().dictionary_encode()
    words = np.array([*(int(number(word)) for word in encoded.dictionary.to_pylist()), NULL_LONG], np.int64)
    numbers: Rows = words[encoded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]
    return numbers


def nowhere(batch: pa.Table) -> Any:
    """Whether each row names no partition."""
    return pc.or_kleene(pc.is_null(batch["partition"]), pc.less(batch["partition"], 0))


def identity(producer: Rows, seq: Rows) -> Rows:
    """A hash of a message's identity. Collisions are rare, and matches are compared in full."""
    return producer * np.int64(1 << 40) ^ seq


def among(firsts: Rows, lasts: Rows, numbers: Rows) -> Rows:
    """The index of the stretch that contains each number, -1 for none. Stretches must be sorted."""
    at = np.searchsorted(firsts, numbers, side="right") - 1
    return np.where((at >= 0) & (numbers <= lasts[at]), at, -1)
