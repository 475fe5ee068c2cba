"""What every request must be, and every answer carries: this machine's browsers are served, and nobody else.

A page of another site can make a browser ask 127.0.0.1, also under a name of its own that it has pointed here
(DNS rebinding); the Host header then has that name. Addresses of the network never reach the socket.
"""

from __future__ import annotations

from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# report.html brings its script and style along, and in a run folder of anybody's it may be anything: it is
# shown as a page of no site, which can load nothing. The charts of older reports need eval.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
METHODS = ("GET", "HEAD")
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets requests to 127.0.0.1 and localhost at `port` through to `app`, if they only read."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = "nothing but HTTP is spoken here" if scope["type"] != "http" else self._refusal(scope)
        if refusal is not None:
            status = 405 if refusal == _READ_ONLY else 421
            answer = PlainTextResponse(f"kaput: {refusal}\n", status, {"Allow": ", ".join(METHODS)})
            await answer(scope, receive, _with_headers(send))
            return
        # What nobody expected has become a page by now (app.py), and is raised again for a server's log.
        with suppress(Exception):
            await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "this dashboard answers at 127.0.0.1 and localhost alone"
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "pages of other sites are not answered"
        return None if scope["method"] in METHODS else _READ_ONLY


_READ_ONLY = "the dashboard reads, and changes nothing"


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
