"""An owned process: its streams, its session, its end and the moment of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kaput.errors import Interrupted, LabError
from kaput.processes.ending import GRACE_S
from kaput.processes.ownership import Owner
from kaput.processes.records import MARKER, own_marker, start_of
from kaput.processes.signals import interrupts, shielded
from waiting import PATIENCE_S


def test_leaving_the_block_ends_all_processes_in_parallel() -> None:
    """Two processes that ignore SIGTERM cost one grace period, not two; a stopped one costs none."""
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(300)"
    ends: list[int] = []
    with Owner() as owner:
        command = [sys.executable, "-c", stubborn]
        deaf = [owner.spawn(command, name="deaf", stdout=-1, on_exit=ends.append) for _ in range(2)]
        stopped = owner.spawn(["sleep", "300"], name="stopped", on_exit=ends.append)
        for process in deaf:
            assert process.popen.stdout is not None
            process.popen.stdout.readline()
        stopped.signal(signal.SIGSTOP)
    first, second, third = sorted(ends)
    assert third - second < GRACE_S * 1e9 / 2 and first == stopped.ended_ns
    assert [process.returncode for process in deaf] == [-signal.SIGKILL] * 2
    assert stopped.returncode == -signal.SIGTERM


def test_kill_returns_the_moment_of_the_end() -> None:
    """The time that kill gives lies between before and after, and the process is gone by then."""
    with Owner() as owner:
        process = owner.spawn(["sleep", "300"], name="sleeper")
        before = time.time_ns()
        ended = process.kill()
        assert before <= ended <= time.time_ns()
        assert process.returncode == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
        process.signal(signal.SIGTERM)  # to nobody: no error


def test_on_exit_is_called_for_an_unexpected_end() -> None:
    """on_exit hears of an end that nobody asked for, with its moment."""
    told = threading.Event()
    with Owner() as owner:
        process = owner.spawn(["false"], name="short", on_exit=lambda _: told.set())
        assert process.wait(PATIENCE_S) == 1
        assert told.wait(PATIENCE_S)


def test_child_has_its_own_process_group_and_the_marker() -> None:
    """A terminal's Ctrl-C goes to kaput's group; cores are shared in one session; strays have the marker."""
    code = f"import os; print(os.getsid(0), os.getpgid(0), os.environ[{MARKER!r}], os.environ['EXTRA'])"
    with Owner() as owner:
        process = owner.spawn(
            [sys.executable, "-c", code], name="child", stdout=subprocess.PIPE, env={"EXTRA": "1"}
        )
        assert process.popen.stdout is not None
        session, group, marker, extra = process.popen.stdout.read().decode().split()
    assert (int(session), int(group)) == (os.getsid(0), process.pid)
    assert (marker, extra) == (own_marker(), "1")


# Starts a child in a session of its own, says its id, and ends.
LEAVING = (
    "import subprocess as s; "
    "print(s.Popen(['sleep', '300'], start_new_session=True, stdout=s.DEVNULL).pid, flush=True)"
)


def left_by(owner: Owner, *, marked: bool = True) -> int:
    """The process that a child of this owner has left running."""
    process = owner.spawn([sys.executable, "-c", LEAVING], name="leaving", stdout=-1, marked=marked)
    assert process.popen.stdout is not None
    pid = int(process.popen.stdout.readline())
    assert process.wait(PATIENCE_S) == 0 and start_of(pid) is not None
    return pid


def test_stray_in_another_session_ends_with_the_owner() -> None:
    """Its parent is gone, so that it is no descendant any more: it is known by its environment."""
    with Owner() as owner:
        left = left_by(owner)
    assert start_of(left) is None
    assert owner.strays == ["sleep"]


def test_strays_of_other_owners_are_not_ended() -> None:
    """An inner owner ends neither its outer one's nor what is to stay."""
    with Owner() as outer:
        kept = left_by(outer)
        with Owner() as inner:
            ended, stays = left_by(inner), left_by(inner, marked=False)
        try:
            assert start_of(ended) is None and start_of(kept) is not None and start_of(stays) is not None
        finally:
            os.kill(stays, signal.SIGKILL)
    assert start_of(kept) is None


def test_missing_program_is_a_lab_error(tmp_path: Path) -> None:
    """A missing program is the lab's trouble, named."""
    with Owner() as owner, pytest.raises(LabError, match=r"broker 1 cannot be started: .*nowhere"):
        owner.spawn([tmp_path / "nowhere"], name="broker 1")


def test_an_owned_directory_is_removed_also_after_an_exception(tmp_path: Path) -> None:
    """Data goes when the block is left, for whatever reason."""
    with pytest.raises(ZeroDivisionError), Owner() as owner:
        data = owner.own_path(tmp_path / "data")
        data.mkdir()
        (data / "file").write_text("x")
        _ = 1 // 0
    assert not (tmp_path / "data").exists()


def test_the_first_signal_raises_and_the_second_does_nothing() -> None:
    """One exception, once; afterwards Python's own handlers are back."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="SIGTERM"), interrupts():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


def test_shield_defers_a_signal_to_its_end() -> None:
    """Cleaning up is finished first, then the interruption is raised."""
    done = []
    with pytest.raises(Interrupted), interrupts():
        with shielded():
            signal.raise_signal(signal.SIGINT)
            done.append("cleaned up")
        done.append("never reached")
    assert done == ["cleaned up"]
