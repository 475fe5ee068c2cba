"""`kaput metrics` from the command line: its address, its mistakes, its end, without any broker."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from driving import KAPUT
from fakes.called import called
from waiting import PATIENCE_S, eventually

DEAD = ("--bootstrap-servers", "127.0.0.1:1")


def call(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KAPUT, "metrics", *options], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command with its port, once it has printed that."""
    command = [*KAPUT, "metrics", *DEAD, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:") and url.endswith("/metrics"), url
            yield process, int(url.removesuffix("/metrics").rpartition(":")[2])
        finally:
            process.kill()


def scraped(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_exporter_starts_without_brokers_and_reports_unreachable() -> None:
    """On the address that it printed and no other; Ctrl-C leaves no traceback."""
    with started("--listen", "127.0.0.1:0") as (process, port):
        assert eventually(lambda: "kaput_cluster_reachable 0.0\n" in scraped(port))
        assert "kaput_last_poll_age_seconds " in scraped(port)
        listening = [
            one for one in psutil.Process(process.pid).net_connections("inet") if one.status == "LISTEN"
        ]
        assert {(one.laddr.ip, one.laddr.port) for one in listening} == {("127.0.0.1", port)}
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    assert stderr == "kaput: 127.0.0.1:1: Connection refused\n", "once, however many polls"


def test_it_ends_after_the_time_that_it_was_given() -> None:
    began = time.monotonic()
    done = call(*DEAD, "--listen", "127.0.0.1:0", "--for", "1s")
    assert done.returncode == 0 and time.monotonic() - began >= 1


def test_port_in_use_is_a_usage_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = call(*DEAD, "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 2
    assert done.stderr == (
        f"kaput: port {port} of 127.0.0.1 is in use; choose another one with --listen (port 0: any)\n"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "nowhere"), "--listen nowhere: write HOST:PORT"),
        (("--every", "soon"), "--every soon: "),
        (("--timeout", "0s"), "--timeout 0s: "),
        (("--for", "0s"), "--for 0s: "),
        (("--bootstrap-servers", "nonsense"), "'nonsense' is not HOST:PORT"),
    ],
)
def test_invalid_options_are_rejected(
    options: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = called(["metrics", *DEAD, *options], monkeypatch, capsys)
    assert done.status == 2 and words in done.stderr and done.stdout == ""


def test_once_needs_a_cluster_that_answers() -> None:
    done = call(*DEAD, "--once")
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr == (
        "kaput: 127.0.0.1:1 cannot be reached: Connection refused; "
        "check that a broker runs there, and that this machine may connect to it\n"
    ), "once"


def test_grafana_dashboard_is_printed_without_a_cluster() -> None:
    done = call("--grafana")
    assert done.returncode == 0 and json.loads(done.stdout)["uid"] == "kaput-signals"
