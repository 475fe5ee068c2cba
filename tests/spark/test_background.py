"""The session that starts behind a load: what its JVM is given, and that nothing of it is ever left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kaput.processes.idle_priority import by_session, find_method
from kaput.processes.records import start_of
from waiting import PATIENCE_S, wait_for

WAITING = Path(__file__).with_name("behind_load.py")


class Waiting:
    """The running script, with temporary files and a registry of its own."""

    def __init__(self, way: str, directory: Path) -> None:
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        env = {**os.environ, "TMPDIR": str(self.scratch), "XDG_STATE_HOME": str(directory / "state")}
        self.errors = directory / "stderr"
        with self.errors.open("wb") as errors:
            self.popen = subprocess.Popen(
                [sys.executable, str(WAITING), way],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=env,
            )

    def said(self) -> str:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline().strip()
        assert line, self.errors.read_text()
        return line

    def go_on(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def ended(self) -> int:
        return self.popen.wait(PATIENCE_S)


@pytest.fixture
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Waiting]:
    """The script, with the way in which the JVM lowers its priority."""
    started = Waiting(request.param, tmp_path)
    yield started
    started.popen.kill()
    started.popen.communicate()


def _of_threads(pid: int, ask: Callable[[int], int]) -> set[int]:
    """What every thread of a process and of its descendants answers; one that ends meanwhile is none."""
    pids = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    found = set()
    for each in pids:
        with suppress(OSError):
            tids = [int(task.name) for task in Path(f"/proc/{each}/task").iterdir()]
            for tid in tids:
                with suppress(ProcessLookupError):
                    found.add(ask(tid))
    return found


def _sessions(pid: int) -> set[int]:
    return {os.getsid(tid) for tid in [pid, *(c.pid for c in psutil.Process(pid).children(recursive=True))]}


@pytest.mark.alone  # behind, it gets nothing done while others work
@pytest.mark.skipif(find_method() is not by_session, reason="sessions are not scheduled as groups here")
@pytest.mark.parametrize("waiting", ["found"], indirect=True)
def test_jvm_session_has_low_priority_until_needed(waiting: Waiting) -> None:
    """And Python's workers, which the rehearsal has made, are in that session."""
    jvm = int(waiting.said())
    assert Path(f"/proc/{jvm}/autogroup").read_text().endswith("nice 19\n")
    assert waiting.said() == "ready"
    assert len(psutil.Process(jvm).children(recursive=True)) > 0
    assert _sessions(jvm) == {jvm}
    assert Path(f"/proc/{jvm}/autogroup").read_text().endswith("nice 19\n")
    waiting.go_on()
    assert waiting.said() == "10"
    assert Path(f"/proc/{jvm}/autogroup").read_text().endswith("nice 0\n")
    _goes(waiting, jvm)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="the policy leads back for root")
@pytest.mark.parametrize("waiting", ["by_thread"], indirect=True)
def test_jvm_and_worker_threads_have_low_priority_until_needed(waiting: Waiting) -> None:
    """Those of the workers as well, and none is left with a low priority afterwards."""
    jvm = int(waiting.said())
    assert _of_threads(jvm, os.sched_getscheduler) == {os.SCHED_IDLE}
    assert waiting.said() == "ready"
    assert len(psutil.Process(jvm).children(recursive=True)) > 0
    assert _of_threads(jvm, os.sched_getscheduler) == {os.SCHED_IDLE}
    waiting.go_on()
    assert waiting.said() == "10"
    assert _of_threads(jvm, os.sched_getscheduler) == {os.SCHED_OTHER}
    own = os.getpriority(os.PRIO_PROCESS, waiting.popen.pid)
    assert _of_threads(jvm, lambda tid: os.getpriority(os.PRIO_PROCESS, tid)) == {own}
    _goes(waiting, jvm)


@pytest.mark.parametrize("waiting", ["none"], indirect=True)
def test_jvm_starts_on_demand_if_priority_cannot_be_restored(waiting: Waiting) -> None:
    """No JVM while there is load."""
    assert waiting.said() == "prepared"
    waiting.go_on()
    jvm = int(waiting.said())
    assert waiting.said() == "10"
    _goes(waiting, jvm)


def _goes(waiting: Waiting, jvm: int) -> None:
    waiting.go_on()
    assert waiting.ended() == 0, waiting.errors.read_text()
    _is_gone(waiting, jvm)


def _is_gone(waiting: Waiting, jvm: int) -> None:
    wait_for(lambda: start_of(jvm) is None, "the JVM's end", PATIENCE_S)
    wait_for(lambda: not list(waiting.scratch.iterdir()), "the removal of the temporary files", PATIENCE_S)
    assert not Path(f"/tmp/hsperfdata_{psutil.Process().username()}/{jvm}").exists()
    assert "Traceback" not in waiting.errors.read_text()


@pytest.mark.parametrize("waiting", ["found"], indirect=True)
@pytest.mark.parametrize(
    ("number", "status", "ready"),
    [
        (signal.SIGINT, 130, False),
        pytest.param(signal.SIGINT, 130, True, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 130, False, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 130, True, marks=pytest.mark.long),
        (signal.SIGKILL, -9, False),
        # On a busy machine a JVM that yields to all others may not get ready for minutes.
        pytest.param(signal.SIGKILL, -9, True, marks=pytest.mark.long),
    ],
)
@pytest.mark.skipif(find_method() is None, reason="the JVM does not start early here")
def test_no_process_is_left_when_ended_during_jvm_startup(
    waiting: Waiting, ready: bool, number: signal.Signals, status: int
) -> None:
    """In the midst of the JVM's start, which nothing waits for, and when all is ready."""
    jvm = int(waiting.said())
    if ready:
        assert waiting.said() == "ready"
    waiting.popen.send_signal(number)
    assert waiting.ended() == status, waiting.errors.read_text()
    _is_gone(waiting, jvm)
