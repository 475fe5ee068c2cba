"""One end of a proxied connection. It pauses reading while the other end cannot keep up, or while bytes are
spliced to it inside the kernel (`Splice`).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
from collections.abc import Callable, Container
from contextlib import suppress
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


_CHUNK = memoryview(bytearray(1 << 18))  # shared by all connections: data is copied out at once
_HEADER_BYTES = 1 << 12  # read this much of a long frame; the rest is spliced


MIN_BYTES = 1 << 15  # fewer are not worth the additional calls
SUPPORTED = hasattr(os, "splice")
_PIPE_BYTES = 1 << 20  # the most for an ordinary user
_TURN_BYTES = 1 << 22  # moved before other connections get their turn


class Splice:
    """Moves bytes from `source` to `target`, file descriptors of connected sockets. `on_passed` is called
    with the number of bytes each time some were written; `on_end` at the end, with whether no bytes were lost
    in between.
    """

    def __init__(
        self, source: int, target: int, on_passed: Callable[[int], None], on_end: Callable[[bool], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # asyncio does not let others watch a transport's own descriptors.
        self._source, self._target = os.dup(source), os.dup(target)
        self._out, self._in = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._on_passed, self._on_end = on_passed, on_end
        self._remaining = self._in_pipe = 0
        self._turn: asyncio.Handle | None = None
        self._closed = False

    def begin(self, count: int) -> None:
        """Moves the next `count` bytes as they arrive."""
        self._remaining = count
        self._transfer()

    def close(self) -> None:
        """Stops, and closes all descriptors."""
        if self._closed:
            return
        self._closed = True
        self._stop_waiting()
        for descriptor in (self._source, self._target, self._out, self._in):
            os.close(descriptor)

    def _transfer(self) -> None:
        self._stop_waiting()
        limit = self._remaining - _TURN_BYTES
        try:
            while self._remaining or self._in_pipe:
                if self._remaining <= limit and not self._in_pipe:
                    self._turn = self._loop.call_soon(self._transfer)
                    return
                if not self._in_pipe and not self._fill():
                    break  # the sender has disconnected
                self._drain()
        except BlockingIOError:
            if self._in_pipe:
                self._loop.add_writer(self._target, self._transfer)
            else:
                self._loop.add_reader(self._source, self._transfer)
            return
        except OSError:
            pass  # an end is disconnected; its ConnectionEnd handles that
        self._on_end(not self._in_pipe)

    def _fill(self) -> int:
        flags = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
        read = os.splice(self._source, self._in, min(self._remaining, _PIPE_BYTES), flags=flags)
        self._remaining -= read
        self._in_pipe += read
        return read

    def _drain(self) -> None:
        flags = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
        if self._remaining:
            flags |= os.SPLICE_F_MORE
        written = os.splice(self._out, self._target, self._in_pipe, flags=flags)
        self._in_pipe -= written
        self._on_passed(written)

    def _stop_waiting(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None


class ConnectionEnd(asyncio.BufferedProtocol):
    """The connection with a client or with the broker. `other`: the end that its bytes are sent to."""

    def __init__(self, received: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        self._received, self._on_lost = received, on_lost
        self.transport: asyncio.Transport | None = None
        self.other = self
        self.lost = False
        self.peer: tuple[str, int] = ("", 0)
        self._pause_reasons: set[str] = set()
        self._splice: Splice | None = None
        self._expects_long_frame = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = (transport.get_extra_info("peername") or self.peer)[:2]
        if self._pause_reasons:
            transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _CHUNK[:_HEADER_BYTES] if self._expects_long_frame else _CHUNK

    def buffer_updated(self, nbytes: int) -> None:
        self._received(bytes(_CHUNK[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for end in (self, self.other):
            end._stop_splicing()
        self._on_lost()

    def pause_writing(self) -> None:
        self.other.stop_reading("full")

    def resume_writing(self) -> None:
        self.other.resume_reading("full")

    def splice_to_other(self, count: int, on_passed: Callable[[int], None]) -> None:
        """Splices the next `count` bytes, if possible. `on_passed`: called with each number of bytes sent."""
        source, target = self.transport, self.other.transport
        if source is None or target is None or source.is_closing() or target.is_closing():
            return
        before = self._pause_reasons or target.get_write_buffer_size()
        self._expects_long_frame = SUPPORTED and count >= MIN_BYTES and not before
        if not self._expects_long_frame:
            return
        if self._splice is None:
            source_fd, target_fd = (_descriptor(each) for each in (source, target))
            self._splice = Splice(source_fd, target_fd, on_passed, self._on_spliced)
        self.stop_reading("passing")
        self._splice.begin(count)

    def _on_spliced(self, complete: bool) -> None:
        if not complete:
            self.abort()
        self.resume_reading("passing")

    def _stop_splicing(self) -> None:
        """Stops the splice from this end: one of the two connections is lost."""
        if self._splice is not None:
            self._splice.close()
            self._splice = None
            self.resume_reading("passing")

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


def _descriptor(transport: asyncio.Transport) -> int:
    return int(transport.get_extra_info("socket").fileno())
