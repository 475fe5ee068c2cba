"""Serves the dashboard on a socket (opening.py) until it is stopped."""

from __future__ import annotations

import asyncio
import socket
import time

import uvicorn

from kaput.dashboard.app import Dashboard
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.searches import Searches
from kaput.dashboard.starter import Starter

# How long to wait for browsers to receive the verdict of a run that ends together with its dashboard.
_VERDICT_S = 7.0


def server_of(
    runs: Runs,
    bound: socket.socket,
    searches: Searches,
    key: str | None = None,
    starter: Starter | None = None,
) -> DashboardServer:
    """A server of the dashboard on a bound socket. `key`: permits changes to clusters and, with a `starter`,
    starting runs; None: read-only.
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
    """A server that ends event streams before it waits for connections: they never end by themselves."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self.dashboard = dashboard
        self._await_verdict = False

    def end_after_verdict(self) -> None:
        """Stops the server once browsers that watch a run have its verdict, or after a timeout."""
        self._await_verdict = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the event streams, then everything else."""
        if self._await_verdict:
            await self._wait_for_watchers()
        self.dashboard.subscribers.closing.set()
        self.dashboard.cluster_subscribers.closing.set()
        self.dashboard.searches.subscribers.closing.set()
        await super().shutdown(sockets)

    async def _wait_for_watchers(self) -> None:
        limit = time.monotonic() + _VERDICT_S
        while self.dashboard.subscribers.is_watched and time.monotonic() < limit:
            await asyncio.sleep(0.05)
