"""Where the dashboard is: the folder of runs, and a socket on 127.0.0.1.

Checked and bound before anything large is loaded: a mistake is reported at once, and an address that is
printed answers.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from kaput.dashboard.safe_files import Runs
from kaput.errors import UsageError

HOST = "127.0.0.1"
PORT = 8420
_AUTOGROUP = Path("/proc/self/autogroup")
_BEHIND = 10  # niceness: who looks on does not slow a run
_STALLED_MS = 20_000  # after which the kernel drops a browser that takes nothing


def new_key() -> str:
    """Whoever has it may change things on a dashboard."""
    return secrets.token_urlsafe(24)


def bind(port: int) -> socket.socket:
    """The socket; port 0 is any that is free. Raises UsageError with what to do."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED_MS)
        bound.bind((HOST, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise UsageError(_cannot(port, error)) from None
    return bound


def _cannot(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {HOST} is in use, maybe by another dashboard; choose one with --port (0: any)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} of {HOST} may not be used by this user; choose one with --port (0: any)"
    return f"port {port} of {HOST} cannot be used ({error.strerror}); choose one with --port (0: any)"


def check_folder(runs: Path) -> Runs:
    """The folder of runs. Raises UsageError where it is none."""
    if not runs.is_dir():
        what = "is a file" if runs.exists() else "is not there"
        raise UsageError(
            f"{runs}: {what}; --runs names the folder that run folders are in (kaput run makes it)"
        )
    if (runs / "manifest.json").is_file():
        raise UsageError(f"{runs}: is a run folder itself; name the folder that it is in ({runs.parent})")
    if not os.access(runs, os.R_OK | os.X_OK):
        raise UsageError(f"{runs}: cannot be read by this user")
    return Runs(runs)


def step_back() -> None:
    """Behind every run, from now on; as a session of its own also where the kernel groups by sessions."""
    with suppress(OSError):
        os.nice(_BEHIND)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            _AUTOGROUP.write_text(str(_BEHIND))


def step_forward() -> None:
    """Among all others again, as far as that is permitted: what a session of one's own was given may be taken
    back, what a thread was by root alone.
    """
    with suppress(OSError):
        _AUTOGROUP.write_text("0")
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 0)
