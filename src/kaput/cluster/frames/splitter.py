"""Splits one direction of a connection into frames, and extracts the wanted ones.

Everything else passes in the chunks it came in: only sizes and the first bytes of headers are read. After
bytes that cannot be Kafka's, everything passes unread. Its place: link.py has two for each connection.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from dataclasses import dataclass

REQUEST = struct.Struct(">ih")  # size, API key
RESPONSE = struct.Struct(">ii")  # size, correlation id
SIZE_BYTES = 4
_SIZE_MIN = {REQUEST: 8, RESPONSE: 4}  # the smallest size of a frame
_SIZE_MAX = 1 << 28  # a larger size is no frame: TLS would look like one


@dataclass(frozen=True)
class Frame:
    """One complete frame, including its size."""

    data: bytes

    def number(self, start: int, end: int) -> int:
        """The signed number in these bytes."""
        return int.from_bytes(self.data[start:end], "big", signed=True)

    @property
    def correlation_id(self) -> int:
        """The id that links a response to its request; at a response's position."""
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
        """The id that its response will have."""
        return self.number(8, 12)

    @property
    def client_id(self) -> str | None:
        """The client id; None if the request has none."""
        length = self.number(12, 14)
        return self.data[14 : 14 + length].decode(errors="replace") if length >= 0 else None


class Splitter:
    """One direction of one connection.

    `header`: the format of the start of a frame. `wanted`: API keys or correlation ids to extract; may
    change.
    """

    def __init__(self, header: struct.Struct, wanted: Container[int]) -> None:
        self._header, self._wanted = header, wanted
        self._skip = 0  # bytes left of the current frame, which passes unread
        self._buffered: list[bytes] = []  # the beginning of a header or of a wanted frame
        self._missing = 0  # bytes until the buffer can be parsed
        self._opaque = False
        self.seen = 0  # frames

    @property
    def bytes_to_skip(self) -> int:
        """The bytes left of a frame that is not wanted."""
        return self._skip

    def skip(self, count: int) -> None:
        """Records that `count` of these bytes have passed unread."""
        self._skip -= count

    def split(self, data: bytes) -> list[bytes | Frame]:
        """The bytes to pass on and the wanted frames, in order. May buffer the end until more arrives."""
        if self._opaque:
            return [data]
        if self._buffered:
            self._buffered.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data, self._buffered = b"".join(self._buffered), []
        return self._split_frames(data)

    def _split_frames(self, data: bytes) -> list[bytes | Frame]:
        found: list[bytes | Frame] = []
        passing, at, length = 0, self._skip, len(data)
        while at + self._header.size <= length:
            size, key = self._header.unpack_from(data, at)
            if not _SIZE_MIN[self._header] <= size <= _SIZE_MAX:
                self._opaque, at = True, length
                break
            end = at + SIZE_BYTES + size
            if key in self._wanted:
                if end > length:
                    break
                found += [data[passing:at]] if passing < at else []
                found.append((Request if self._header is REQUEST else Frame)(data[at:end]))
                passing = end
            self.seen += 1
            at = end
        self._skip = max(0, at - length)
        if at < length:
            self._buffer(data[at:])
        rest = data[passing:at] if passing or at < length else data
        return [*found, rest] if rest else found

    def _buffer(self, begun: bytes) -> None:
        """Buffers the beginning of a frame until its header, or all of a wanted frame, has arrived."""
        needed = self._header.size
        if len(begun) >= needed:
            needed = SIZE_BYTES + self._header.unpack_from(begun)[0]
        self._buffered, self._missing = [begun], needed - len(begun)
