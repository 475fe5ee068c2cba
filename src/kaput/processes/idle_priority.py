"""Idle priority: a process runs only when a core is idle, until its result is needed.

Niceness cannot be undone: an unprivileged user may only raise it. Linux has two methods that can be undone:
the niceness of a process session (setsid, autogroups), which its user may reset to 0; and, where permitted,
the scheduling policy SCHED_IDLE of each thread. See sched(7). With autogroups, a thread's policy counts only
within its session.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

Method = Callable[[int, bool], None]  # (pid of the session leader, whether to lower its priority)

_BUSY_S = 1.0  # retries: the kernel permits ten changes of a session's niceness per second
_PASSES = 50
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


class IdlePriority:
    """The priority of one process and its descendants: idle from `lower` to `restore`. Thread-safe."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._lock = threading.Lock()
        self._restored, self._pid = False, 0

    @property
    def lowered(self) -> bool:
        """Whether a process has idle priority now."""
        with self._lock:
            return bool(self._pid) and not self._restored

    def lower(self, pid: int) -> None:
        """Lowers the process's priority, unless `restore` was called already."""
        with self._lock:
            self._pid = pid
            if not self._restored:
                self._method(pid, True)

    def restore(self) -> None:
        """Restores normal priority for good."""
        with self._lock:
            if not self._restored and self._pid:
                self._method(self._pid, False)
            self._restored = True


def find_method() -> Method | None:
    """The reversible method that works here; None if there is none."""
    if sys.platform != "linux":
        return None
    if _sessions_are_groups():
        return by_session
    return by_thread if _sched_idle_is_reversible() else None


def by_session(pid: int, lowered: bool) -> None:
    """Sets the niceness of a session, which its descendants share."""
    limit = time.monotonic() + _BUSY_S
    while True:
        try:
            (_PROC / str(pid) / "autogroup").write_text("19" if lowered else "0")
            return
        except (BlockingIOError, PermissionError):
            # PermissionError occurs briefly at its start, if its parent changed users.
            if time.monotonic() > limit:
                return
            time.sleep(0.02)
        except OSError:
            return  # it has ended


def by_thread(pid: int, lowered: bool) -> None:
    """Sets the policy of every thread of a process and its descendants, until no new ones appear."""
    for _ in range(_PASSES):
        # A pass without a change is the last: new threads inherit the policy of their parents.
        if not sum(_set_policy(tid, lowered) for tid in _threads(pid)):
            return


def _set_policy(tid: int, lowered: bool) -> bool:
    """Sets a thread's policy; returns whether it changed."""
    policy = os.SCHED_IDLE if lowered else os.SCHED_OTHER
    nice = os.getpriority(os.PRIO_PROCESS, os.getpid())
    with suppress(OSError):  # it has ended
        if os.sched_getscheduler(tid) == policy:
            return False
        os.sched_setscheduler(tid, policy, os.sched_param(0))
        if not lowered:
            os.setpriority(os.PRIO_PROCESS, tid, nice)
        return True
    return False


def _threads(pid: int) -> list[int]:
    pids = [pid]
    with suppress(psutil.Error):
        pids += [child.pid for child in psutil.Process(pid).children(recursive=True)]
    threads = []
    for each in pids:
        with suppress(OSError):
            threads += [int(task.name) for task in (_PROC / str(each) / "task").iterdir()]
    return threads


def _sessions_are_groups() -> bool:
    """Whether the kernel schedules by session, and no control group overrides that for this process."""
    try:
        if (_PROC / "sys/kernel/sched_autogroup_enabled").read_text().strip() != "1":
            return False
        groups = [line.split(":", 2) for line in (_PROC / "self/cgroup").read_text().splitlines()]
        for _, controllers, path in groups:
            if "cpu" in controllers.split(","):
                return path == "/"
        own = next((path for _, controllers, path in groups if not controllers), "/").strip("/")
        around = [_CGROUPS / own, *(_CGROUPS / own).parents]
        return not any((path / "cpu.weight").exists() for path in around)
    except (OSError, ValueError):
        return False


def _sched_idle_is_reversible() -> bool:
    """Tries it in a short-lived thread: inside a namespace, capabilities do not tell."""
    reverted = []

    def lower_and_restore() -> None:
        nothing = os.sched_param(0)
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, nothing)
            os.sched_setscheduler(0, os.SCHED_OTHER, nothing)
            reverted.append(True)

    thread = threading.Thread(target=lower_and_restore)
    thread.start()
    thread.join()
    return bool(reverted)
