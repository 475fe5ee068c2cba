"""One end of a proxied connection: reads, and holds back reading while the other end cannot keep up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_CHUNK = memoryview(bytearray(1 << 18))  # one for all connections: what is read is copied out at once


class ConnectionEnd(asyncio.BufferedProtocol):
    """The connection of a client, or that to the broker. `other`: the end to which its bytes go."""

    def __init__(self, received: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        self._received, self._on_lost = received, on_lost
        self.transport: asyncio.Transport | None = None
        self.other = self
        self.lost = False
        self.peer: tuple[str, int] = ("", 0)
        self._unread: set[str] = set()  # why it is not read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.peer = (transport.get_extra_info("peername") or self.peer)[:2]
        if self._unread:
            transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _CHUNK

    def buffer_updated(self, nbytes: int) -> None:
        self._received(bytes(_CHUNK[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._on_lost()

    def pause_writing(self) -> None:
        self.other.stop_reading("full")

    def resume_writing(self) -> None:
        self.other.read_on("full")

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
