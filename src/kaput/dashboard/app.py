"""The pages of the dashboard and their URLs.

    /                                 the list of runs; ?words=...&state=... filters it
    /runs/NAME                        the report of a judged run, the live page of any other
    /runs/NAME/live, /events          the live page, and its data
    /runs/NAME/replay, /timeline.json the replay of a judged run, and its data
    /compare?run=NAME&run=NAME        two to eight runs, aligned at their first faults
    /clusters/NAME, /events, /kinds   the control room of a standing cluster, its data, and its faults
    /clusters/NAME/inject, /heal      POST, JSON: change the cluster (guard.py)
    /watches/NAME                     a watch of a user's own topics (topic_watches.py)
    /searches, /searches/NAME         searches (searches.py)
    /new, /new/SCENARIO, /started     starting runs from a page (new_runs.py)
    /metrics                          runs in progress, for Prometheus

All others are read-only. `server_of` serves it all on a socket (opening.py) until it is stopped. The name of
a run must be a directory in the folder of runs (safe_files.py).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from kaput.dashboard import clusters
from kaput.dashboard.guard import METHODS, REPORT_POLICY, Guard
from kaput.dashboard.listing import LIVE, STATES, Listing, filtered
from kaput.dashboard.new_runs import NewRuns
from kaput.dashboard.pages import address, refusal_response, render, static_files
from kaput.dashboard.reports import Reports, charts_of, cluster_charts, live_charts, replay_of
from kaput.dashboard.run_metrics import FolderMetrics
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.searches import SearchFolder, SearchPages
from kaput.dashboard.starter import Starter
from kaput.dashboard.topic_watches import TopicWatchPages
from kaput.dashboard.watching.reader import RunReader
from kaput.dashboard.watching.subscribers import Events, Subscribers
from kaput.errors import KaputError, LabError, UsageError
from kaput.report.render.html import chart_data
from kaput.threads import in_background

MOST_COMPARED = 8
_MOST_CHANGES = 4  # at once: each lasts until its fault is proven
_LONGEST = 300  # characters of an error message


class Dashboard:
    """The application for one folder of runs; a server at `port` serves `asgi`. `key`: allows its holder to
    change standing clusters and, with a `starter`, to start runs; None: read-only.
    """

    def __init__(
        self,
        runs: Runs,
        port: int,
        searches: SearchFolder,
        key: str | None = None,
        starter: Starter | None = None,
    ) -> None:
        self.runs, self.read_only = runs, key is None
        self.subscribers = Subscribers(partial(RunReader, runs))
        self.cluster_subscribers = Subscribers(clusters.ClusterReader)
        self._changing = 0
        self.listing, self.reports = Listing(runs), Reports(runs)
        self.run_metrics = FolderMetrics(runs)
        self.new_runs = NewRuns(starter if key is not None else None)
        self.topic_watches = TopicWatchPages(runs)
        self.searches = SearchPages(searches)
        self.asgi: ASGIApp = Guard(self._routes(), port, key)

    def _routes(self) -> FastAPI:
        # No API documentation pages: they would load scripts from other sites.
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        pages: dict[str, Callable[..., Any]] = {
            "/": self.index,
            "/runs/{name}": self.run,
            "/runs/{name}/live": self.live,
            "/runs/{name}/events": self.events,
            "/runs/{name}/replay": self.replay,
            "/runs/{name}/timeline.json": self.timeline,
            "/compare": self.compare,
            "/clusters/{name}": self.cluster,
            "/clusters/{name}/events": self.cluster_events,
            "/clusters/{name}/kinds": self.kinds,
            "/metrics": self.metrics,
            "/static/{name}": self.static,
            **self.topic_watches.pages,
            **self.searches.pages,
            **self.new_runs.pages,
        }
        changes = {
            "/clusters/{name}/inject": self.inject,
            "/clusters/{name}/heal": self.heal,
            **self.new_runs.changes,
        }
        for path, page in pages.items():
            app.add_api_route(path, page, methods=list(METHODS), response_class=HTMLResponse)
        for path, change in changes.items():
            app.add_api_route(path, change, methods=["POST"])
        for kind in (HTTPException, RequestValidationError, KaputError, OSError, Exception):
            app.add_exception_handler(kind, _error_page)
        return app

    async def index(self, words: str = "", state: str = "") -> Response:
        every = await asyncio.to_thread(self.listing.lines)
        lines = filtered(every, words, state)
        return render(
            "index", lines=lines, every=len(every), words=words, state=state, states=STATES, live=LIVE,
            root=str(self.runs.root), clusters=await asyncio.to_thread(clusters.names),
            watches=await asyncio.to_thread(self.topic_watches.all),
        )  # fmt: skip

    async def run(self, name: str) -> Response:
        """The report, or a redirect to the live page of a run that is not judged."""
        self._check_run(name)
        page = await asyncio.to_thread(self.reports.page, name)
        if page is None:
            return RedirectResponse(f"{address(name)}/live")
        return _report(page)

    async def live(self, name: str) -> Response:
        self._check_run(name)
        charts = await asyncio.to_thread(live_charts)
        stoppable = self.new_runs.is_in_progress(name)
        return render(
            "live", name=name, mode="live", charts=charts, data=chart_data([charts]), stoppable=stoppable
        )

    async def events(self, name: str, last_event_id: Annotated[str, Header(max_length=64)] = "") -> Response:
        self._check_run(name)
        return _events(self.subscribers, name, last_event_id)

    async def cluster(self, name: str) -> Response:
        """The control room of a cluster."""
        await self._check_cluster(name)
        charts = await asyncio.to_thread(cluster_charts)
        return render(
            "cluster", name=name, read_only=self.read_only, charts=charts, data=chart_data([charts])
        )

    async def cluster_events(
        self, name: str, last_event_id: Annotated[str, Header(max_length=64)] = ""
    ) -> Response:
        await self._check_cluster(name)
        return _events(self.cluster_subscribers, name, last_event_id)

    async def kinds(self, name: str) -> Response:
        """The faults that can be injected into a cluster."""
        await self._check_cluster(name)
        return JSONResponse(await asyncio.to_thread(clusters.kinds, name))

    async def inject(self, name: str, request: Request) -> Response:
        """Injects a fault; responds when it is proven."""
        return await self._change(name, clusters.Inject, request)

    async def heal(self, name: str, request: Request) -> Response:
        """Heals a fault; responds when the heal is proven."""
        return await self._change(name, clusters.Heal, request)

    async def _change(
        self, name: str, kind: type[clusters.Inject] | type[clusters.Heal], request: Request
    ) -> Response:
        if self._changing >= _MOST_CHANGES:
            return JSONResponse({"error": "too many changes are in progress: wait until one is done"}, 503)
        work = partial(clusters.change, name, kind, await request.body())
        self._changing += 1
        try:
            # No pool's thread: the server can exit while a fault takes minutes.
            done = await asyncio.wrap_future(in_background(work, "change"))
        except (UsageError, LabError) as error:
            return refusal_response(error)
        finally:
            self._changing -= 1
        return JSONResponse(done)

    async def replay(self, name: str) -> Response:
        self._check_run(name)
        charts = await asyncio.to_thread(charts_of, self.runs, name)
        data = chart_data([charts]) if charts else None
        return render("live", name=name, mode="replay", charts=charts, data=data, stoppable=False)

    async def timeline(self, name: str) -> Response:
        self._check_run(name)
        replay = await asyncio.to_thread(replay_of, self.runs, name)
        return JSONResponse(replay)

    async def compare(self, run: Annotated[list[str] | None, Query(max_length=50)] = None) -> Response:
        names = list(dict.fromkeys(run or []))
        if not 2 <= len(names) <= MOST_COMPARED:
            raise HTTPException(400, f"select two runs in the list to compare, or up to {MOST_COMPARED}")
        for name in names:
            self._check_run(name)
        try:
            page = await asyncio.to_thread(self.reports.comparison, names)
        except UsageError as error:
            raise HTTPException(409, str(error)) from None
        return _report(page)

    async def metrics(self, accept: Annotated[str, Header(max_length=1000)] = "") -> Response:
        """Metrics of the runs in progress."""
        data, kind = await asyncio.to_thread(self.run_metrics.exposition.text, accept)
        return Response(data, headers={"Content-Type": kind})

    async def static(self, name: str) -> Response:
        file = (await asyncio.to_thread(static_files)).get(name)
        if file is None:
            raise HTTPException(404, "there is no such page")
        return Response(file.content, media_type=file.kind)

    async def _check_cluster(self, name: str) -> None:
        if name not in await asyncio.to_thread(clusters.names):
            raise HTTPException(404, "no such cluster is running: kaput up starts one")

    def _check_run(self, name: str) -> None:
        try:
            self.runs.folder(name)
        except OSError:
            raise HTTPException(404, "there is no such run in this folder") from None


def _events(subscribers: Subscribers, name: str, seen: str) -> Response:
    if subscribers.full:
        raise HTTPException(503, "too many pages are open already; close some of them")
    return Events(subscribers, name, seen)


def _report(page: bytes) -> Response:
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})


async def _error_page(request: Request, error: Exception) -> Response:
    match error:
        case HTTPException():
            message = error.detail if error.detail not in ("Not Found", None) else "there is no such page"
            return render("error", status=error.status_code, message=message)
        case RequestValidationError():
            return render("error", status=400, message="this address has an invalid value")
        case KaputError() | OSError():
            return render(
                "error", status=500, message=str(error).splitlines()[0] if str(error) else "it failed"
            )
        case _:
            return render("error", status=500, message=f"this is a bug in kaput: {_described(error)}")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST]


# How long to wait for browsers to receive the verdict of a run that ends together with its dashboard.
_VERDICT_S = 7.0


def server_of(
    runs: Runs,
    bound: socket.socket,
    searches: SearchFolder,
    key: str | None = None,
    starter: Starter | None = None,
) -> DashboardServer:
    """A server on a bound socket. `key`: permits changes and, with a `starter`, runs; None: read-only."""
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
