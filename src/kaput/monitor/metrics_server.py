"""Serves /metrics on an address, in Prometheus's text format, or OpenMetrics if the scraper asks for it:
answers from known values, and never queries a broker.

On a loopback address it answers only to loopback host names, as the dashboard does: so that a web page cannot
read it through a DNS name that points here (DNS rebinding).
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any, NamedTuple, cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kaput.errors import UsageError
from kaput.monitor.series import BUCKETS_S, Histogram, Labels, SeriesTable, Value, merged
from kaput.monitor.signals import Signal


class Exposition(Collector):
    """Answers scrapes. `look`: called at each, returns tables of series with the same labels."""

    def __init__(self, look: Callable[[], Iterable[SeriesTable]]) -> None:
        self._look = look
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Empty: otherwise the library would scrape to find out."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families of all signals that have series, in the order of SIGNALS."""
        return (_family(*series) for series in merged(self._look()))

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """The response and its content type, in the format that the Accept header asks for."""
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind


_FAMILIES: dict[str, Any] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}
_BORDERS = [*map(str, BUCKETS_S), "+Inf"]


def _family(signal: Signal, labels: Labels, series: Mapping[Labels, Value]) -> Metric:
    family = _FAMILIES[signal.kind](signal.name.removesuffix("_total"), signal.help, labels=labels)
    for values, value in sorted(series.items(), key=lambda item: item[0]):
        if isinstance(value, Histogram):
            buckets = zip(_BORDERS, map(float, accumulate(value.counts)), strict=True)
            family.add_metric(values, list(buckets), value.sum_s)
        else:
            family.add_metric(values, value)
    return cast(Metric, family)


DEFAULT = "127.0.0.1:9187"
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[\w.-]*)):(?P<port>\d{1,5})")
_STALLED_S = 10.0  # disconnects a client that sends or reads nothing for this long
_MOST_CLIENTS = 32
_METHODS = "GET, HEAD"


class ListenAddress(NamedTuple):
    """Where to serve."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        with suppress(ValueError):
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        return False


def listen_address(text: str, option: str) -> ListenAddress:
    """Parses HOST:PORT, [IPV6]:PORT or :PORT (loopback). Raises UsageError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > 0xFFFF:
        raise UsageError(f"{option} {text}: write HOST:PORT, such as {DEFAULT} or [::1]:9187 (port 0: any)")
    return ListenAddress(match["ipv6"] or match["host"] or "127.0.0.1", int(match["port"]))


def bind(address: ListenAddress, option: str, maybe: str = "") -> socket.socket:
    """A socket that listens there. Raises UsageError that says what to do; `maybe`: who may have the port."""
    try:
        resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"{option} {address.host}:{address.port}: {error.strerror}") from None
    family, kind, _, _, where = resolved[0]
    bound = socket.socket(family, kind)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(128)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            why = f"is in use{maybe}"
        elif error.errno in (errno.EACCES, errno.EPERM):
            why = "requires permissions that this user does not have"
        else:
            why = f"cannot be used ({error.strerror})"
        port, advice = f"port {address.port} of {address.host}", f"choose another one with {option}"
        raise UsageError(f"{port} {why}; {advice} (port 0: any)") from None
    return bound


@contextmanager
def serving(exposition: Exposition, bound: socket.socket) -> Iterator[ListenAddress]:
    """Serves on this socket inside the `with` block, then closes it; yields the actual address."""
    address = ListenAddress(*bound.getsockname()[:2])
    server = _MetricsServer(bound, exposition, address.is_local)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _MetricsServer(ThreadingHTTPServer):
    """Limits the number of clients; does not wait for them when it ends."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, bound: socket.socket, exposition: Exposition, local: bool) -> None:
        self.exposition = exposition
        self.names = _allowed_hosts(bound.getsockname()[1]) if local else None
        self._slots = threading.Semaphore(_MOST_CLIENTS)
        # The socket is already bound and listening.
        super().__init__(bound.getsockname()[:2], _MetricsHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handles the request in its own thread, or drops it if there are too many clients."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Frees the client's slot afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect."""


class _MetricsHandler(BaseHTTPRequestHandler):
    """One client."""

    server: _MetricsServer
    server_version = "kaput"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _STALLED_S

    def do_GET(self) -> None:
        names = self.headers.get_all("Host") or []
        if self.server.names is not None and [name.lower() for name in names][:2] not in self.server.names:
            self._answer(421, b"kaput: answered at 127.0.0.1, [::1] and localhost alone\n")
        elif self.path.partition("?")[0] == "/metrics":
            data, kind = self.server.exposition.text(self.headers.get("Accept", ""))
            self._answer(200, data, kind)
        elif self.path == "/":
            self._answer(200, b"kaput: see /metrics\n")
        else:
            self._answer(404, b"kaput: see /metrics\n")

    do_HEAD = do_GET

    def _answer(self, status: int, data: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Rejects methods other than GET and HEAD."""
        self.close_connection = True
        status = 405 if code == 501 else code
        text = f"kaput: only {_METHODS}\n" if status == 405 else f"kaput: {message or 'a bad request'}\n"
        self._answer(status, text.encode("ascii", "replace"))

    def log_message(self, format: str, *args: object) -> None:
        """Does nothing: stderr is for messages to the user."""


def _allowed_hosts(port: int) -> list[list[str]]:
    hosts = ("127.0.0.1", "localhost", "[::1]")
    return [[f"{host}:{port}"] for host in hosts] + ([[host] for host in hosts] if port == 80 else [])
