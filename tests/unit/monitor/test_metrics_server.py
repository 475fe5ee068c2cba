"""/metrics on an address: what it answers, to whom, and what a mistake is told."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from kaput.errors import UsageError
from kaput.monitor.metrics_server import Exposition, ListenAddress, bind, listen_address, serving
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import Sample
from waiting import PATIENCE_S, eventually


def exposition() -> Exposition:
    series = SeriesTable()
    series.add([Sample("kaput_cluster_reachable", 1, 0)])
    return Exposition(lambda: [series])


@pytest.fixture
def where() -> Iterator[ListenAddress]:
    with serving(exposition(), bind(ListenAddress("127.0.0.1", 0), "--listen")) as address:
        yield address


def ask(
    where: ListenAddress,
    path: str = "/metrics",
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(where.host, where.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    finally:
        connection.close()


def test_serves_text_and_openmetrics(where: ListenAddress) -> None:
    status, kind, text = ask(where)
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert "kaput_cluster_reachable 1.0\n" in text
    _, kind, text = ask(where, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")


def test_only_get_and_head_are_allowed(where: ListenAddress) -> None:
    assert ask(where, method="HEAD")[0] == 200 and ask(where, method="HEAD")[2] == ""
    assert [ask(where, method=method)[0] for method in ("POST", "PUT", "DELETE")] == [405] * 3
    assert ask(where, "/")[0] == 200 and ask(where, "/etc/passwd")[0] == 404


def test_foreign_host_header_is_rejected(where: ListenAddress) -> None:
    assert ask(where, headers={"Host": f"evil.example:{where.port}"})[0] == 421
    assert ask(where, headers={"Host": f"localhost:{where.port}"})[0] == 200


def test_idle_connections_do_not_block_concurrent_scrapes(where: ListenAddress) -> None:
    """Clients that connect and are silent take no place from those that ask."""
    silent = [socket.create_connection((where.host, where.port)) for _ in range(10)]
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(where)[0])) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 10
    for connection in silent:
        connection.close()


def test_shutdown_closes_socket_and_threads() -> None:
    before = threading.active_count()
    with serving(exposition(), bind(ListenAddress("127.0.0.1", 0), "--listen")) as address:
        assert ask(address)[0] == 200
    assert eventually(lambda: threading.active_count() <= before)
    with socket.socket() as free, pytest.raises(ConnectionRefusedError):
        free.connect((address.host, address.port))


def test_shutdown_does_not_wait_for_open_connections() -> None:
    with serving(exposition(), bind(ListenAddress("127.0.0.1", 0), "--listen")) as address:
        held = socket.create_connection((address.host, address.port))
        began = time.monotonic()
    assert time.monotonic() - began < 60  # it is held for ever
    held.close()


def test_port_in_use_is_a_usage_error() -> None:
    with bind(ListenAddress("127.0.0.1", 0), "--listen") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is in use.*--metrics"):
            bind(ListenAddress("127.0.0.1", port), "--metrics")


def test_serves_on_ipv6() -> None:
    try:
        bound = bind(listen_address("[::1]:0", "--listen"), "--listen")
    except UsageError as why:
        pytest.skip(str(why))
    with serving(exposition(), bound) as address:
        assert address.url == f"http://[::1]:{address.port}/metrics" and address.is_local
        assert ask(address)[0] == 200


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("127.0.0.1:9187", ("127.0.0.1", 9187)),
        (":9187", ("127.0.0.1", 9187)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
    ],
)
def test_listen_address_is_parsed(text: str, wanted: tuple[str, int]) -> None:
    assert listen_address(text, "--listen") == wanted


@pytest.mark.parametrize(
    "text", ["", "9187", "127.0.0.1", "127.0.0.1:99999", "::1:9187", "http://x:1", "a b:1"]
)
def test_invalid_listen_address_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match=r"--listen .*write HOST:PORT"):
        listen_address(text, "--listen")


def test_only_loopback_addresses_are_local() -> None:
    local = {
        "127.0.0.1": True,
        "::1": True,
        "localhost": True,
        "0.0.0.0": False,
        "::": False,
        "10.0.0.1": False,
    }
    assert {host: ListenAddress(host, 1).is_local for host in local} == local
