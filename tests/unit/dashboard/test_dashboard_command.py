"""`kaput dashboard` from the command line: its address, its mistakes, its end."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from driving import KAPUT
from fakes.run_folders import judged, made
from kaput.dashboard.opening import check_folder
from kaput.errors import UsageError
from waiting import PATIENCE_S


@contextmanager
def _started(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command with its port, once it has said that."""
    command = [*KAPUT, "dashboard", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            assert said.startswith("http://127.0.0.1:"), process.stderr and process.stderr.read()
            address, _, key = said.partition("/#")
            assert ("--read-only" in options) == (not key) and len(key) in (0, 32)
            yield process, int(address.strip("/").rpartition(":")[2])
        finally:
            process.kill()


def _status(port: int, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_dashboard_prints_its_address_and_ends_without_traceback(tmp_path: Path) -> None:
    """On the address that it printed, and on no other of this machine; Ctrl-C leaves no traceback."""
    judged(tmp_path, "a")
    with _started("--runs", str(tmp_path), "--port", "0") as (process, port):
        assert _status(port) == 200
        assert {one.laddr.ip for one in psutil.Process(process.pid).net_connections("inet")} == {"127.0.0.1"}
        assert psutil.Process(process.pid).nice() >= 10
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    assert stderr == f"kaput: serving {tmp_path}; Ctrl-C stops it\n"


def test_read_only_has_no_key(tmp_path: Path) -> None:
    """Which `_started` looks at; and it serves."""
    with _started("--runs", str(tmp_path), "--port", "0", "--read-only") as (_, port):
        assert _status(port) == 200


def test_dashboard_terminates_with_an_open_event_stream(tmp_path: Path) -> None:
    """A page that is open is no reason to stay."""
    made(tmp_path, "a", "recording")
    with _started("--runs", str(tmp_path), "--port", "0") as (process, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/runs/a/events")
        answer = connection.getresponse()
        assert answer.readline().startswith(b"data: {")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130 and "Traceback" not in stderr and "rror" not in stderr
        connection.close()


def _refused(*options: str) -> str:
    done = subprocess.run(
        [*KAPUT, "dashboard", *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = _refused("--runs", str(tmp_path), "--port", str(port))
    assert said.startswith(f"kaput: port {port} of 127.0.0.1 is in use") and "--port" in said


@pytest.mark.parametrize("name", ["missing", "file", "run"])
def test_path_that_is_no_runs_folder_is_rejected(tmp_path: Path, name: str) -> None:
    """Nothing there, a file, a run folder itself."""
    (tmp_path / "file").write_text("")
    judged(tmp_path, "run")
    with pytest.raises(UsageError) as said:
        check_folder(tmp_path / name)
    assert str(said.value).startswith(f"{tmp_path / name}: ") and "\n" not in str(said.value)
