"""A dashboard beside a run, /metrics of it, or both: a process of its own, behind the run, that ends when the
run's process does.

It is started before kaput starts over in a network namespace (cluster/network/reexec.py), since browsers
are outside of that; the same process adopts it inside. The end of a pipe is what tells it to end, so that it
stays no longer than kaput, however that ends. It can do nothing to a run: it has a folder, and a socket.
Beside a standing cluster (kaput up) it is given a key, in its environment, which no other user can read:
who has it may change the cluster, and start runs.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from kaput.dashboard.opening import HOST, PORT, bind, step_back, step_forward
from kaput.errors import LabError, UsageError
from kaput.monitor import metrics_server
from kaput.monitor.metrics_server import ListenAddress
from kaput.processes.records import own_marker
from kaput.processes.signals import shielded

if TYPE_CHECKING:
    from kaput.dashboard.safe_files import Runs
    from kaput.dashboard.searches import Searches
    from kaput.dashboard.serving import DashboardServer
    from kaput.dashboard.starter import Starter

_MARK = "KAPUT_DASHBOARD"  # whose it is, its pid, our end of its pipe, its port, where /metrics is, its key
_KEY = "KAPUT_DASHBOARD_KEY"
_NONE = "-"
_PROGRAM = "kaput.cli.sidecar"  # which knows where searches are, and calls `serve`
_END_S = 10.0
_RUN_END_S = 30.0  # more, for a run that was started on a page: it cleans up first
METRICS = "--metrics"


@dataclass(frozen=True)
class Sidecar:
    """What runs beside this process. `port`: the dashboard's, 0 if there is none; `metrics`: its URL."""

    pid: int
    pipe: int
    port: int
    metrics: str | None = None
    key: str | None = None

    def control_room(self, cluster: str) -> str:
        """Where that cluster is to be seen, with the key."""
        return f"http://{HOST}:{self.port}/clusters/{cluster}#{self.key}"

    def live(self, name: str) -> str:
        """Where the run of that folder is to be watched."""
        return f"http://{HOST}:{self.port}/runs/{quote(name, safe='')}/live"

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """For as long as the block lasts this process may start over, and finds the dashboard again."""
        os.set_inheritable(self.pipe, True)
        found = (own_marker(), self.pid, self.pipe, self.port, self.metrics or _NONE, self.key or _NONE)
        os.environ[_MARK] = " ".join(map(str, found))
        try:
            yield
        finally:
            os.set_inheritable(self.pipe, False)
            os.environ.pop(_MARK, None)

    def end(self) -> None:
        """Tells it to end, which it does as soon as its browsers know the verdict; sees to it that it has."""
        os.close(self.pipe)
        if not self._gone(_END_S if self.key is None else _END_S + _RUN_END_S):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._gone(_END_S)

    def _gone(self, bound_s: float) -> bool:
        limit = time.monotonic() + bound_s
        while time.monotonic() < limit:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return True
            except ChildProcessError:
                return True
            time.sleep(0.02)
        return False


@contextmanager
def sidecar(
    runs: Path, *, dashboard: bool = True, metrics: ListenAddress | None = None, key: str | None = None
) -> Iterator[Sidecar]:
    """A dashboard over the folder of runs, which is made where it is missing, and its /metrics at an address
    of their own, until the block ends. `key`: who has it may change standing clusters and start runs; None:
    nobody may.

    Raises LabError where it cannot be started, UsageError where /metrics cannot be at that address.
    """
    try:
        found = _adopted() or _started(runs, dashboard, metrics, key)
    except OSError as error:
        raise LabError(f"the dashboard cannot be started: {error}") from None
    try:
        yield found
    finally:
        with shielded():
            found.end()


def _started(runs: Path, dashboard: bool, metrics: ListenAddress | None, key: str | None) -> Sidecar:
    runs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        measured = None if metrics is None else stack.enter_context(metrics_server.bind(metrics, METRICS))
        bound = stack.enter_context(_bound()) if dashboard else None
        stack.enter_context(shielded())
        given = [_NONE if each is None else str(each.fileno()) for each in (bound, measured)]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _PROGRAM, *given, str(runs.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[each.fileno() for each in (bound, measured) if each is not None],
            start_new_session=True,
            cwd="/",
            env=os.environ if key is None else {**os.environ, _KEY: key},
        )
        assert process.stdin is not None
        pipe = os.dup(process.stdin.fileno())
        process.stdin.close()
        process.returncode = 0  # it is waited for here, by its pid, also after kaput has started over
        port = 0 if bound is None else bound.getsockname()[1]
        url = None if measured is None else ListenAddress(*measured.getsockname()[:2]).url
        return Sidecar(process.pid, pipe, port, url, key)


def _adopted() -> Sidecar | None:
    """What this process had started before it started over."""
    marker, *numbers = os.environ.pop(_MARK, "").split(" ")
    if marker != own_marker() or len(numbers) != 5:
        return None
    pid, pipe, port = map(int, numbers[:3])
    metrics, key = (None if word == _NONE else word for word in numbers[3:])
    found = Sidecar(pid, pipe, port, metrics, key)
    os.set_inheritable(found.pipe, False)
    return found


def _bound() -> socket.socket:
    """On the port where people look for it, or on any: a run does not fail for that."""
    try:
        return bind(PORT)
    except UsageError:
        return bind(0)


def serve(searches: Callable[[Path], Searches]) -> None:
    """The process: serves the sockets and folder that it was given, until its stdin ends.

    `searches`: those that belong to a folder of runs.
    """
    key = os.environ.pop(_KEY, None)
    folder = Path(sys.argv[3])
    starter = None if key is None else _starter(folder)  # before this process steps back
    step_back()
    # Only the run's end ends it: a terminal that closes, and its Ctrl-C, are for the run.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ending = _Ending()
    from kaput.dashboard.safe_files import Runs

    dashboard, metrics = sys.argv[1:3]
    runs = Runs(folder)
    with nullcontext() if metrics == _NONE else _serving_metrics(runs, int(metrics)):
        if dashboard == _NONE:
            threading.Event().wait()  # _Ending ends it
        from kaput.dashboard.serving import server_of

        bound = socket.socket(fileno=int(dashboard))
        server = server_of(runs, bound, searches(folder), key, starter)
        ending.serves(server)
        server.run(sockets=[bound])
        ending.served.set()
    if starter is not None:
        starter.close()


def _starter(runs: Path) -> Starter:
    from kaput.dashboard.safe_files import Runs
    from kaput.dashboard.starter import Starter

    return Starter(Runs(runs))


def _serving_metrics(runs: Runs, descriptor: int) -> AbstractContextManager[ListenAddress]:
    from kaput.dashboard.run_metrics import RunsMetrics

    return metrics_server.serving(RunsMetrics(runs).exposition, socket.socket(fileno=descriptor))


class _Ending:
    """Reads stdin in a thread, and ends the server with it: at once, where there is none yet."""

    def __init__(self) -> None:
        self._server: DashboardServer | None = None
        self.served = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._wait, daemon=True).start()

    def serves(self, server: DashboardServer) -> None:
        """From now on there is one."""
        with self._lock:
            self._server = server

    def _wait(self) -> None:
        sys.stdin.buffer.read()
        # The run is over: what those who watch it wait for is nobody's burden any more.
        step_forward()
        with self._lock:
            if self._server is None:
                os._exit(0)
            self._server.end_with_a_last_word()
        if not self.served.wait(_END_S):
            os._exit(1)  # it hangs, and whoever it served is gone
