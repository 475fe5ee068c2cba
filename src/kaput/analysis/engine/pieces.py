"""How tables travel between tasks: in pieces, each on its way to one part."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import polars as pl


class Piece(NamedTuple):
    """Runs of one table, or sums, on their way from one task to another."""

    table: str
    data: bytes


class Parts(NamedTuple):
    """How many tasks examine messages, and how many places. One more part takes the sums of encoding."""

    messages: int
    places: int

    @property
    def sums(self) -> int:
        """The number of the part that takes sums."""
        return self.messages + self.places

    def message(self, producer: pl.Expr, block: pl.Expr) -> pl.Expr:
        """The part of a block of a producer's messages: neighbours in turn."""
        # In 64 bits without overflow, whatever the evidence has for numbers.
        mixed = (producer % 2**31) * 7_919 + block % 2**31
        return ((mixed % self.messages + self.messages) % self.messages).cast(pl.Int64)

    def place(self, place: pl.Expr) -> pl.Expr:
        """The part of a place; what has none goes to the first."""
        return (self.messages + (place % 2**32 + place // 2**32) % self.places).fill_null(self.messages)


def pack(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow's stream."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed")
    return buffer.getvalue()


def unpack(data: bytes) -> pl.DataFrame:
    """The frame again."""
    return pl.read_ipc_stream(data)


def by_part(frame: pl.DataFrame, part: pl.Expr, count: int, table: str) -> Iterator[tuple[int, Piece]]:
    """The frame cut up by the part of each row. `count`: parts that there are of this kind."""
    if frame.is_empty():
        return
    parts = frame.with_columns(part=part)
    if count == 1:
        yield int(parts["part"][0]), Piece(table, pack(parts.drop("part")))
        return
    for (number,), rows in parts.partition_by("part", as_dict=True, include_key=False).items():
        yield int(str(number)), Piece(table, pack(rows))


def gathered(pieces: Iterable[Piece], empty: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The pieces of each table put together; of a table without any, what `empty` has."""
    found: dict[str, list[pl.DataFrame]] = {}
    for piece in pieces:
        found.setdefault(piece.table, []).append(unpack(piece.data))
    return {
        table: pl.concat(found[table], how="vertical_relaxed", rechunk=True) if table in found else frame
        for table, frame in empty.items()
    }
