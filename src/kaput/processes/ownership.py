"""Ownership: a context manager that ends every process it started and removes every directory it was given.

Nothing is left however kaput ends: leaving the block cleans up; after a SIGKILL the guardian does; if that
was killed too, the reaper does at the next start. Not here: what the processes are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from kaput.errors import LabError
from kaput.processes.ending import KILL_TIMEOUT_S, close, end_gracefully, end_strays
from kaput.processes.guardian import GOODBYE
from kaput.processes.records import (
    MARKER,
    OWNER_NAME,
    ProcessRecord,
    StartedProcess,
    own_marker,
    start_of,
    unmarked_environment,
)
from kaput.processes.signals import shielded

Stream = int | IO[bytes] | None
GOODBYE_TIMEOUT_S = 5.0


class OwnedProcess:
    """A child process. Thread-safe."""

    def __init__(
        self, popen: subprocess.Popen[bytes], name: str, on_exit: Callable[[int], None] | None
    ) -> None:
        self.popen, self.name = popen, name
        self.ended_ns: int | None = None
        self._on_exit = on_exit
        self._gone = threading.Event()
        # A waiting thread knows exactly when it ended; polling would not.
        self._waiter = threading.Thread(target=self._wait, name=f"wait-{name}", daemon=True)
        self._waiter.start()

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def pids(self) -> list[int]:
        """The processes that signals reach."""
        return [self.popen.pid]

    @property
    def running(self) -> bool:
        """Whether it has not ended; a stopped process counts as running."""
        return not self._gone.is_set()

    @property
    def returncode(self) -> int | None:
        """As in subprocess; None while it runs."""
        return self.popen.returncode if self._gone.is_set() else None

    def wait(self, timeout_s: float) -> int | None:
        """The exit status; None if it still runs after `timeout_s`."""
        self._gone.wait(timeout_s)
        return self.returncode

    def signal(self, number: int) -> None:
        """Sends a signal; nothing to a process that has ended."""
        if self.running:
            self.popen.send_signal(number)

    def kill(self) -> int:
        """SIGKILLs it; returns when it ended (ns since the epoch). Raises LabError if it does not end."""
        if self.running:
            self.popen.kill()
        if self.wait(KILL_TIMEOUT_S) is None or self.ended_ns is None:
            raise LabError(
                f"{self.name} (pid {self.pid}) is still there {KILL_TIMEOUT_S:.0f} s after SIGKILL"
            )
        return self.ended_ns

    def _wait(self) -> None:
        self.popen.wait()
        self.ended_ns = time.time_ns()
        self._gone.set()
        if self._on_exit is not None:
            self._on_exit(self.ended_ns)


class Owner:
    """Owns processes and directories in a `with` block. `marks_environment`: also what others start."""

    def __init__(self, *, marks_environment: bool = True) -> None:
        self._marks_environment = marks_environment
        self._processes: list[OwnedProcess] = []
        self._lock = threading.Lock()
        self.strays: list[str] = []  # names of processes that owned ones left running; known after the block

    def __enter__(self) -> Owner:
        if self._marks_environment:
            # Marks what other code starts from here as kaput's, such as Spark's JVM.
            os.environ[MARKER] = own_marker()
        self._record = ProcessRecord.create()
        self._guardian = _start_guardian(self._record)
        self._open = True
        return self

    def __exit__(self, *error: object) -> None:
        with shielded():
            with self._lock:
                self._open = False
            for started in end_gracefully([process for process in self._processes if process.running]):
                self._record.add_process(started)
            for started in end_strays(self._record) if self._processes else ():
                self._record.add_process(started)
                self.strays.append(started.name)
            # What outlives its SIGKILL stays on record, for the reaper at the next start.
            close(self._record, kept=any(started.running() for started in self._record.processes()))
            _dismiss(self._guardian)

    def spawn(
        self,
        args: Sequence[str | Path],
        *,
        name: str,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_exit: Callable[[int], None] | None = None,
        marked: bool = True,
    ) -> OwnedProcess:
        """Starts a process in its own group, so that a terminal's Ctrl-C reaches only kaput. A stream of None
        is /dev/null, not kaput's own. `env` is added to kaput's environment. `marked`: whether what it starts
        and leaves running is kaput's too. `on_exit(ns)` is called from a thread. Raises LabError if it cannot
        be started.
        """
        # Shielded: no signal may arrive between starting and recording it.
        with shielded(), self._lock:
            if not self._open:
                raise LabError(f"{name} is not started: kaput is cleaning up")
            marker = {MARKER: own_marker(), OWNER_NAME: self._record.name} if marked else {}
            popen = _popen(args, name, stdin, stdout, stderr, {**marker, **(env or {})}, cwd)
            self._record.add_process(StartedProcess(popen.pid, start_of(popen.pid) or "", name))
            process = OwnedProcess(popen, name, on_exit)
            self._processes.append(process)
        return process

    def own_path(self, path: Path) -> Path:
        """Registers a directory that is removed at the end, and also if kaput dies. May not exist yet."""
        self._record.add_path(path.absolute())
        return path


def _popen(
    args: Sequence[str | Path],
    name: str,
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    env: Mapping[str, str],
    cwd: Path | None,
) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [str(arg) for arg in args],
            stdin=nothing if stdin is None else stdin,
            stdout=nothing if stdout is None else stdout,
            stderr=nothing if stderr is None else stderr,
            env={**unmarked_environment(), **env},
            cwd=cwd,
            # Its own group, which a terminal's Ctrl-C does not reach. Not a session: Linux gives each session
            # the same share of the cores, so a client would get as much as all of a JVM's threads.
            process_group=0,
        )
    except OSError as error:
        raise LabError(f"{name} cannot be started: {error}") from None


def _start_guardian(record: ProcessRecord) -> subprocess.Popen[bytes]:
    # Unmarked: the guardian ends marked processes, and an outer kaput's guardian must not end ours.
    return subprocess.Popen(
        [sys.executable, "-m", "kaput.processes.guardian", str(record.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=unmarked_environment(),
        cwd="/",
        start_new_session=True,
    )


def _dismiss(guardian: subprocess.Popen[bytes]) -> None:
    assert guardian.stdin is not None
    try:
        guardian.stdin.write(GOODBYE)
        guardian.stdin.close()
    except BrokenPipeError:
        pass  # it was already killed
    try:
        guardian.wait(GOODBYE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        guardian.kill()
        guardian.wait()
