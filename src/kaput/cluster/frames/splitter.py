"""Splits one direction of a connection into frames, and sets apart those that are wanted.

Everything else passes as it came, in the same chunks: only sizes and the first bytes of headers are read.
Bytes that cannot be Kafka's pass untouched from there on. Its place: link.py has two for each connection.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from dataclasses import dataclass

REQUEST = struct.Struct(">ih")  # size, API key
RESPONSE = struct.Struct(">ii")  # size, correlation id
SIZE_BYTES = 4
_LEAST = {REQUEST: 8, RESPONSE: 4}  # the smallest size of a frame
_LARGEST = 1 << 28  # what claims to be larger is no frame: the first bytes of TLS do


@dataclass(frozen=True)
class Frame:
    """One whole frame, with its size in front."""

    data: bytes

    def number(self, start: int, end: int) -> int:
        """The signed number in these bytes."""
        return int.from_bytes(self.data[start:end], "big", signed=True)

    @property
    def correlation_id(self) -> int:
        """By which a response belongs to its request; this is a response's."""
        return self.number(4, 8)


@dataclass(frozen=True)
class Request(Frame):
    """A request: the fields of its header."""

    @property
    def api(self) -> int:
        """The API key."""
        return self.number(4, 6)

    @property
    def version(self) -> int:
        """The version of the API."""
        return self.number(6, 8)

    @property
    def correlation_id(self) -> int:
        """By which its response is recognized."""
        return self.number(8, 12)

    @property
    def client_id(self) -> str | None:
        """What the sender calls itself; None if it does not say."""
        length = self.number(12, 14)
        return self.data[14 : 14 + length].decode(errors="replace") if length >= 0 else None


class Splitter:
    """One direction of one connection.

    `kind`: how its headers begin. `wanted`: API keys or correlation ids of frames to set apart; may change.
    """

    def __init__(self, kind: struct.Struct, wanted: Container[int]) -> None:
        self._kind, self._wanted = kind, wanted
        self._skip = 0  # bytes of the current frame that are still to pass
        self._kept: list[bytes] = []  # the beginning of a header, or of a wanted frame
        self._missing = 0  # bytes until that can be looked at again
        self._opaque = False
        self.seen = 0  # frames

    @property
    def to_come(self) -> int:
        """How many bytes of a frame that is not wanted are still to pass."""
        return self._skip

    def passed(self, count: int) -> None:
        """So many of them have passed unread."""
        self._skip -= count

    def split(self, data: bytes) -> list[bytes | Frame]:
        """What came, in order: bytes to pass, and wanted frames. May keep the end back until more comes."""
        if self._opaque:
            return [data]
        if self._kept:
            self._kept.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data, self._kept = b"".join(self._kept), []
        return self._walk(data)

    def _walk(self, data: bytes) -> list[bytes | Frame]:
        found: list[bytes | Frame] = []
        passing, at, length = 0, self._skip, len(data)
        while at + self._kind.size <= length:
            size, key = self._kind.unpack_from(data, at)
            if not _LEAST[self._kind] <= size <= _LARGEST:
                self._opaque, at = True, length
                break
            end = at + SIZE_BYTES + size
            if key in self._wanted:
                if end > length:
                    break
                found += [data[passing:at]] if passing < at else []
                found.append((Request if self._kind is REQUEST else Frame)(data[at:end]))
                passing = end
            self.seen += 1
            at = end
        self._skip = max(0, at - length)
        if at < length:
            self._keep(data[at:])
        rest = data[passing:at] if passing or at < length else data
        return [*found, rest] if rest else found

    def _keep(self, begun: bytes) -> None:
        """Keeps the beginning of a frame until its header, or all of a wanted one, is there."""
        needed = self._kind.size
        if len(begun) >= needed:
            needed = SIZE_BYTES + self._kind.unpack_from(begun)[0]
        self._kept, self._missing = [begun], needed - len(begun)
