"""Runs a function in another process's network namespace, in a thread that enters it and then ends.

Sockets opened there belong to that namespace, whichever thread uses them later. Not through pyroute2's
`netns=`: that forks, and forking a process with threads may hang.
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


def run_in_netns(pid: int | None, action: Callable[[], _T], timeout_s: float = TIMEOUT_S) -> _T:
    """Returns what `action` returns when run in that process's network namespace (None: our own).

    Raises its exceptions, and LabError if the namespace cannot be entered or time runs out.
    """
    returned: list[_T] = []
    raised: list[BaseException] = []

    def go() -> None:
        try:
            if pid is not None:
                _enter(pid)
            returned.append(action())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            raised.append(error)

    # A daemon thread, so that an action that hangs does not keep kaput from ending.
    thread = threading.Thread(target=go, name="netns", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if raised:
        raise raised[0]
    if not returned:
        raise LabError(f"the kernel gave no answer about the network within {timeout_s:.0f} s")
    return returned[0]


def _enter(pid: int) -> None:
    """Moves the calling thread into the namespace, permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LabError(f"the network namespace of process {pid} cannot be entered: {error}") from None
