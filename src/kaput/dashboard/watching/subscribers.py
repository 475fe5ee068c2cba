"""Whoever watches a run or a cluster: one reader for all of them, and for each only what is new to him.

Nothing is queued for a browser: one that is slow is shown the newest picture when it takes the next one, and
one that takes nothing for a while is let go. The run itself knows nothing of any of them.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from kaput.errors import KaputError

_LINGER_S = 10.0  # for a page that is loaded again
MOST_WATCHERS = 500


class Picture(Protocol):
    """A moment of what is watched. `over`: nothing will change; `wait_s`: until it is worth looking again."""

    @property
    def version(self) -> int: ...

    @property
    def over(self) -> bool: ...

    @property
    def wait_s(self) -> float: ...

    def text(self, since: int) -> str:
        """As JSON, for whoever has seen that version; 0: he has seen nothing."""


@dataclass(frozen=True)
class WholePicture:
    """A moment of what is small: all of it is shown again, whatever was seen."""

    version: int
    document: Mapping[str, Any]
    over: bool = False
    wait_s: float = 1.0

    def text(self, since: int) -> str:
        """The document as JSON."""
        return json.dumps(self.document, separators=(",", ":"))


class Reader(Protocol):
    """Looks at one thing, from one thread at a time."""

    def look(self) -> Picture:
        """The next picture. Raises OSError, KaputError where there will be none."""

    def close(self) -> None:
        """Lets everything go."""


class Show:
    """One thing, read as long as anybody watches. Of one event loop."""

    def __init__(self, name: str, read: Callable[[str], Reader]) -> None:
        self._name, self._reader_of = name, read
        self.id = uuid.uuid4().hex[:8]  # versions count within one reader
        self.watchers = 0
        self.left_at = 0.0
        self.picture: Picture | None = None
        self.failure: str | None = None
        self._new = asyncio.Event()
        self._texts: dict[int, str] = {}

    async def read(self) -> None:
        """Reads on until everything is known, or nobody has watched for a while."""
        reader = self._reader_of(self._name)
        try:
            while self._wanted():
                picture = await asyncio.to_thread(reader.look)
                self.picture, self._texts = picture, {}
                self._announce()
                if picture.over:
                    return
                await asyncio.sleep(picture.wait_s)
        except (OSError, KaputError) as error:
            self.failure = f"it cannot be read any more: {error}"
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
        """A picture as JSON, with what is new to whoever has seen `since`.

        Most have seen the one before: what was made for one is given to all.
        """
        if picture is not self.picture:
            return picture.text(since)
        if since not in self._texts:
            self._texts[since] = picture.text(since)
        return self._texts[since]

    def _wanted(self) -> bool:
        return self.watchers > 0 or time.monotonic() - self.left_at < _LINGER_S

    def _announce(self) -> None:
        self._new.set()
        self._new = asyncio.Event()


class Subscribers:
    """All that is being watched, by name. `read`: makes the reader of one; `closing` is set when the server
    ends.
    """

    def __init__(self, read: Callable[[str], Reader]) -> None:
        self._reader_of = read
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
        show = Show(name, self._reader_of)
        show.left_at = time.monotonic()
        self._shows = {n: pair for n, pair in self._shows.items() if not pair[1].done()}
        self._shows[name] = show, asyncio.create_task(show.read())
        return show
