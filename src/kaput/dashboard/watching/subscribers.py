"""Browsers that watch a run, a search or a cluster: they share one reader, and each gets only what is new.

Nothing is queued: a slow browser gets the newest snapshot when it reads the next one, and one that reads
nothing for a while is disconnected. Watching does not affect the run.

FastAPI formats the server-sent events; they are sent here, because FastAPI's response would wait forever for
a browser that reads nothing, and so keep the server from ending.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kaput.errors import KaputError

_LINGER_S = 10.0  # how long an unwatched feed stays, for a page that is reloaded
MOST_WATCHERS = 500


class ShownSnapshot(Protocol):
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


class SnapshotReader(Protocol):
    """Makes snapshots of one run, search or cluster. Not thread-safe."""

    def look(self) -> ShownSnapshot:
        """The next snapshot. Raises OSError, KaputError if there will be none."""

    def close(self) -> None:
        """Closes everything."""


class Feed:
    """The snapshots of one reader, which reads as long as anybody watches. For one event loop."""

    def __init__(self, name: str, read: Callable[[str], SnapshotReader]) -> None:
        self._name, self._reader_of = name, read
        self.id = uuid.uuid4().hex[:8]  # versions count within one reader
        self.watchers = 0
        self.left_at = 0.0
        self.snapshot: ShownSnapshot | None = None
        self.failure: str | None = None
        self._new = asyncio.Event()
        self._texts: dict[int, str] = {}

    async def read(self) -> None:
        """Reads until the state is final, or no page has watched for a while."""
        reader = self._reader_of(self._name)
        try:
            while self.watchers > 0 or time.monotonic() - self.left_at < _LINGER_S:
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

    async def after(self, version: int) -> ShownSnapshot | None:
        """Waits for a snapshot newer than `version`; None if there will be none."""
        while self.snapshot is None or self.snapshot.version <= version:
            if self.failure is not None or (self.snapshot is not None and self.snapshot.over):
                return None
            await self._new.wait()
        return self.snapshot

    def text(self, snapshot: ShownSnapshot, since: int) -> str:
        """A snapshot as JSON for browsers that have seen version `since`; cached for the next one."""
        if snapshot is not self.snapshot:
            return snapshot.text(since)
        if since not in self._texts:
            self._texts[since] = snapshot.text(since)
        return self._texts[since]

    def _announce(self) -> None:
        self._new.set()
        self._new = asyncio.Event()


class Subscribers:
    """All feeds by name. `read`: makes the reader for a name; `closing`: set when the server ends."""

    def __init__(self, read: Callable[[str], SnapshotReader]) -> None:
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


STALLED_S = 15.0  # a browser that reads nothing for this long is disconnected
_IDLE_S = 10.0  # after which a comment is sent, to detect a closed connection


class Events(Response):
    """The response to one request. `seen`: the Last-Event-ID, if the browser reconnects."""

    def __init__(self, subscribers: Subscribers, name: str, seen: str = "") -> None:
        super().__init__()
        self._subscribers, self._name, self._seen = subscribers, name, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends events until the run is judged, the browser disconnects, or the server ends."""
        headers = [(b"content-type", EventSourceResponse.media_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        async with self._subscribers.watching(self._name) as feed:
            disconnected = asyncio.create_task(_disconnected(receive))
            closing = asyncio.create_task(self._subscribers.closing.wait())
            streaming = asyncio.create_task(self._stream(feed, send))
            tasks = {disconnected, closing, streaming}
            with suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not disconnected.done() or disconnected.cancelled():
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, feed: Feed, send: Send) -> None:
        version = _version(self._seen, feed)
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    snapshot = await feed.after(version)
            except TimeoutError:
                await self._send(send, KEEPALIVE_COMMENT)
                continue
            if snapshot is None:
                reason = " ".join((feed.failure or "over").split())
                await self._send(send, format_sse_event(event="end", data_str=reason))
                return
            text = feed.text(snapshot, version)
            version = snapshot.version
            await self._send(send, format_sse_event(data_str=text, id=f"{feed.id}-{version}", retry=1000))

    async def _send(self, send: Send, event: bytes) -> None:
        """Raises TimeoutError if the browser reads nothing."""
        async with asyncio.timeout(STALLED_S):
            await send({"type": "http.response.body", "body": event, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _version(seen: str, feed: Feed) -> int:
    """The last version of this feed that the browser has seen; 0 if it saw another feed."""
    feed_id, _, version = seen.partition("-")
    return int(version) if feed_id == feed.id and version.isdecimal() and len(version) < 12 else 0
