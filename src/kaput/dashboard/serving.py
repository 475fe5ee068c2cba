"""Serving the dashboard on a socket (opening.py), until it is told to end."""

from __future__ import annotations

import asyncio
import socket
import time

import uvicorn

from kaput.dashboard.app import Dashboard
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.searches import Searches
from kaput.dashboard.starter import Starter

# For browsers to be shown the verdict of a run that ends with its dashboard, which works behind all others.
_LAST_WORD_S = 7.0


def server_of(
    runs: Runs,
    bound: socket.socket,
    searches: Searches,
    key: str | None = None,
    starter: Starter | None = None,
) -> DashboardServer:
    """A server of the dashboard on this socket. `key`: who has it may change clusters, and start runs where
    there is a `starter`; None: nobody may.
    """
    dashboard = Dashboard(runs, bound.getsockname()[1], searches, key, starter)
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
    return DashboardServer(config, dashboard)


class DashboardServer(uvicorn.Server):
    """Streams of events have no end of their own: they are told before the server waits for them."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self.dashboard = dashboard
        self._last_word = False

    def end_with_a_last_word(self) -> None:
        """Ends soon, though not before those who watch a run were told its verdict, if that is near."""
        self._last_word = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then all else."""
        if self._last_word:
            await self._say_the_last_word()
        self.dashboard.subscribers.closing.set()
        self.dashboard.cluster_subscribers.closing.set()
        self.dashboard.searches.subscribers.closing.set()
        await super().shutdown(sockets)

    async def _say_the_last_word(self) -> None:
        limit = time.monotonic() + _LAST_WORD_S
        while self.dashboard.subscribers.unsettled and time.monotonic() < limit:
            await asyncio.sleep(0.05)
