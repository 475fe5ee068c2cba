"""One HTTP POST of JSON with a time limit, and what its response means. Does not follow redirects."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import SHUT_RDWR
from typing import Any
from urllib.parse import unquote, urlsplit

from kaput import __version__
from kaput.errors import UsageError
from kaput.monitor.alerts.notify.channel import Refused, TryAgain
from kaput.printable import printable

_RETRIABLE_STATUSES = {408, 425, 429}  # and all of 500 to 599


@dataclass(frozen=True)
class Endpoint:
    """Where to post to. `public_url`: without user, password and query, which may be secrets."""

    secure: bool
    host: str
    port: int
    path: str
    public_url: str
    authorization: str | None = None

    @classmethod
    def of(cls, url: str, default_path: str = "/") -> Endpoint:
        """Parses http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]. Raises UsageError."""
        try:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise UsageError(f"{url!r} is not a URL") from None
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or not (url.isascii() and url.isprintable())
            or " " in url
        ):
            raise UsageError(f"{url!r} is not a URL of the form http://HOST:PORT/PATH")
        path = parts.path if parts.path.strip("/") else default_path
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            parts.scheme == "https",
            parts.hostname,
            port,
            f"{path}?{parts.query}" if parts.query else path,
            f"{parts.scheme}://{host}:{port}{path}",
            _basic(unquote(parts.username), unquote(parts.password or "")) if parts.username else None,
        )


def post(endpoint: Endpoint, document: Any, timeout_s: float) -> None:
    """Posts the document. Raises TryAgain or Refused if it was not accepted."""
    if timeout_s <= 0:
        raise TryAgain("no time left")
    body = json.dumps(document).encode()
    connection = _connection(endpoint, timeout_s)
    try:
        with _time_limit(connection, timeout_s):
            connection.request("POST", endpoint.path, body, _headers(endpoint))
            answer = connection.getresponse()
            _check_status(answer.status, answer.headers.get("Retry-After"), lambda: answer.read(300))
    except (OSError, http.client.HTTPException) as error:
        raise TryAgain(_error_text(error)) from None
    finally:
        connection.close()


def _connection(endpoint: Endpoint, timeout_s: float) -> http.client.HTTPConnection:
    if endpoint.secure:
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": f"kaput/{__version__}"}
    return headers | ({"Authorization": endpoint.authorization} if endpoint.authorization else {})


def _check_status(status: int, retry_after: str | None, read_body: Callable[[], bytes]) -> None:
    if 200 <= status < 300:
        return
    if status in _RETRIABLE_STATUSES or status >= 500:
        seconds = int(retry_after) if retry_after and retry_after.isdecimal() else 0
        raise TryAgain(f"answered {status}", seconds)
    text = printable(read_body().decode(errors="replace").strip())
    raise Refused(f"answered {status}{f' ({text})' if text else ''}")


@contextmanager
def _time_limit(connection: http.client.HTTPConnection, timeout_s: float) -> Iterator[None]:
    """Limits the total time: a connection's own timeout restarts with each byte."""

    ended = threading.Event()

    def end() -> None:
        ended.set()
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(SHUT_RDWR)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if ended.is_set():  # whatever a partial response led to
            raise TryAgain(f"no answer within {timeout_s:.3g} s")


def _error_text(error: Exception) -> str:
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
