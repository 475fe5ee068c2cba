"""The pages of searches (kaput search), and their URLs.

    /searches                         the list of searches
    /searches/NAME, /events           a search, and its data, also while it is running
    /searches/NAME/finds/FIND/PART    a file of a find: report.html, scenario.yaml, bug-report.md

All of it is read-only. The data comes from kaput.search (search/summary.py), which is not imported
here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import Header
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from kaput.dashboard.guard import REPORT_POLICY
from kaput.dashboard.pages import render
from kaput.dashboard.watching.subscribers import Events, FullSnapshot, Subscribers
from kaput.errors import KaputError
from kaput.report.charts.standalone import coverage_chart
from kaput.report.document import Chart
from kaput.report.render.html import chart_data


class SearchFolder(Protocol):
    @property
    def root(self) -> Path:
        """The folder."""

    def names(self) -> list[str]:
        """The names of its searches, newest first."""

    def look(self, name: str) -> Mapping[str, Any]:
        """The state of a search; the same object as long as nothing changes. Raises UsageError, OSError."""

    def part(self, name: str, find: str, part: str) -> bytes:
        """A file of a find. Raises OSError."""


class _SearchReader:
    def __init__(self, searches: SearchFolder, name: str) -> None:
        self._searches, self._name = searches, name
        self._last = FullSnapshot(0, {})

    def look(self) -> FullSnapshot:
        """The current state. Raises UsageError, OSError if the search is gone."""
        now = self._searches.look(self._name)
        if now is not self._last.document:
            self._last = FullSnapshot(self._last.version + 1, now)
        return self._last

    def close(self) -> None:
        """Nothing is kept open."""


class SearchPages:
    def __init__(self, searches: SearchFolder) -> None:
        self._searches = searches
        self.subscribers = Subscribers(lambda name: _SearchReader(self._known(name), name))
        self.pages: dict[str, Callable[..., Any]] = {
            "/searches": self.index,
            "/searches/{name}": self.search,
            "/searches/{name}/events": self.events,
            "/searches/{name}/finds/{find}/{part}": self.part,
        }

    async def index(self) -> Response:
        lines = await asyncio.to_thread(self._lines)
        return render("searches", lines=lines, root=str(self._searches.root))

    def _lines(self) -> list[Mapping[str, Any]]:
        return [_line(self._searches, name) for name in self._searches.names()]

    async def search(self, name: str) -> Response:
        await asyncio.to_thread(self._known, name)
        chart = await asyncio.to_thread(_chart)
        return render("search", name=name, chart=chart, data=chart_data([chart]))

    async def events(self, name: str, last_event_id: Annotated[str, Header(max_length=64)] = "") -> Response:
        await asyncio.to_thread(self._known, name)
        if self.subscribers.full:
            raise HTTPException(503, "too many pages are open already; close some of them")
        return Events(self.subscribers, name, last_event_id)

    async def part(self, name: str, find: str, part: str) -> Response:
        """A file of a find. A report is sandboxed, as the reports of runs are."""
        searches = await asyncio.to_thread(self._known, name)
        try:
            content = await asyncio.to_thread(searches.part, name, find, part)
        except OSError:
            raise HTTPException(404, "this find has no such file") from None
        if part.endswith(".html"):
            return Response(
                content, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
            )
        return Response(content, media_type="text/plain; charset=utf-8")

    def _known(self, name: str) -> SearchFolder:
        if name not in self._searches.names():
            raise HTTPException(404, "there is no such search")
        return self._searches


@cache
def _chart() -> Chart:
    return coverage_chart()


def _line(searches: SearchFolder, name: str) -> Mapping[str, Any]:
    try:
        return searches.look(name)
    except (KaputError, OSError) as error:
        return {"name": name, "trouble": str(error).splitlines()[0]}
