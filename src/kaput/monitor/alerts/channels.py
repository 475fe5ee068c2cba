"""Ways to send alerts: lines, JSON lines, a webhook, Alertmanager. A channel has no queue, and is called by
one thread (notifiers.py).

To add one: a class with the methods of Channel (a short one: Webhook), its word in CHANNELS and `channel_of`.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any, Protocol, TextIO
from urllib.parse import unquote, urlsplit

from kaput.core import MS, SECOND, VERSION, clock
from kaput.errors import UsageError
from kaput.monitor.alerts.engine import Alert, Transition
from kaput.monitor.alerts.prometheus import alert_name
from kaput.printable import printable

CHANNELS = ("lines", "json:FILE", "webhook:URL", "alertmanager:URL")
_RETRIABLE_STATUSES = {408, 425, 429}  # and all of 500 to 599


class TryAgain(Exception):
    """It was not sent; retry later, not before `after_s`, as the receiver asks."""

    def __init__(self, why: str, after_s: float = 0) -> None:
        super().__init__(why)
        self.after_s = after_s


class NotAccepted(Exception):
    """It was not sent, and retrying is useless."""


class Channel(Protocol):
    """One way to send alerts. `name`: without secrets; `repeat_s`: sends at least so often; None: never."""

    name: str
    repeat_s: float | None = None

    def wants(self, transition: Transition) -> bool:
        """Whether it sends that transition: those that are announced."""
        return transition.announce

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Sends them in order; each may have been sent before. Raises TryAgain or NotAccepted."""


@dataclass(frozen=True)
class PostTarget:
    """Where to post to. `public_url`: without user, password and query, which may be secrets."""

    secure: bool
    host: str
    port: int
    path: str
    public_url: str
    authorization: str | None = None

    @classmethod
    def of(cls, url: str, default_path: str = "/") -> PostTarget:
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


def post(endpoint: PostTarget, document: Any, timeout_s: float) -> None:
    """One POST of JSON; follows no redirect. Raises TryAgain or NotAccepted if it was not accepted."""
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


def _connection(endpoint: PostTarget, timeout_s: float) -> http.client.HTTPConnection:
    if endpoint.secure:
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)


def _headers(endpoint: PostTarget) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": f"kaput/{VERSION}"}
    return headers | ({"Authorization": endpoint.authorization} if endpoint.authorization else {})


def _check_status(status: int, retry_after: str | None, read_body: Callable[[], bytes]) -> None:
    if 200 <= status < 300:
        return
    if status in _RETRIABLE_STATUSES or status >= 500:
        seconds = int(retry_after) if retry_after and retry_after.isdecimal() else 0
        raise TryAgain(f"answered {status}", seconds)
    text = printable(read_body().decode(errors="replace").strip())
    raise NotAccepted(f"answered {status}{f' ({text})' if text else ''}")


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


def document(transition: Transition) -> dict[str, Any]:
    """The transition's document. `id`: the same for each episode of a rule and label set."""
    alert = transition.alert
    return {
        "id": alert.key,
        "alert": alert.rule.name,
        "severity": alert.rule.severity,
        "labels": dict(alert.labels),
        "change": transition.change,
        "state": alert.state,
        "announce": transition.announce,
        "at": rfc3339(transition.at_ns),
        "value": None if math.isnan(alert.value) else alert.value,
        "summary": alert.summary,
        "why": alert.rule.why,
        "active_since": rfc3339(alert.active_ns),
        "fired_at": None if alert.fired_ns is None else rfc3339(alert.fired_ns),
        "resolved_at": None if alert.resolved_ns is None else rfc3339(alert.resolved_ns),
        "inhibited_by": list(alert.inhibited_by),
        "observed": alert.observed,
        "reason": alert.reason,
    }


