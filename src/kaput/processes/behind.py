"""A process kept behind the others: it runs when a core has nothing else to do, until it is waited for.

Niceness is a way in and not out: who is not privileged may raise it only. Two ways on Linux lead back:
a session of processes (setsid) has a niceness of its own, which its user may lower to 0 again; and, for
whom that is permitted, the policy SCHED_IDLE of each thread. See sched(7).
Where sessions are scheduled as groups, what a thread is given counts within its session alone.
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

Way = Callable[[int, bool], None]  # the leader of a session of processes, and whether it goes behind

_BUSY_S = 1.0  # for how long a session's niceness, which is changed ten times a second, is tried
_PASSES = 50
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


class Behind:
    """One process with all that it starts, behind from `take` to `forward`. For several threads."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._lock = threading.Lock()
        self._forward, self._pid = False, 0

    @property
    def kept(self) -> bool:
        """Whether a process is kept behind now."""
        with self._lock:
            return bool(self._pid) and not self._forward

    def take(self, pid: int) -> None:
        """Puts it behind, as soon as it has started, unless it is waited for already."""
        with self._lock:
            self._pid = pid
            if not self._forward:
                self._way(pid, True)

    def forward(self) -> None:
        """Puts it where every process is, for good."""
        with self._lock:
            if not self._forward and self._pid:
                self._way(self._pid, False)
            self._forward = True


def find_way() -> Way | None:
    """The way that leads back here, if there is one."""
    if sys.platform != "linux":
        return None
    if _sessions_are_groups():
        return by_session
    return by_thread if _idle_leads_back() else None


def by_session(pid: int, behind: bool) -> None:
    """The niceness of a session: all that it starts goes with it."""
    limit = time.monotonic() + _BUSY_S
    while True:
        try:
            (_PROC / str(pid) / "autogroup").write_text("19" if behind else "0")
            return
        except (BlockingIOError, PermissionError):
            # The second for a moment in its start, where whoever starts it has changed users.
            if time.monotonic() > limit:
                return
            time.sleep(0.02)
        except OSError:
            return  # it has ended


def by_thread(pid: int, behind: bool) -> None:
    """The policy of every thread of a process and of its descendants, as long as there are new ones."""
    for _ in range(_PASSES):
        # After a pass without a change all are done: who was listed already had what he hands on.
        if not sum(_put(tid, behind) for tid in _threads(pid)):
            return


def _put(tid: int, behind: bool) -> bool:
    """Whether there was anything to do."""
    policy = os.SCHED_IDLE if behind else os.SCHED_OTHER
    nice = os.getpriority(os.PRIO_PROCESS, os.getpid())
    with suppress(OSError):  # it has ended
        if os.sched_getscheduler(tid) == policy:
            return False
        os.sched_setscheduler(tid, policy, os.sched_param(0))
        if not behind:
            os.setpriority(os.PRIO_PROCESS, tid, nice)
        return True
    return False


def _threads(pid: int) -> list[int]:
    pids = [pid]
    with suppress(psutil.Error):
        pids += [child.pid for child in psutil.Process(pid).children(recursive=True)]
    found = []
    for each in pids:
        with suppress(OSError):
            found += [int(task.name) for task in (_PROC / str(each) / "task").iterdir()]
    return found


def _sessions_are_groups() -> bool:
    """Whether the kernel groups by session, and nobody else has grouped this process by a control group."""
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


def _idle_leads_back() -> bool:
    """Tried by a thread that ends at once: capabilities in a namespace tell less than a try."""
    back = []

    def go_and_return() -> None:
        nothing = os.sched_param(0)
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, nothing)
            os.sched_setscheduler(0, os.SCHED_OTHER, nothing)
            back.append(True)

    thread = threading.Thread(target=go_and_return)
    thread.start()
    thread.join()
    return bool(back)
