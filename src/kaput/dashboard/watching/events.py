"""Server-sent events: snapshots of a run for one browser.

FastAPI formats the events; they are sent here, because FastAPI's response would wait forever for a browser
that reads nothing, and so keep the server from ending.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kaput.dashboard.watching.subscribers import Feed, Subscribers

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
