"""Starting runs from a page, and the URLs for it.

    /new                        the built-in scenarios, by tag
    /new/SCENARIO, /check       the form of a scenario; the mistakes in ?set=KEY=VALUE&set=...
    /new/SCENARIO/start         POST, JSON: starts a run with changes
    /started, /started/stop     the state of the last started run; POST, JSON: interrupts it

The POST requests need the key (guard.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from kaput.dashboard.forms import Form, by_tag, form_of
from kaput.dashboard.pages import ChangeRequest, address, refusal_response, render
from kaput.dashboard.starter import Starter
from kaput.errors import LabError, UsageError

_Key = Annotated[str, Field(max_length=300)]
_Value = Annotated[str, Field(max_length=2000)]
NO_STARTER = "use `kaput dashboard` without --read-only, or `kaput up --dashboard`"


class _StartRun(ChangeRequest):
    """A request to start a run. `set`: the changed fields."""

    set: dict[_Key, _Value] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class _StopRun(ChangeRequest):
    run: _Key


class NewRuns:
    """The pages. `starter`: starts the runs; None: runs cannot be started here."""

    def __init__(self, starter: Starter | None) -> None:
        self._starter = starter
        self.pages: dict[str, Callable[..., Any]] = {
            "/new": self.index,
            "/new/{scenario}": self.form,
            "/new/{scenario}/check": self.check,
            "/started": self.started,
        }
        self.changes: dict[str, Callable[..., Any]] = {
            "/new/{scenario}/start": self.start,
            "/started/stop": self.stop,
        }

    def is_in_progress(self, name: str) -> bool:
        """Whether the run in that folder was started here and is in progress."""
        now = self._starter.started if self._starter is not None else None
        return now is not None and now.name == name and not now.over

    async def index(self) -> Response:
        """The list of scenarios."""
        tags = await asyncio.to_thread(by_tag)
        return render("new", tags=tags, why_not=self._why_not)

    async def form(self, scenario: str) -> Response:
        """The form of a scenario."""
        form = await asyncio.to_thread(_form, scenario)
        return render("form", form=form, why_not=self._why_not)

    async def check(
        self, scenario: str, change: Annotated[list[str] | None, Query(alias="set", max_length=300)] = None
    ) -> Response:
        """The mistakes in changes, by field, and the equivalent command."""
        form = await asyncio.to_thread(_form, scenario)
        changes = {key: value for key, _, value in (each.partition("=") for each in change or [])}
        try:
            found = await asyncio.to_thread(form.mistakes, changes)
            return JSONResponse({"mistakes": found, "command": form.command(changes)})
        except UsageError as error:
            return JSONResponse({"mistakes": [{"key": "", "text": str(error)}], "command": ""})

    async def start(self, scenario: str, request: Request) -> Response:
        """Starts a run; responds at once."""
        form = await asyncio.to_thread(_form, scenario)
        body = await request.body()
        return await self._changed(lambda starter: _start(starter, form, _StartRun.read(body)))

    async def stop(self, request: Request) -> Response:
        """Interrupts the run; responds at once."""
        body = await request.body()
        return await self._changed(lambda starter: starter.stop(_StopRun.read(body).run))

    async def _changed(self, change: Callable[[Starter], None]) -> Response:
        if self._starter is None:
            return JSONResponse({"error": NO_STARTER}, 409)
        try:
            await asyncio.to_thread(change, self._starter)
        except (UsageError, LabError) as error:
            return refusal_response(error)
        return await self.started()

    async def started(self) -> Response:
        """The state of the last started run; empty if there was none."""
        now = self._starter.started if self._starter is not None else None
        return JSONResponse({} if now is None else {**asdict(now), "address": now.name and address(now.name)})

    @property
    def _why_not(self) -> str:
        return "" if self._starter is not None else f"Runs cannot be started here: {NO_STARTER}."


def _form(scenario: str) -> Form:
    try:
        return form_of(scenario)
    except UsageError as error:
        raise HTTPException(404, str(error)) from None


def _start(starter: Starter, form: Form, wanted: _StartRun) -> None:
    mistakes = form.mistakes(wanted.set)
    if mistakes:
        raise UsageError("\n".join(f"{each['key']}: {each['text']}" for each in mistakes))
    seed = [] if wanted.seed is None else ["--seed", str(wanted.seed)]
    starter.start(form.name, [*form.arguments(wanted.set), *seed])
