"""Serving the dashboard on 127.0.0.1, until it is told to end.

The socket is bound here, before anything else: an address that is printed is one that answers.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from kaput.dashboard.app import Dashboard
from kaput.dashboard.beneath import Runs
from kaput.errors import UsageError

HOST = "127.0.0.1"
PORT = 8420
_BEHIND = 10  # niceness: who looks on does not slow a run
_STALLED_MS = 20_000  # after which the kernel drops a browser that takes nothing
_LAST_WORD_S = 2.0  # for browsers to be shown the verdict of a run that ends with its dashboard


def bind(port: int) -> socket.socket:
    """The socket; port 0 is any that is free. Raises UsageError with what to do."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED_MS)
        bound.bind((HOST, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise UsageError(_cannot(port, error)) from None
    return bound


def _cannot(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {HOST} is in use, maybe by another dashboard; choose one with --port (0: any)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {HOST} may not be used by this user; choose one with --port (0: any)"
    return f"port {port} of {HOST} cannot be used ({error.strerror}); choose one with --port (0: any)"


def check_folder(runs: Path) -> Runs:
    """The folder of runs. Raises UsageError where it is none."""
    if not runs.is_dir():
        what = "is a file" if runs.exists() else "is not there"
        raise UsageError(
            f"{runs}: {what}; --runs names the folder that run folders are in (kaput run makes it)"
        )
    if (runs / "manifest.json").is_file():
        raise UsageError(f"{runs}: is a run folder itself; name the folder that it is in ({runs.parent})")
    if not os.access(runs, os.R_OK | os.X_OK):
        raise UsageError(f"{runs}: cannot be read by this user")
    return Runs(runs)


def serve(runs: Runs, bound: socket.socket, told_to_end: Callable[[], None] | None = None) -> None:
    """Serves until SIGINT or SIGTERM, or until `told_to_end`, which is called in a thread, returns."""
    step_back()
    server = server_of(runs, bound)
    if told_to_end is not None:
        threading.Thread(target=_wait_for_the_end, args=(told_to_end, server), daemon=True).start()
    server.run(sockets=[bound])


def server_of(runs: Runs, bound: socket.socket) -> Server:
    """A server of the dashboard on this socket."""
    dashboard = Dashboard(runs, bound.getsockname()[1])
    config = uvicorn.Config(
        dashboard.asgi,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=15,
        http="h11",
        ws="none",
    )
    return Server(config, dashboard)


def step_back() -> None:
    """Behind every run: in this process's session, and among sessions where the kernel groups by them."""
    with suppress(OSError):
        os.nice(_BEHIND)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_BEHIND))


class Server(uvicorn.Server):
    """Streams of events have no end of their own: they are told before the server waits for them."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self.dashboard = dashboard
        self.last_word = False

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then all else."""
        if self.last_word:
            await self._say_the_last_word()
        self.dashboard.audience.closing.set()
        await super().shutdown(sockets)

    async def _say_the_last_word(self) -> None:
        limit = time.monotonic() + _LAST_WORD_S
        while self.dashboard.audience.unsettled and time.monotonic() < limit:
            await asyncio.sleep(0.05)


def _wait_for_the_end(told_to_end: Callable[[], None], server: Server) -> None:
    told_to_end()
    server.last_word = True
    server.should_exit = True
    time.sleep(_LAST_WORD_S + 5)
    os._exit(1)  # it hangs, and whoever it served is gone
