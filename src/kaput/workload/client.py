"""A client process of a run as its parent sees it: started, listened to, told things, and ended.

Not here: which clients there are (crew.py), places in groups that outlive their process (seat.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from kaput.errors import LabError
from kaput.processes.ending import KILL_TIMEOUT_S
from kaput.processes.ownership import OwnedProcess, Owner
from kaput.workload.order import Told, file_name, write_order

READY_TIMEOUT_S = 60
_LAST_WORDS_S = 10.0  # where a process that it left behind holds its pipe
_POLL_S = 0.001
_FULL_BYTES = 1 << 16  # a disk is full where what was to be written did not fit: rarely to the last byte
# The message as it was said: `kind`, and what goes with it (order.py).
OnSaid = Callable[[Mapping[str, Any]], None]


@dataclass
class Client:
    """A client process and what it has said so far."""

    name: str
    process: OwnedProcess
    stderr: Path
    said: dict[str, threading.Event] = field(
        default_factory=lambda: {kind: threading.Event() for kind in ("ready", "sent", "done")}
    )
    trouble: str | None = None
    findings: list[str] = field(default_factory=list)
    """What is wrong with a client that is somebody else's program."""
    body: int | None = None
    """The process that really sends or reads, where that is another one."""
    producer: int | None = None
    """The number of what it sends, if it does."""
    killed: bool = False
    """Whether a fault has ended it so that it could not tell any more."""
    heard: threading.Event = field(default_factory=threading.Event)
    """Set once all that it will ever say has been read."""

    @property
    def pid(self) -> int:
        """The process that sends or reads, which faults hit."""
        return self.process.pid if self.body is None else self.body

    def signal(self, number: int) -> None:
        """Sends a signal to the process that sends or reads; nothing to one that has ended."""
        if self.body is None:
            self.process.signal(number)
        elif self.process.running:  # who started it waits for it: its number is nobody else's until then
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.body, number)

    def kill(self) -> int:
        """SIGKILL of the process that sends or reads, and the moment (ns) at which it was gone; all that it
        had said is on record. Raises LabError.
        """
        self.killed = True
        if self.body is None:
            return self.process.kill()
        self.signal(signal.SIGKILL)
        limit = time.monotonic() + KILL_TIMEOUT_S
        while self.process.running and _exists(self.body):
            if time.monotonic() > limit:
                raise LabError(
                    f"{self.name} (pid {self.body}) is still there {KILL_TIMEOUT_S:.0f} s after SIGKILL"
                )
            time.sleep(_POLL_S)
        time.sleep(_POLL_S)  # what it said last counts to the end of its millisecond
        gone_ns = time.time_ns()
        if self.process.wait(KILL_TIMEOUT_S) is None:
            self.process.kill()
        return gone_ns

    def go(self) -> None:
        """Lets a producer start. Raises LabError when it has ended meanwhile."""
        if not self._write(b"go\n"):
            self.process.wait(_LAST_WORDS_S)
            raise LabError(self.ended())

    def tell(self, kind: Told, **more: Any) -> None:
        """One line to a member; nothing to one that has ended."""
        self._write(json.dumps({"kind": kind, **more}).encode() + b"\n")

    def await_ready(self, limit: float) -> None:
        """Waits until it is ready, at most until `limit` of the monotonic clock. Raises LabError."""
        while not self.said["ready"].wait(0.1):
            self.check("ready")
            if time.monotonic() > limit:
                raise LabError(f"{self.name} was not ready within {READY_TIMEOUT_S} s")

    def check(self, kind: str) -> None:
        """Raises LabError where it has ended without having said `kind`."""
        if not self.process.running and not self.had_said(kind):
            raise LabError(self.ended())

    def had_said(self, kind: str) -> bool:
        """Whether one that has ended ever said `kind`."""
        # The pipe is read by another thread: what was said a moment before the end may not be read yet.
        if not self.said[kind].is_set():
            self.heard.wait(_LAST_WORDS_S)
        return self.said[kind].is_set()

    def ended(self) -> str:
        """How it ended on its own, in a sentence."""
        lines = self.stderr.read_text(errors="replace").strip().splitlines()[-5:]
        why = self.trouble or "\n".join(lines) or _silent(self.stderr.parent)
        return f"{self.name} ended on its own ({_how(self.process.returncode)}): {why}"

    def _write(self, line: bytes) -> bool:
        stdin = self.process.popen.stdin
        assert stdin is not None
        try:
            stdin.write(line)
            stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: closed below, by an earlier line
            with contextlib.suppress(OSError):
                stdin.close()  # what it holds would be tried again at the end of the program
            return False
        return True

    def listen(self, on_said: OnSaid) -> None:
        """Takes in what it says until there is no more."""
        try:
            self._take_in(on_said)
        finally:
            self.heard.set()

    def _take_in(self, on_said: OnSaid) -> None:
        assert self.process.popen.stdout is not None
        for line in self.process.popen.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # the half line of a killed client
            if said["kind"] == "trouble":
                self.trouble = said["message"]
            elif said["kind"] == "body":
                self.body = said["pid"]
            elif said["kind"] == "finding":
                self.findings.append(f"{self.name}: {said['message']}")
            elif said["kind"] in self.said:
                self.said[said["kind"]].set()
            else:
                on_said(said)


def start(owner: Owner, scratch: Path, name: str, module: str, order: Any, on_said: OnSaid) -> Client:
    """Starts `module` with an order (order.py), and a thread that listens to it. Raises LabError."""
    path = scratch / f"{file_name(name)}.json"
    write_order(path, order)
    stderr = path.with_name(f"{file_name(name)}.err")
    with stderr.open("wb") as errors:
        process = owner.spawn(
            [sys.executable, "-m", module, str(path)],
            name=name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    client = Client(name, process, stderr)
    threading.Thread(target=client.listen, args=(on_said,), name=f"listen-{name}", daemon=True).start()
    return client


def _exists(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _silent(folder: Path) -> str:
    """Why a client left no last words: a full disk takes none."""
    if shutil.disk_usage(folder).free < _FULL_BYTES:
        return f"no space is left on the disk of {folder}"
    return "it said nothing"


def _how(status: int | None) -> str:
    """An exit status in words."""
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
