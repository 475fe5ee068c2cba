"""Doing something in another process's network namespace: a thread goes there, does it, and ends.

What it opens there (sockets) stays there, whoever uses it later. Not through pyroute2's `netns=`: that
forks, and the fork of a process with threads may hang.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from kaput.errors import LabError

TIMEOUT_S = 10.0
_CLONE_NEWNET = 0x40000000
_T = TypeVar("_T")


def visit(pid: int | None, action: Callable[[], _T], timeout_s: float = TIMEOUT_S) -> _T:
    """What `action` returns, done in the network namespace of this process (None: in our own).

    Raises what it raises, and LabError where the namespace cannot be visited or the time is up.
    """
    returned: list[_T] = []
    raised: list[BaseException] = []

    def go() -> None:
        try:
            if pid is not None:
                _enter(pid)
            returned.append(action())
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            raised.append(error)

    # A daemon, so that a visit that never ends does not keep kaput from ending.
    thread = threading.Thread(target=go, name="visit-namespace", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if raised:
        raise raised[0]
    if not returned:
        raise LabError(f"the kernel gave no answer about the network within {timeout_s:.0f} s")
    return returned[0]


def _enter(pid: int) -> None:
    """The calling thread alone, and for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LabError(f"the network namespace of process {pid} cannot be visited: {error}") from None
