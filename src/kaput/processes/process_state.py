"""The state of a process: whether it is stopped, and how much CPU time it has used."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil


def is_stopped(pid: int) -> bool:
    """Whether it is stopped, with all of its threads where the system shows them."""
    states = _thread_states(pid)
    if states:
        return states <= {"T", "t"}
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    return False


def cpu_seconds(pid: int) -> float | None:
    """CPU time that it has used since its start; None if it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _thread_states(pid: int) -> set[str]:
    """The states of all threads as Linux names them; empty on other systems."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # a thread may end while we look
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states
