"""A dashboard beside a run, its /metrics, or both: a separate low-priority process that ends with the run.

It is started before kaput re-executes itself in a network namespace (cluster/network/reexec.py), which
browsers cannot reach; the re-executed process adopts it. It ends when its stdin, a pipe from kaput, is
closed, so it never outlives kaput. It cannot affect a run: it only has a folder and a socket. Beside a
standing cluster (kaput up) it gets a key in its environment, which other users cannot read and which permits
changing the cluster and starting runs.
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

from kaput.dashboard.opening import HOST, PORT, bind, lower_priority, restore_priority
from kaput.dashboard.safe_files import Runs
from kaput.errors import LabError, UsageError
from kaput.monitor import metrics_server
from kaput.monitor.metrics_server import ListenAddress
from kaput.processes.records import own_marker
from kaput.processes.signals import shielded

if TYPE_CHECKING:
    from kaput.dashboard.app import DashboardServer
    from kaput.dashboard.searches import SearchFolder
    from kaput.dashboard.starter import Starter

_MARK = "KAPUT_DASHBOARD"  # marker of the owner, pid, our end of the pipe, port, URL of /metrics, key
_KEY = "KAPUT_DASHBOARD_KEY"
_NONE = "-"
_PROGRAM = "kaput.cli.sidecar"  # provides the searches, and calls `serve`
_END_S = 10.0
_RUN_END_S = 30.0  # in addition, for the cleanup of a run that was started from a page
METRICS = "--metrics"


@dataclass(frozen=True)
class Sidecar:
    """Its process, our end of the pipe, its port (0: no dashboard), the URL of /metrics, and the key."""

    pid: int
    pipe: int
    port: int
    metrics: str | None = None
    key: str | None = None

    def control_room(self, cluster: str) -> str:
        """The URL of a cluster's control room, with the key."""
        return f"http://{HOST}:{self.port}/clusters/{cluster}#{self.key}"

    def live(self, name: str) -> str:
        """The URL of a run's live page."""
        return f"http://{HOST}:{self.port}/runs/{quote(name, safe='')}/live"

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Within the block, this process may re-execute itself and adopt the sidecar again."""
        os.set_inheritable(self.pipe, True)
        words = (own_marker(), self.pid, self.pipe, self.port, self.metrics or _NONE, self.key or _NONE)
        os.environ[_MARK] = " ".join(map(str, words))
        try:
            yield
        finally:
            os.set_inheritable(self.pipe, False)
            os.environ.pop(_MARK, None)

    def end(self) -> None:
        """Ends the sidecar, which first waits until its browsers have the verdict; kills it if it hangs."""
        os.close(self.pipe)
        if not self._exited(_END_S if self.key is None else _END_S + _RUN_END_S):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._exited(_END_S)

    def _exited(self, bound_s: float) -> bool:
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
    """A dashboard for the folder of runs (created if missing), and /metrics at an address of its own, until
    the block ends. `key`: permits changing standing clusters and starting runs; None: read-only. Raises
    LabError if it cannot be started, UsageError if the address of /metrics cannot be used.
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
        process.returncode = 0  # `end` waits for it by pid, even after kaput re-executed itself
        port = 0 if bound is None else bound.getsockname()[1]
        url = None if measured is None else ListenAddress(*measured.getsockname()[:2]).url
        return Sidecar(process.pid, pipe, port, url, key)


def _adopted() -> Sidecar | None:
    """The sidecar that this process started before it re-executed itself."""
    marker, *numbers = os.environ.pop(_MARK, "").split(" ")
    if marker != own_marker() or len(numbers) != 5:
        return None
    pid, pipe, port = map(int, numbers[:3])
    metrics, key = (None if word == _NONE else word for word in numbers[3:])
    found = Sidecar(pid, pipe, port, metrics, key)
    os.set_inheritable(found.pipe, False)
    return found


def _bound() -> socket.socket:
    """A socket on the default port, or on any free port: a run must not fail over that."""
    try:
        return bind(PORT)
    except UsageError:
        return bind(0)


def serve(searches: Callable[[Path], SearchFolder]) -> None:
    """Serves the sockets and folder of sys.argv until stdin ends. `searches`: finds those of a folder."""
    key = os.environ.pop(_KEY, None)
    folder = Path(sys.argv[3])
    starter = None if key is None else _starter(folder)  # before this process lowers its priority
    lower_priority()
    # Only the end of the run ends it: Ctrl-C and a closed terminal are for the run.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ending = _Ending()
    dashboard, metrics = sys.argv[1:3]
    runs = Runs(folder)
    with nullcontext() if metrics == _NONE else _serving_metrics(runs, int(metrics)):
        if dashboard == _NONE:
            threading.Event().wait()  # _Ending ends it
        from kaput.dashboard.app import server_of

        bound = socket.socket(fileno=int(dashboard))
        server = server_of(runs, bound, searches(folder), key, starter)
        ending.serves(server)
        server.run(sockets=[bound])
        ending.served.set()
    if starter is not None:
        starter.close()


def _starter(runs: Path) -> Starter:
    from kaput.dashboard.starter import Starter

    return Starter(Runs(runs))


def _serving_metrics(runs: Runs, descriptor: int) -> AbstractContextManager[ListenAddress]:
    from kaput.dashboard.run_metrics import FolderMetrics

    return metrics_server.serving(FolderMetrics(runs).exposition, socket.socket(fileno=descriptor))


class _Ending:
    """Waits in a thread for the end of stdin, then ends the server, or the process if there is no server."""

    def __init__(self) -> None:
        self._server: DashboardServer | None = None
        self.served = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._wait, daemon=True).start()

    def serves(self, server: DashboardServer) -> None:
        """Sets the server to end."""
        with self._lock:
            self._server = server

    def _wait(self) -> None:
        sys.stdin.buffer.read()
        # The run is over, so the low priority is no longer needed.
        restore_priority()
        with self._lock:
            if self._server is None:
                os._exit(0)
            self._server.end_after_verdict()
        if not self.served.wait(_END_S):
            os._exit(1)  # the server hangs, and the run is over
