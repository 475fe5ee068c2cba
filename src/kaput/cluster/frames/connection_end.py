"""One end of a proxied connection. It pauses reading while the other end cannot keep up, or while bytes are
spliced to it inside the kernel (passage.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kaput.cluster.frames.passage import MIN_BYTES, SUPPORTED, Splice

_CHUNK = memoryview(bytearray(1 << 18))  # shared by all connections: data is copied out at once
_HEADER_BYTES = 1 << 12  # read this much of a long frame; the rest is spliced


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
        """Splices the next `count` bytes to the other end, unless they are few or other bytes are queued.

        `on_passed` is called with the number of bytes each time some have been sent.
        """
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
        """Ends the connection now."""
        if self.transport is not None:
            self.transport.abort()


def _descriptor(transport: asyncio.Transport) -> int:
    return int(transport.get_extra_info("socket").fileno())
