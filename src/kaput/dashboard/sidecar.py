"""A dashboard beside a run: a process of its own, behind the run, that ends when the run's process does.

It is started before kaput starts over in a network namespace (cluster/network/reexec.py), since browsers
are outside of that; the same process adopts it inside. The end of a pipe is what tells it to end, so that it
stays no longer than kaput, however that ends. It can do nothing to the run: it has a folder, and a socket.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from kaput.dashboard.opening import HOST, PORT, bind, step_back, step_forward
from kaput.errors import LabError, UsageError
from kaput.processes.records import own_marker
from kaput.processes.signals import shielded

if TYPE_CHECKING:
    from kaput.dashboard.serving import DashboardServer

_MARK = "KAPUT_DASHBOARD"  # whose it is, its pid, our end of its pipe, its port
_END_S = 10.0


@dataclass(frozen=True)
class Sidecar:
    """A dashboard that runs beside this process."""

    pid: int
    pipe: int
    port: int

    def live(self, name: str) -> str:
        """Where the run of that folder is to be watched."""
        return f"http://{HOST}:{self.port}/runs/{quote(name, safe='')}/live"

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """For as long as the block lasts this process may start over, and finds the dashboard again."""
        os.set_inheritable(self.pipe, True)
        os.environ[_MARK] = f"{own_marker()} {self.pid} {self.pipe} {self.port}"
        try:
            yield
        finally:
            os.set_inheritable(self.pipe, False)
            os.environ.pop(_MARK, None)

    def end(self) -> None:
        """Tells it to end, which it does as soon as its browsers know the verdict; sees to it that it has."""
        os.close(self.pipe)
        if not self._gone(_END_S):
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
def sidecar(runs: Path) -> Iterator[Sidecar]:
    """A dashboard over the folder of runs, which is made where it is missing, until the block ends.

    Raises LabError where it cannot be started.
    """
    try:
        found = _adopted() or _started(runs)
    except OSError as error:
        raise LabError(f"the dashboard cannot be started: {error}") from None
    try:
        yield found
    finally:
        with shielded():
            found.end()


def _started(runs: Path) -> Sidecar:
    runs.mkdir(parents=True, exist_ok=True)
    with _bound() as bound, shielded():
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kaput.dashboard.sidecar", str(bound.fileno()), str(runs.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[bound.fileno()],
            start_new_session=True,
            cwd="/",
        )
        assert process.stdin is not None
        pipe = os.dup(process.stdin.fileno())
        process.stdin.close()
        process.returncode = 0  # it is waited for here, by its pid, also after kaput has started over
        return Sidecar(process.pid, pipe, bound.getsockname()[1])


def _adopted() -> Sidecar | None:
    """What this process had started before it started over."""
    marker, *numbers = os.environ.pop(_MARK, "").split(" ")
    if marker != own_marker() or len(numbers) != 3:
        return None
    found = Sidecar(*map(int, numbers))
    os.set_inheritable(found.pipe, False)
    return found


def _bound() -> socket.socket:
    """On the port where people look for it, or on any: a run does not fail for that."""
    try:
        return bind(PORT)
    except UsageError:
        return bind(0)


def main() -> None:
    """The process: serves the socket and folder that it was given, until its stdin ends."""
    step_back()
    # Only the run's end ends it: a terminal that closes, and its Ctrl-C, are for the run.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ending = _Ending()
    from kaput.dashboard.safe_files import Runs
    from kaput.dashboard.serving import server_of

    bound = socket.socket(fileno=int(sys.argv[1]))
    server = server_of(Runs(Path(sys.argv[2])), bound)
    ending.serves(server)
    server.run(sockets=[bound])


class _Ending:
    """Reads stdin in a thread, and ends the server with it: at once, where there is none yet."""

    def __init__(self) -> None:
        self._server: DashboardServer | None = None
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
        time.sleep(_END_S)
        os._exit(1)  # it hangs, and whoever it served is gone


if __name__ == "__main__":
    main()
