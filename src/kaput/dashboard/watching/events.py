"""Server-sent events: pictures of a run on their way to one browser."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kaput.dashboard.watching.subscribers import Show, Subscribers

STALLED_S = 15.0  # a browser that takes nothing for so long is let go
_IDLE_S = 10.0  # after which a line without meaning tells whether anybody is there


class Events(Response):
    """The answer to one request. `seen`: the Last-Event-ID, if the browser comes again."""

    def __init__(self, subscribers: Subscribers, name: str, seen: str = "") -> None:
        super().__init__()
        self._subscribers, self._name, self._seen = subscribers, name, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the run is judged, the browser goes, or the server ends."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
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
                await self._send(send, ": nothing new\n\n")
                continue
            if picture is None:
                said = show.failure or "over"
                await self._send(send, f"event: end\ndata: {' '.join(said.split())}\n\n")
                return
            text = show.text(picture, version)
            version = picture.version
            await self._send(send, f"id: {show.id}-{version}\nretry: 1000\ndata: {text}\n\n")

    async def _send(self, send: Send, text: str) -> None:
        """Raises TimeoutError where the browser takes nothing."""
        async with asyncio.timeout(STALLED_S):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _version(seen: str, show: Show) -> int:
    """What the browser has seen of this very show; 0 where it was another's."""
    who, _, version = seen.partition("-")
    return int(version) if who == show.id and version.isdecimal() and len(version) < 12 else 0
