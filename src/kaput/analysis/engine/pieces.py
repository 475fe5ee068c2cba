"""Moves tables between tasks: in serialized pieces, each addressed to one part."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple
from uuid import uuid4

import numpy as np
import polars as pl
import pyarrow as pa

_ALIGNED = 64  # bytes: Arrow's own alignment, so that mapped columns are used in place


class Slice(NamedTuple):
    """A serialized frame in a file, which has a path or is open."""

    file: str | IO[bytes]
    begin: int
    size: int

    def buffer(self) -> pa.Buffer:
        """Its bytes, mapped into memory. Raises OSError."""
        # By its path, also of an open file: Python's own mmap would keep a descriptor for each slice.
        path = self.file if isinstance(self.file, str) else f"/dev/fd/{self.file.fileno()}"
        with pa.memory_map(path) as file:
            file.seek(self.begin)
            return file.read_buffer(self.size)


class Piece(NamedTuple):
    """Runs of one table, or sums, serialized to go from one task to another; or where they are in a file; or
    as they are, if all tasks are in one process.
    """

    table: str
    data: bytes | Slice | pl.DataFrame


Pack = Callable[[pl.DataFrame], bytes | Slice | pl.DataFrame]  # serializes a frame


class SliceFile:
    """A new file of serialized frames, in a directory that all tasks see. Without one, only this process
    sees it; it has no name, and is gone with the last slice.

    A name is unique, so a repeated task writes another file; tasks read those whose slices they get.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._path = Path(directory) / uuid4().hex if directory else None

    def __enter__(self) -> Pack:
        self._file: IO[bytes] = (
            self._path.open("xb", buffering=0) if self._path else tempfile.TemporaryFile(buffering=0)
        )
        return self._pack

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path:
            self._file.close()

    def _pack(self, frame: pl.DataFrame) -> Slice:
        """Appends a frame. Raises OSError."""
        begin = -(-self._file.tell() // _ALIGNED) * _ALIGNED
        self._file.seek(begin)
        frame.write_ipc_stream(self._file, compression="uncompressed")
        return Slice(
            str(self._path) if self._path else self._file,
            begin,
            os.fstat(self._file.fileno()).st_size - begin,
        )


class Parts(NamedTuple):
    """The numbers of tasks for messages and for places. One more part takes the sums of encoding."""

    messages: int
    places: int

    @property
    def sums(self) -> int:
        """The index of the part that takes the sums."""
        return self.messages + self.places

    def message(self, producer: pl.Expr, block: pl.Expr) -> pl.Expr:
        """The part of a block of a producer's messages. Consecutive blocks go to consecutive parts."""
        # The moduli prevent overflow of 64 bits, whatever numbers the evidence has.
        hashed = (producer % 2**31) * 7_919 + block % 2**31
        return ((hashed % self.messages + self.messages) % self.messages).cast(pl.Int64)

    def place(self, place: pl.Expr) -> pl.Expr:
        """The part of a place. Rows without a place go to the first part of places."""
        return (self.messages + (place % 2**32 + place // 2**32) % self.places).fill_null(self.messages)


def pack(frame: pl.DataFrame) -> bytes:
    """Serializes a frame as an Arrow IPC stream."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed")
    return buffer.getvalue()


def unpack(data: bytes | Slice | pl.DataFrame) -> pl.DataFrame:
    """Deserializes a frame."""
    if isinstance(data, pl.DataFrame):
        return data
    if isinstance(data, bytes):
        return pl.read_ipc_stream(data)
    frame = pl.from_arrow(pa.ipc.open_stream(data.buffer()).read_all())
    assert isinstance(frame, pl.DataFrame)
    return frame


def by_part(
    frame: pl.DataFrame,
    part: pl.Expr,
    count: int,
    table: str,
    pack: Pack = pack,
) -> Iterator[tuple[int, Piece]]:
    """Splits a frame by the part of each row. `count`: the number of parts of this kind."""
    if frame.is_empty():
        return
    numbers = frame.select(part=part).to_series()
    begins = np.flatnonzero(np.diff(numbers.to_numpy(), prepend=-1))
    if len(begins) <= count:
        # The usual case of sends: consecutive rows go to the same part, and are not copied.
        for begin, end in pairwise([*begins.tolist(), frame.height]):
            yield numbers[begin], Piece(table, pack(frame[begin:end]))
        return
    parts = frame.with_columns(numbers)
    for (number,), rows in parts.partition_by("part", as_dict=True, include_key=False).items():
        yield int(str(number)), Piece(table, pack(rows))


def gathered(pieces: Iterable[Piece], empty: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Concatenates the pieces of each table of `empty`, and lets go of mapped ones; a table without pieces is
    as in `empty`.
    """
    frames: dict[str, list[pl.DataFrame]] = {}
    for piece in pieces:
        frames.setdefault(piece.table, []).append(unpack(piece.data))
    return {table: _joined(frames.pop(table)) if table in frames else frame for table, frame in empty.items()}


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    joined = pl.concat(frames, how="vertical_relaxed", rechunk=True)
    # Joined text stays where it was.
    return joined.with_columns(pl.col(pl.String).cast(pl.Categorical).cast(pl.String))
