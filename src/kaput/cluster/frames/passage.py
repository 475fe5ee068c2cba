"""Moves the rest of a long frame from one connection to the other inside the kernel, by splice(2).

The proxy needs no byte of it, and copying it through this process would be most of the proxy's cost. Linux
only; elsewhere, and where splice fails, everything is read and written.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

MIN_BYTES = 1 << 15  # fewer are not worth the additional calls
SUPPORTED = hasattr(os, "splice")
_PIPE_BYTES = 1 << 20  # the most for an ordinary user
_TURN_BYTES = 1 << 22  # moved before other connections get their turn


class Splice:
    """Moves bytes from `source` to `target`, file descriptors of connected sockets.

    `on_passed` is called with the number of bytes each time some were written; `on_end` at the end, with
    whether no bytes were lost in between.
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
