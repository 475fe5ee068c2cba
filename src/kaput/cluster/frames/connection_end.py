"""One end of a proxied connection, which pauses reading while the other end cannot keep up; and the frames in
what it reads.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Container
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
        return int.from_bytes(self.data[start:end], "big", signed=True)

    @property
    def correlation_id(self) -> int:
        """The id that links a response to its request; at a response's position."""
        return self.number(4, 8)


@dataclass(frozen=True)
class Request(Frame):
    @property
    def api(self) -> int:
        return self.number(4, 6)

    @property
    def version(self) -> int:
        return self.number(6, 8)

    @property
    def correlation_id(self) -> int:
        """The id that its response will have."""
        return self.number(8, 12)

    @property
    def client_id(self) -> str | None:
        length = self.number(12, 14)
        return self.data[14 : 14 + length].decode(errors="replace") if length >= 0 else None


class Splitter:
    """One direction of a connection. `header`: of a frame; `wanted`: API keys or correlation ids."""

    def __init__(self, header: struct.Struct, wanted: Container[int]) -> None:
        self._header, self._wanted = header, wanted
        self._skip = 0  # bytes left of the current frame, which passes unread
        self._buffered: list[bytes] = []  # the beginning of a header or of a wanted frame
        self._missing = 0  # bytes until the buffer can be parsed
        self._opaque = False
        self.seen = 0  # frames

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
        pieces: list[bytes | Frame] = []
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
                pieces += [data[passing:at]] if passing < at else []
                pieces.append((Request if self._header is REQUEST else Frame)(data[at:end]))
                passing = end
            self.seen += 1
            at = end
        self._skip = max(0, at - length)
        if at < length:
            self._buffer(data[at:])
        rest = data[passing:at] if passing or at < length else data
        return [*pieces, rest] if rest else pieces

    def _buffer(self, begun: bytes) -> None:
        """Buffers the beginning of a frame until its header, or all of a wanted frame, has arrived."""
        needed = self._header.size
        if len(begun) >= needed:
            needed = SIZE_BYTES + self._header.unpack_from(begun)[0]
        self._buffered, self._missing = [begun], needed - len(begun)


class ConnectionEnd(asyncio.Protocol):
    """The connection with a client or with the broker. `other`: the end that its bytes are sent to."""

    def __init__(self, received: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        self._received, self._on_lost = received, on_lost
        self.transport: asyncio.Transport | None = None
        self.other = self
        self.lost = False
        self.peer: tuple[str, int] = ("", 0)
        self._pause_reasons: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = (transport.get_extra_info("peername") or self.peer)[:2]
        if self._pause_reasons:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._on_lost()

    def pause_writing(self) -> None:
        self.other.stop_reading("full")

    def resume_writing(self) -> None:
        self.other.resume_reading("full")

    def stop_reading(self, reason: str) -> None:
        """Pauses until `resume_reading` has been called for every reason."""
        self._pause_reasons.add(reason)
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_reading(self, reason: str) -> None:
        """Reads again, unless another reason remains."""
        if reason not in self._pause_reasons:
            return
        self._pause_reasons.discard(reason)
        if self.transport is not None and not self._pause_reasons:
            self.transport.resume_reading()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()
