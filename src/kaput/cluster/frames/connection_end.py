"""One end of a proxied connection: reads, and holds back reading while the other end cannot keep up, or while
what comes goes to it inside the kernel (passage.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kaput.cluster.frames.passage import LEAST, SUPPORTED, Passage

_CHUNK = memoryview(bytearray(1 << 18))  # one for all connections: what is read is copied out at once
_HEADER_BYTES = 1 << 12  # what is read where a long frame is expected, whose rest is passed on unread


class ConnectionEnd(asyncio.BufferedProtocol):
    """The connection of a client, or that to the broker. `other`: the end to which its bytes go."""

    def __init__(self, received: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        self._received, self._on_lost = received, on_lost
        self.transport: asyncio.Transport | None = None
        self.other = self
        self.lost = False
        self.peer: tuple[str, int] = ("", 0)
        self._unread: set[str] = set()  # why it is not read
        self._passage: Passage | None = None
        self._long = False  # whether the last frame was

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = (transport.get_extra_info("peername") or self.peer)[:2]
        if self._unread:
            transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _CHUNK[:_HEADER_BYTES] if self._long else _CHUNK

    def buffer_updated(self, nbytes: int) -> None:
        self._received(bytes(_CHUNK[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for end in (self, self.other):
            end._let_go()
        self._on_lost()

    def pause_writing(self) -> None:
        self.other.stop_reading("full")

    def resume_writing(self) -> None:
        self.other.read_on("full")

    def pass_on(self, count: int, passed: Callable[[int], None]) -> None:
        """The next `count` bytes go to the other end unread, if they are many and nothing is before them;
        `passed` is told how many have gone.
        """
        source, target = self.transport, self.other.transport
        if source is None or target is None or source.is_closing() or target.is_closing():
            return
        before = self._unread or target.get_write_buffer_size()
        self._long = SUPPORTED and count >= LEAST and not before
        if not self._long:
            return
        if self._passage is None:
            source_fd, target_fd = (_descriptor(each) for each in (source, target))
            self._passage = Passage(source_fd, target_fd, passed, self._passed_on)
        self.stop_reading("passing")
        self._passage.begin(count)

    def _passed_on(self, whole: bool) -> None:
        if not whole:
            self.abort()
        self.read_on("passing")

    def _let_go(self) -> None:
        """Nothing goes to a connection that is gone, or comes from it."""
        if self._passage is not None:
            self._passage.close()
            self._passage = None
            self.read_on("passing")

    def stop_reading(self, why: str) -> None:
        """Until `read_on` is called for every reason."""
        self._unread.add(why)
        if self.transport is not None:
            self.transport.pause_reading()

    def read_on(self, why: str) -> None:
        """Reads again, unless there is another reason not to."""
        if why not in self._unread:
            return
        self._unread.discard(why)
        if self.transport is not None and not self._unread:
            self.transport.resume_reading()

    def abort(self) -> None:
        """Ends the connection now."""
        if self.transport is not None:
            self.transport.abort()


def _descriptor(transport: asyncio.Transport) -> int:
    return int(transport.get_extra_info("socket").fileno())
