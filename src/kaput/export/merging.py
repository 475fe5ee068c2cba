"""Rows of numbers sorted on disk: as many as there are, in memory that does not grow with them.

A row is a column of a two-dimensional array of int64; rows go by their first three numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Rows = np.ndarray[Any, np.dtype[np.int64]]

CHUNK_ROWS = 1 << 19  # sorted together in memory
_BLOCK_ROWS = 1 << 14  # of each sorted chunk that is in memory while chunks are merged
KEYS = 3


def in_order(batches: Iterable[Rows], scratch: Path, chunk_rows: int = CHUNK_ROWS) -> Iterator[Rows]:
    """The same rows in order, in batches of some size; `scratch`: a directory for what is put aside.

    Raises OSError.
    """
    chunks = [
        _kept(chunk, scratch / f"{number}.npy") for number, chunk in enumerate(_chunks(batches, chunk_rows))
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


def _kept(chunk: Rows, path: Path) -> Path:
    np.save(path, np.ascontiguousarray(chunk.T))
    return path


def _merged(paths: list[Path]) -> Iterator[Rows]:
    """Blocks of all chunks: what is not behind the last row of any of them can go on."""
    files = [np.load(path, mmap_mode="r") for path in paths]
    at = [0] * len(files)
    while True:
        left = [n for n, file in enumerate(files) if at[n] < len(file)]
        if not left:
            return
        blocks = {n: np.array(files[n][at[n] : at[n] + _BLOCK_ROWS]) for n in left}
        border = min(tuple(block[-1, :KEYS].tolist()) for block in blocks.values())
        taken: list[Rows] = []
        for n, block in blocks.items():
            count = _not_behind(block, border)
            at[n] += count
            taken.append(block[:count].T)
        yield _sorted(taken)


def _not_behind(block: Rows, border: tuple[int, ...]) -> int:
    """How many rows of a sorted block come before the border, or with it."""
    behind = np.zeros(len(block), np.bool_)
    equal = np.ones(len(block), np.bool_)
    for column, bound in enumerate(border):
        behind |= equal & (block[:, column] > bound)
        equal &= block[:, column] == bound
    return int(len(block) - behind.sum())
