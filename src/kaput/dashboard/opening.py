"""Opens the dashboard: checks the folder of runs, binds a socket on 127.0.0.1, lowers the priority.

This happens before the large imports, so that mistakes are reported at once, and an address works as soon as
it is printed.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from kaput.dashboard.safe_files import Runs
from kaput.errors import UsageError
from kaput.monitor import metrics_server
from kaput.monitor.metrics_server import ListenAddress

HOST = "127.0.0.1"
PORT = 8420
_AUTOGROUP = Path("/proc/self/autogroup")
_NICENESS = 10  # so that watching does not slow a run
_STALLED_MS = 20_000  # after which the kernel drops a connection whose browser reads nothing


def new_key() -> str:
    """A random key, which permits changes through the dashboard."""
    return secrets.token_urlsafe(24)


def bind(port: int) -> socket.socket:
    """A listening socket; port 0: any free port. Raises UsageError with advice."""
    bound = metrics_server.bind(ListenAddress(HOST, port), "--port", ", maybe by another dashboard")
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED_MS)
    return bound


def check_folder(runs: Path) -> Runs:
    """The folder of runs. Raises UsageError if it is not a readable folder of runs."""
    if not runs.is_dir():
        what = "is a file" if runs.exists() else "does not exist"
        raise UsageError(
            f"{runs}: {what}; --runs names the folder that run folders are in (kaput run makes it)"
        )
    if (runs / "manifest.json").is_file():
        raise UsageError(f"{runs}: is a run folder itself; name the folder that it is in ({runs.parent})")
    if not os.access(runs, os.R_OK | os.X_OK):
        raise UsageError(f"{runs}: cannot be read by this user")
    return Runs(runs)


def lower_priority() -> None:
    """Lowers this process below runs; of a session leader also its autogroup, by which Linux schedules."""
    with suppress(OSError):
        os.nice(_NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _AUTOGROUP.write_text(str(_NICENESS))


def restore_priority() -> None:
    """Restores the priority as far as permitted: any user may reset an autogroup, only root threads."""
    with suppress(OSError):
        _AUTOGROUP.write_text("0")
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 0)
