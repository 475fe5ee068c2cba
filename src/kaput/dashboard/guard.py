"""Checks every request and adds security headers to every response: only browsers on this machine are served.

A page of another site can make a browser send requests to 127.0.0.1, even under a host name of its own that
resolves to 127.0.0.1 (DNS rebinding); the Host header then has that name. The socket is not reachable from
the network.

Most requests are read-only. A request for a change is a POST that must come from a page of this dashboard
(Origin, Sec-Fetch-Site), must have the key from the address that kaput printed (other users of this machine
can reach 127.0.0.1 too), and must not be a form of another site: it is JSON with a custom header, for which
browsers send a preflight request across sites, which is refused.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# report.html contains its scripts and styles, and in a run folder from elsewhere it may be anything: it is
# sandboxed and can load nothing.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
METHODS = ("GET", "HEAD")
KEY_HEADER = "x-kaput-key"
MOST_BYTES = 16_384  # of a request for a change
_CHANGING = re.compile(r"/clusters/[^/]+/(inject|heal)|/new/[^/]+/start|/started/stop")
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
    """ASGI middleware: passes local requests at `port` that are read-only or have the `key`."""

    def __init__(self, app: ASGIApp, port: int, key: str | None = None) -> None:
        self._app, self._key = app, key
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refused: Response | None = _plain("this server supports only HTTP", 421)
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refused = self._refused(scope, headers) or self._refused_method(scope, headers)
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        # Starlette raises unexpected exceptions again for the server's log; their page was sent (app.py).
        with suppress(Exception):
            await self._app(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _plain("this dashboard only answers at 127.0.0.1 and localhost", 421)
        site, navigates = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode") == "navigate"
        if site == "cross-site" and not (navigates and scope["method"] in METHODS):
            return _plain("requests from other sites are refused", 421)
        return None

    def _refused_method(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] in METHODS:
            return None
        if scope["method"] != "POST" or self._key is None or not _CHANGING.fullmatch(scope["path"]):
            return _plain(_READ_ONLY, 405)
        return self._refused_change(headers, self._key)

    def _refused_change(self, headers: Headers, key: str) -> Response | None:
        origin = f"http://{headers['host'].lower()}"
        site = headers.get("sec-fetch-site", "same-origin")
        if headers.getlist("origin") != [origin] or site != "same-origin":
            return _json("only pages of this dashboard may make this request", 403)
        given = headers.getlist(KEY_HEADER)
        if len(given) != 1 or not secrets.compare_digest(given[0].encode(), key.encode()):
            return _json("open the address that kaput printed: it contains the key that this needs", 403)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _json("this must be JSON", 415)
        length = headers.getlist("content-length")
        if len(length) != 1 or not length[0].isdecimal() or "transfer-encoding" in headers:
            return _json("this needs a Content-Length header", 411)
        return _json("this is too long", 413) if int(length[0]) > MOST_BYTES else None


_READ_ONLY = "the dashboard is read-only here"


def _plain(refusal: str, status: int) -> Response:
    return PlainTextResponse(f"kaput: {refusal}\n", status, {"Allow": ", ".join(METHODS)})


def _json(refusal: str, status: int) -> Response:
    return JSONResponse({"error": refusal}, status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
