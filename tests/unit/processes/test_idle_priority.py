"""A process behind the others gets what they leave, and all of it again after it has come forward."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kaput.processes.idle_priority import IdlePriority, by_session, by_thread, find_method
from waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scheduling as Linux does it")
_BUSY = "while True: pass"
# Threads and a child, before and after it is put behind.
_MANY = """
import subprocess, sys, threading, time
def more():
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
    sleeper = [sys.executable, "-c", "import time; time.sleep(300)"]
    print(subprocess.Popen(sleeper).pid, flush=True)
more()
input()
more()
time.sleep(300)
"""


def _autogroups() -> bool:
    path = Path("/proc/self/autogroup")
    return path.exists() and path.read_text().startswith("/autogroup")


def _niceness(pid: int) -> int:
    return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])


@pytest.fixture
def many() -> Iterator[subprocess.Popen[str]]:
    """A process with a session of its own, three threads and a child; a line on stdin doubles that."""
    process = subprocess.Popen(
        [sys.executable, "-c", _MANY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    process.kill()
    process.communicate()


def _double(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


def _policies(pid: int) -> list[tuple[int, int]]:
    """Policy and niceness of every thread of the process and of its children."""
    pids = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    tids = [int(task.name) for each in pids for task in Path(f"/proc/{each}/task").iterdir()]
    return [(os.sched_getscheduler(tid), os.getpriority(os.PRIO_PROCESS, tid)) for tid in tids]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="the policy leads back for root")
def test_every_thread_is_lowered_and_restored(many: subprocess.Popen[str]) -> None:
    """Those that were made meanwhile as well, and in every process."""
    lowered = IdlePriority(by_thread)
    assert not lowered.lowered
    lowered.lower(many.pid)
    assert lowered.lowered
    assert {policy for policy, _ in _policies(many.pid)} == {os.SCHED_IDLE}
    _double(many)
    assert [policy for policy, _ in _policies(many.pid)] == [os.SCHED_IDLE] * 9
    lowered.restore()
    assert not lowered.lowered
    assert _policies(many.pid) == [(os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))] * 9


@pytest.mark.skipif(not _autogroups(), reason="a kernel without sessions as groups")
def test_unprivileged_user_can_lower_and_restore_a_session() -> None:
    """In a process that has given up all privileges: where niceness itself would not lead back."""
    if (child := os.fork()) == 0:
        os._exit(_as_nobody())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _as_nobody() -> int:
    try:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        with subprocess.Popen(["/bin/sleep", "300"], cwd="/", start_new_session=True) as sleeper:
            try:
                lowered = IdlePriority(by_session)
                lowered.lower(sleeper.pid)
                there = _niceness(sleeper.pid)
                lowered.restore()
                sys.stderr.write(f"{there}, {_niceness(sleeper.pid)}")
                return 0 if (there, _niceness(sleeper.pid)) == (19, 0) else 1
            finally:
                sleeper.kill()
    except BaseException:  # noqa: BLE001
        return 2


def test_restored_or_ended_process_is_not_lowered(many: subprocess.Popen[str]) -> None:
    """Whoever comes forward before he has started stays there; one that has ended is nobody's trouble."""
    went: list[tuple[int, bool]] = []
    lowered = IdlePriority(lambda pid, back: went.append((pid, back)))
    lowered.restore()
    lowered.lower(many.pid)
    assert went == [] and not lowered.lowered
    ended = subprocess.Popen(["true"], start_new_session=True)
    ended.wait()
    for way in (by_session, by_thread):
        late = IdlePriority(way)
        late.lower(ended.pid)
        late.restore()


@pytest.mark.skipif(find_method() is None, reason="no way leads back here")
def test_lowered_process_yields_the_core_until_restored() -> None:
    """Two busy processes on one core: CPU seconds, whatever the policies are called."""
    way = find_method()
    assert way is not None
    first, second = _busy(), _busy()
    try:
        lowered = IdlePriority(way)
        lowered.lower(second.pid)
        assert _meanwhile(first.pid, second.pid) < 0.2
        lowered.restore()
        assert _meanwhile(first.pid, second.pid) > 0.6
    finally:
        _end(first)
        _end(second)


def _busy() -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", _BUSY], text=True, start_new_session=True)
    os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
    return process


def _meanwhile(pid: int, other: int) -> float:
    """CPU seconds of `other` while `pid` gets one."""
    before, limit = (_cpu_s(pid), _cpu_s(other)), time.monotonic() + PATIENCE_S
    while _cpu_s(pid) < before[0] + 1:
        assert time.monotonic() < limit, "the busy process does not run"
        threading.Event().wait(0.02)
    return _cpu_s(other) - before[1]


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
