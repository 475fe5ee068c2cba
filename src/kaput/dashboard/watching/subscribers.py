"""Browsers that watch a run, a search or a cluster: they share one reader, and each gets only what is new.

Nothing is queued: a slow browser gets the newest snapshot when it reads the next one, and one that reads
nothing for a while is disconnected. Watching does not affect the run.
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

_LINGER_S = 10.0  # how long an unwatched feed stays, for a page that is reloaded
MOST_WATCHERS = 500


class Snapshot(Protocol):
    """A state at one moment. `over`: it is final; `wait_s`: how long to wait until the next look."""

    @property
    def version(self) -> int: ...

    @property
    def over(self) -> bool: ...

    @property
    def wait_s(self) -> float: ...

    def text(self, since: int) -> str:
        """The snapshot as JSON for a browser that has seen version `since`; 0: nothing."""


@dataclass(frozen=True)
class FullSnapshot:
    """A small snapshot that is always sent as a whole."""

    version: int
    document: Mapping[str, Any]
    over: bool = False
    wait_s: float = 1.0

    def text(self, since: int) -> str:
        """The document as JSON."""
        return json.dumps(self.document, separators=(",", ":"))


class Reader(Protocol):
    """Makes snapshots of one run, search or cluster. Not thread-safe."""

    def look(self) -> Snapshot:
        """The next snapshot. Raises OSError, KaputError if there will be none."""

    def close(self) -> None:
        """Closes everything."""


class Feed:
    """The snapshots of one reader, which reads as long as anybody watches. For one event loop."""

    def __init__(self, name: str, read: Callable[[str], Reader]) -> None:
        self._name, self._reader_of = name, read
        self.id = uuid.uuid4().hex[:8]  # versions count within one reader
        self.watchers = 0
        self.left_at = 0.0
        self.snapshot: Snapshot | None = None
        self.failure: str | None = None
        self._new = asyncio.Event()
        self._texts: dict[int, str] = {}

    async def read(self) -> None:
        """Reads until the state is final, or nobody has watched for a while."""
        reader = self._reader_of(self._name)
        try:
            while self._wanted():
                snapshot = await asyncio.to_thread(reader.look)
                self.snapshot, self._texts = snapshot, {}
                self._announce()
                if snapshot.over:
                    return
                await asyncio.sleep(snapshot.wait_s)
        except (OSError, KaputError) as error:
            self.failure = f"it can no longer be read: {error}"
            self._announce()
        finally:
            reader.close()

    async def after(self, version: int) -> Snapshot | None:
        """Waits for a snapshot newer than `version`; None if there will be none."""
        while self.snapshot is None or self.snapshot.version <= version:
            if self.failure is not None or (self.snapshot is not None and self.snapshot.over):
                return None
            await self._new.wait()
        return self.snapshot

    def text(self, snapshot: Snapshot, since: int) -> str:
        """A snapshot as JSON for a browser that has seen version `since`.

        Cached, since most browsers have seen the same version.
        """
        if snapshot is not self.snapshot:
            return snapshot.text(since)
        if since not in self._texts:
            self._texts[since] = snapshot.text(since)
        return self._texts[since]

    def _wanted(self) -> bool:
        return self.watchers > 0 or time.monotonic() - self.left_at < _LINGER_S

    def _announce(self) -> None:
        self._new.set()
        self._new = asyncio.Event()


class Subscribers:
    """All feeds by name. `read`: makes the reader for a name; `closing`: set when the server ends."""

    def __init__(self, read: Callable[[str], Reader]) -> None:
        self._reader_of = read
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}
        self.closing = asyncio.Event()

    @property
    def feeds(self) -> list[Feed]:
        """The feeds that are being read."""
        return [feed for feed, task in self._feeds.values() if not task.done()]

    @property
    def full(self) -> bool:
        """Whether the maximum number of browsers is reached."""
        return sum(feed.watchers for feed in self.feeds) >= MOST_WATCHERS

    @property
    def is_watched(self) -> bool:
        """Whether any browser is still watching. A browser stops watching once it has the verdict of the run,
        so this may be true after a feed is over.
        """
        return any(feed.watchers for feed, _ in self._feeds.values())

    @asynccontextmanager
    async def watching(self, name: str) -> AsyncIterator[Feed]:
        """The feed of that name, which is read within the block and a little longer."""
        feed = self._feed(name)
        feed.watchers += 1
        try:
            yield feed
        finally:
            feed.watchers -= 1
            feed.left_at = time.monotonic()

    def _feed(self, name: str) -> Feed:
        known = self._feeds.get(name)
        if known is not None and not known[1].done():
            return known[0]
        feed = Feed(name, self._reader_of)
        feed.left_at = time.monotonic()
        self._feeds = {n: pair for n, pair in self._feeds.items() if not pair[1].done()}
        self._feeds[name] = feed, asyncio.create_task(feed.read())
        return feed
