"""The rest of a long frame goes from one connection to the other inside the kernel, by splice(2).

Nobody looks at it, and copies of it into this process and out again would be most of what the proxy costs.
Linux only; elsewhere, and where splice refuses, everything is read and written.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

LEAST = 1 << 15  # bytes; for less the few calls more are not worth it
SUPPORTED = hasattr(os, "splice")
_PIPE_BYTES = 1 << 20  # what an ordinary user may have
_ONCE = 1 << 22  # bytes, before other connections have their turn


class Passage:
    """From `source` to `target`, file descriptors of connected sockets, for as long as they are connected.

    `passed` is called with the number of bytes whenever some have arrived; `over` at the end, with whether
    none of them were lost on the way.
    """

    def __init__(
        self, source: int, target: int, passed: Callable[[int], None], over: Callable[[bool], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # The loop does not watch a transport's own descriptors for anybody else.
        self._source, self._target = os.dup(source), os.dup(target)
        self._out, self._in = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._passed, self._over = passed, over
        self._left = self._inside = 0
        self._turn: asyncio.Handle | None = None
        self._closed = False

    def begin(self, count: int) -> None:
        """Passes on so many bytes, as they come."""
        self._left = count
        self._go_on()

    def close(self) -> None:
        """Stops, and lets go of everything."""
        if self._closed:
            return
        self._closed = True
        self._wait_for_nothing()
        for descriptor in (self._source, self._target, self._out, self._in):
            os.close(descriptor)

    def _go_on(self) -> None:
        self._wait_for_nothing()
        limit = self._left - _ONCE
        try:
            while self._left or self._inside:
                if self._left <= limit and not self._inside:
                    self._turn = self._loop.call_soon(self._go_on)
                    return
                if not self._inside and not self._fill():
                    break  # the sender has gone
                self._drain()
        except BlockingIOError:
            if self._inside:
                self._loop.add_writer(self._target, self._go_on)
            else:
                self._loop.add_reader(self._source, self._go_on)
            return
        except OSError:
            pass  # either end is gone, as its own connection notices
        self._over(not self._inside)

    def _fill(self) -> int:
        flags = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
        taken = os.splice(self._source, self._in, min(self._left, _PIPE_BYTES), flags=flags)
        self._left -= taken
        self._inside += taken
        return taken

    def _drain(self) -> None:
        flags = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
        if self._left:
            flags |= os.SPLICE_F_MORE
        given = os.splice(self._out, self._target, self._inside, flags=flags)
        self._inside -= given
        self._passed(given)

    def _wait_for_nothing(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
