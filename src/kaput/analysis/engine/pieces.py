"""Moves tables between tasks: in serialized pieces, each addressed to one part."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import polars as pl


class Piece(NamedTuple):
    """Runs of one table, or sums, serialized to go from one task to another."""

    table: str
    data: bytes


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


def unpack(data: bytes) -> pl.DataFrame:
    """Deserializes a frame."""
    return pl.read_ipc_stream(data)


def by_part(frame: pl.DataFrame, part: pl.Expr, count: int, table: str) -> Iterator[tuple[int, Piece]]:
    """Splits a frame by the part of each row. `count`: the number of parts of this kind."""
    if frame.is_empty():
        return
    parts = frame.with_columns(part=part)
    if count == 1:
        yield int(parts["part"][0]), Piece(table, pack(parts.drop("part")))
        return
    for (number,), rows in parts.partition_by("part", as_dict=True, include_key=False).items():
        yield int(str(number)), Piece(table, pack(rows))


def gathered(pieces: Iterable[Piece], empty: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Concatenates the pieces of each table of `empty`; a table without pieces is as in `empty`."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for piece in pieces:
        frames.setdefault(piece.table, []).append(unpack(piece.data))
    return {
        table: pl.concat(frames[table], how="vertical_relaxed", rechunk=True) if table in frames else frame
        for table, frame in empty.items()
    }
