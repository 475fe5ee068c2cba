"""Server-sent events: pictures of a run on their way to one browser.

FastAPI writes the events; sending them is done here, because its response would wait without end for a
browser that reads nothing, and keep the server from ending.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kaput.dashboard.watching.subscribers import Show, Subscribers

STALLED_S = 15.0  # a browser that reads nothing for this long is disconnected
_IDLE_S = 10.0  # after which a comment shows whether the browser is still there


class Events(Response):
    """The answer to one request. `seen`: the Last-Event-ID, if the browser comes again."""

    def __init__(self, subscribers: Subscribers, name: str, seen: str = "") -> None:
        super().__init__()
        self._subscribers, self._name, self._seen = subscribers, name, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the run is judged, the browser disconnects, or the server ends."""
        headers = [(b"content-type", EventSourceResponse.media_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        async with self._subscribers.watching(self._name) as show:
            gone = asyncio.create_task(_gone(receive))
            closing = asyncio.create_task(self._subscribers.closing.wait())
            showing = asyncio.create_task(self._show(show, send))
            tasks = {gone, closing, showing}
            with suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not gone.done() or gone.cancelled():
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _show(self, show: Show, send: Send) -> None:
        version = _version(self._seen, show)
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    picture = await show.after(version)
            except TimeoutError:
                await self._send(send, KEEPALIVE_COMMENT)
                continue
            if picture is None:
                reason = " ".join((show.failure or "over").split())
                await self._send(send, format_sse_event(event="end", data_str=reason))
                return
            text = show.text(picture, version)
            version = picture.version
            await self._send(send, format_sse_event(data_str=text, id=f"{show.id}-{version}", retry=1000))

    async def _send(self, send: Send, event: bytes) -> None:
        """Raises TimeoutError if the browser reads nothing."""
        async with asyncio.timeout(STALLED_S):
            await send({"type": "http.response.body", "body": event, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _version(seen: str, show: Show) -> int:
    """What the browser has seen of this show; 0 if it was another one."""
    show_id, _, version = seen.partition("-")
    return int(version) if show_id == show.id and version.isdecimal() and len(version) < 12 else 0
