"""Whoever watches a run: one reader for all of them, and for each only what is new to him.

Nothing is queued for a browser: one that is slow is shown the newest picture when it takes the next one, and
one that takes nothing for a while is let go. The run itself knows nothing of any of them.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.reader import Picture, RunReader
from kaput.errors import KaputError

EVERY_S = 0.2
_UNJUDGED_S = 0.5  # between looks at a run that nobody records
_LINGER_S = 10.0  # for a page that is loaded again
MOST_WATCHERS = 500


class Show:
    """One run, read as long as anybody watches. Of one event loop."""

    def __init__(self, runs: Runs, name: str) -> None:
        self._runs, self._name = runs, name
        self.id = uuid.uuid4().hex[:8]  # versions count within one reader
        self.watchers = 0
        self.left_at = 0.0
        self.picture: Picture | None = None
        self.failure: str | None = None
        self._new = asyncio.Event()
        self._texts: dict[int, str] = {}

    async def read(self) -> None:
        """Reads on until everything is known, or nobody has watched for a while."""
        reader = RunReader(self._runs, self._name)
        try:
            while self._wanted():
                picture = await asyncio.to_thread(reader.look)
                self.picture, self._texts = picture, {}
                self._announce()
                if picture.over:
                    return
                quiet = picture.head["state"] != "recording" or picture.head["recorder"]["dead"]
                await asyncio.sleep(0 if picture.more else _UNJUDGED_S if quiet else EVERY_S)
        except (OSError, KaputError) as error:
            self.failure = f"the run cannot be read any more: {error}"
            self._announce()
        finally:
            reader.close()

    async def after(self, version: int) -> Picture | None:
        """A picture newer than that; None where there will be none."""
        while self.picture is None or self.picture.version <= version:
            if self.failure is not None or (self.picture is not None and self.picture.over):
                return None
            await self._new.wait()
        return self.picture

    def text(self, picture: Picture, since: int) -> str:
        """A picture as JSON, with the steps that are new to whoever has seen `since`; 0: he has seen nothing.

        Most have seen the one before: what was made for one is given to all.
        """
        if picture is not self.picture:
            return _text(picture, since)
        if since not in self._texts:
            self._texts[since] = _text(picture, since)
        return self._texts[since]

    def _wanted(self) -> bool:
        return self.watchers > 0 or time.monotonic() - self.left_at < _LINGER_S

    def _announce(self) -> None:
        self._new.set()
        self._new = asyncio.Event()


class Subscribers:
    """All runs that are being watched. `closing` is set when the server ends."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._shows: dict[str, tuple[Show, asyncio.Task[None]]] = {}
        self.closing = asyncio.Event()

    @property
    def shows(self) -> list[Show]:
        """Those that are being read."""
        return [show for show, task in self._shows.values() if not task.done()]

    @property
    def full(self) -> bool:
        """Whether nobody more can be shown anything."""
        return sum(show.watchers for show in self.shows) >= MOST_WATCHERS

    @property
    def unsettled(self) -> bool:
        """Whether anybody still watches: nobody does once he was sent the verdict of the run.

        A show may be over that has not been sent to all.
        """
        return any(show.watchers for show, _ in self._shows.values())

    @asynccontextmanager
    async def watching(self, name: str) -> AsyncIterator[Show]:
        """The show of a run, which is read for as long as the block lasts, and a little longer."""
        show = self._show(name)
        show.watchers += 1
        try:
            yield show
        finally:
            show.watchers -= 1
            show.left_at = time.monotonic()

    def _show(self, name: str) -> Show:
        known = self._shows.get(name)
        if known is not None and not known[1].done():
            return known[0]
        show = Show(self._runs, name)
        show.left_at = time.monotonic()
        self._shows = {n: pair for n, pair in self._shows.items() if not pair[1].done()}
        self._shows[name] = show, asyncio.create_task(show.read())
        return show


def _text(picture: Picture, since: int) -> str:
    table = picture.steps
    steps = {"width_s": table.width_s, "rows": table.since(since)}
    return json.dumps({**picture.head, "whole": since == 0, "steps": steps}, separators=(",", ":"))
