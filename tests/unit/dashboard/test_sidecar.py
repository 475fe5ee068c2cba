"""A dashboard next to a run: there at once, adopted over an exec, and gone with its process."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from fakes.run_folders import Producer, judged, made, now_ns
from kaput.dashboard.sidecar import Sidecar, sidecar
from kaput.errors import UsageError
from kaput.monitor.metrics_server import ListenAddress
from waiting import PATIENCE_S, eventually

# A process as `kaput run --dashboard` is, that starts over once, as in a network namespace.
_RUN = """
import os, sys, time
from pathlib import Path
from kaput.dashboard.sidecar import sidecar
with sidecar(Path(sys.argv[1])) as shown:
    if len(sys.argv) == 2:
        with shown.handed_over():
            os.execv(sys.executable, [sys.executable, "-c", os.environ["PROGRAM"], sys.argv[1], "again"])
    print(os.getpid(), shown.pid, shown.port, os.environ.get("KAPUT_DASHBOARD"), flush=True)
    sys.stdin.readline()
"""


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def _left(session: int) -> list[int]:
    """The processes of a session that are not over. (Its port says nothing: others are given it next.)"""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that this one kills: none that ends in good order, however busy the machine is."""
    killed: list[int] = []
    kill = os.kill

    def noted(pid: int, number: int) -> None:
        killed.extend([pid] if number else [])  # 0: somebody asks whether it is there
        kill(pid, number)

    monkeypatch.setattr(os, "kill", noted)
    monkeypatch.setattr("kaput.dashboard.sidecar._END_S", float(PATIENCE_S))
    return killed


def test_sidecar_lives_as_long_as_its_context(tmp_path: Path, kills: list[int]) -> None:
    """Over a folder that is made for it; behind the run, and in a session of its own; it ends by itself."""
    with sidecar(tmp_path / "runs") as shown:
        judged(tmp_path / "runs", "a")
        assert _status(shown.port) == 200
        assert psutil.Process(shown.pid).nice() >= 10 and os.getsid(shown.pid) == shown.pid
        assert shown.live("a b") == f"http://127.0.0.1:{shown.port}/runs/a%20b/live"
    assert not psutil.pid_exists(shown.pid) and _left(shown.pid) == []
    assert kills == []


_FORWARD = """
import os, threading, time
from pathlib import Path
from kaput.dashboard.opening import lower_priority, restore_priority
def told():
    threads = [os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in Path("/proc/self/task").iterdir()]
    return threads, Path("/proc/self/autogroup").read_text().split()[-1]
os.setsid()
lower_priority()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(told())
restore_priority()
print(told())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root gets back what his session was given alone")
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="a kernel without sessions as groups")
def test_sidecar_raises_its_priority_for_the_verdict() -> None:
    """Each of its threads, and its session."""
    said = subprocess.run([sys.executable, "-c", _FORWARD], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["([10, 10], '10')", "([0, 0], '0')"]


def test_unneeded_sidecar_ends_by_itself(tmp_path: Path, kills: list[int]) -> None:
    """It ends by itself, however little of it was there by then."""
    with sidecar(tmp_path) as shown:
        pass
    assert not psutil.pid_exists(shown.pid) and kills == []


# The process, whose libraries are never loaded to the end.
_STARTING = """
import sys, time
class Never:
    def find_spec(self, name, *_):
        if name == "kaput.dashboard.app":
            print("loading", flush=True)
            time.sleep(600)
sys.meta_path.insert(0, Never())
from kaput.dashboard.sidecar import serve
serve(lambda folder: None)
"""


def test_starting_sidecar_ends_at_once_with_its_run(tmp_path: Path) -> None:
    """When its run ends while it loads its libraries, it does not load them to the end first."""
    command = [sys.executable, "-c", _STARTING, "0", "-", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == b"loading\n"
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def test_hanging_sidecar_is_killed(tmp_path: Path, kills: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped, it cannot see its end coming."""
    monkeypatch.setattr("kaput.dashboard.sidecar._END_S", 1.0)
    with sidecar(tmp_path) as shown:
        os.kill(shown.pid, signal.SIGSTOP)
    assert not psutil.pid_exists(shown.pid) and kills == [shown.pid, shown.pid]


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(None, marks=pytest.mark.long)])
def test_sidecar_survives_an_exec_and_ends_with_its_process(tmp_path: Path, number: int | None) -> None:
    """Killed, or in good order; what that process starts knows nothing of it."""
    command = [sys.executable, "-c", _RUN, str(tmp_path)]
    environment = {**os.environ, "PROGRAM": _RUN}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        pid, dashboard, port, mark = process.stdout.readline().split()
        assert int(pid) == process.pid and mark == "None"
        assert psutil.Process(int(dashboard)).ppid() == process.pid
        assert _status(int(port)) == 200
        if number is None:
            process.communicate("\n", timeout=PATIENCE_S)
        else:
            process.send_signal(number)
        assert eventually(lambda: not _left(int(dashboard)))


def test_run_starter_ends_with_its_sidecar(tmp_path: Path) -> None:
    """With a key, as next to a standing cluster; without one nothing is there to start a run."""
    with sidecar(tmp_path) as shown:
        assert _status(shown.port) == 200
        assert psutil.Process(shown.pid).children() == []
    for killed in (True, False):
        with sidecar(tmp_path, key="of this test") as shown:
            assert _status(shown.port) == 200
            (starter,) = psutil.Process(shown.pid).children()
            assert "kaput.processes.starting" in starter.cmdline()
            assert starter.nice() == psutil.Process().nice()
            if killed:
                os.kill(shown.pid, signal.SIGKILL)
        assert eventually(lambda starter=starter: not starter.is_running())  # type: ignore[misc]


def test_sidecar_of_another_process_is_not_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kaput that is started by a kaput has a dashboard of its own."""
    monkeypatch.setenv("KAPUT_DASHBOARD", "1-99 1 5 80")
    with sidecar(tmp_path) as shown:
        assert isinstance(shown, Sidecar) and shown.port != 80


def _metrics(url: str) -> str:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("dashboard", [True, False])
def test_metrics_are_served_with_or_without_a_dashboard(
    tmp_path: Path, kills: list[int], dashboard: bool
) -> None:
    """At an address of their own; both are gone with the block."""
    address = ListenAddress("127.0.0.1", 0)
    with sidecar(tmp_path, dashboard=dashboard, metrics=address) as shown:
        folder = made(tmp_path, "a", "recording", started_ns=now_ns())
        producer = Producer(folder)
        producer.send(3, now_ns())
        assert shown.metrics is not None
        assert 'kaput_messages_sent_total{partition="",run="a",topic=""} 3.0' in _metrics(shown.metrics)
        assert (_status(shown.port) == 200) if dashboard else shown.port == 0
        producer.close()
    assert not psutil.pid_exists(shown.pid) and _left(shown.pid) == []
    assert kills == []


def test_metrics_port_in_use_is_a_usage_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = ListenAddress(*taken.getsockname())
        asked = sidecar(tmp_path, dashboard=False, metrics=address)
        with pytest.raises(UsageError, match="in use; choose another one with --metrics"), asked:
            pass