def rfc3339(at_ns: int) -> str:
    """UTC, to the millisecond."""
    moment = datetime.fromtimestamp(at_ns // SECOND, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns // MS % 1000:03d}Z"


class Webhook(Channel):
    """Posts each change of an alert at least once; receivers recognize duplicates by `id` and `state`."""

    def __init__(self, url: str) -> None:
        self._endpoint = PostTarget.of(url)
        self.name = self._endpoint.public_url

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Posts them in one document."""
        post(self._endpoint, {"alerts": [document(each) for each in transitions]}, timeout_s)


PATH = "/api/v2/alerts"
REPEAT_S = 60.0
_ENDS_AFTER_REPEATS = 4


class Alertmanager(Channel):
    """Alertmanager's v2 API. `labels`: additional labels of every alert, such as the cluster's name. As
    Prometheus does, a firing alert is posted repeatedly, with an end a few repetitions ahead, so that
    Alertmanager resolves it by itself if kaput is gone. Alerts have the names and labels of the generated
    Prometheus rules, so that one routing configuration serves both.
    """

    def __init__(
        self,
        url: str,
        labels: Mapping[str, str] | None = None,
        repeat_s: float = REPEAT_S,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._endpoint = PostTarget.of(url, PATH)
        self.name = self._endpoint.public_url
        self.repeat_s = repeat_s
        self._labels, self._now_ns = dict(labels or {}), now_ns
        self._firing: dict[str, Alert] = {}

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Posts everything that fires, and what was resolved."""
        resolved: dict[str, Alert] = {}
        for each in transitions:
            here, there = (resolved, self._firing) if each.change == "resolved" else (self._firing, resolved)
            there.pop(each.alert.key, None)
            here[each.alert.key] = each.alert
        if alerts := [*resolved.values(), *self._firing.values()]:
            post(self._endpoint, [self._document(alert) for alert in alerts], timeout_s)

    def _document(self, alert: Alert) -> dict[str, Any]:
        assert alert.fired_ns is not None and self.repeat_s is not None
        ahead_ns = self._now_ns() + round(self.repeat_s * _ENDS_AFTER_REPEATS * 1e9)
        name = {"alertname": alert_name(alert.rule.name), "severity": alert.rule.severity}
        return {
            "labels": {**self._labels, **alert.labels, **name},
            "annotations": {"summary": alert.summary, "description": alert.rule.why},
            "startsAt": rfc3339(alert.fired_ns),
            "endsAt": rfc3339(ahead_ns if alert.resolved_ns is None else alert.resolved_ns),
        }


def text_line(transition: Transition) -> str:
    """`10:00:06.840 FIRING page offline-partitions: 3 partitions have no leader`."""
    alert = transition.alert
    reason = f" ({alert.reason})" if alert.reason else ""
    change = "FIRING" if transition.change in ("firing", "released") else transition.change
    return printable(
        f"{clock(transition.at_ns)} {change} {alert.rule.severity} {alert.rule.name}: {alert.summary}{reason}"
    )


def json_line(transition: Transition) -> str:
    return json.dumps(document(transition))


class LineChannel(Channel):
    """Alerts to a stream, one per line. `announced_only`: no line for pending and inhibited ones."""

    def __init__(
        self, name: str, stream: TextIO, line: Callable[[Transition], str], announced_only: bool
    ) -> None:
        self.name = name
        self._stream, self._line, self._announced_only = stream, line, announced_only

    def wants(self, transition: Transition) -> bool:
        return transition.announce or not self._announced_only

    def send(self, transitions: Sequence[Transition], timeout_s: float) -> None:
        """Writes them. Raises NotAccepted if the stream is gone."""
        try:
            self._stream.writelines(f"{self._line(each)}\n" for each in transitions)
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise NotAccepted(f"cannot be written to ({error})") from None


def channel_of(text: str, labels: Mapping[str, str] | None = None) -> Channel:
    """The channel named on a command line. Raises UsageError."""
    kind, _, rest = text.partition(":")
    match kind:
        case "lines" if not rest:
            return LineChannel("stdout", sys.stdout, text_line, announced_only=True)
        case "json" if rest:
            return _json_file(Path(rest))
        case "webhook" if rest:
            return Webhook(rest)
        case "alertmanager" if rest:
            return Alertmanager(rest, labels)
    raise UsageError(f"{text!r} is not a channel; write {', '.join(CHANNELS[:-1])} or {CHANNELS[-1]}")


def _json_file(path: Path) -> LineChannel:
    try:
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written to ({error.strerror})") from None
    return LineChannel(str(path), stream, json_line, announced_only=False)
