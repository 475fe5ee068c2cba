"""One of Kafka's Verifiable tools as a program: held until the load begins, ended by SIGTERM.

The producer sends as soon as it has started, and catches up on lost time. To hold it, its stdout is a full
pipe: it blocks on the line that reports its start, before it reads the clock, and continues when the pipe is
read. Not here: what the lines mean (output_lines.py), how the tools are called (command_lines.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from kaput.workload.command.program import OnLine, Output, Program, ProgramError

STARTED = "Kafka producer started"
_POLL_S = 0.02
_SIGTERM_STATUS = 128 + signal.SIGTERM  # of a JVM whose shutdown hooks have run


class JavaProgram(Program):
    """A JVM with a tool. `held`: it blocks on its first line until `go`. Raises ProgramError."""

    ok_statuses: ClassVar[frozenset[int]] = frozenset({0, _SIGTERM_STATUS})
    stop_request: ClassVar[str] = "SIGTERM"

    def __init__(
        self,
        words: list[str],
        stderr: Path,
        patience_s: float,
        on_line: OnLine,
        stopping: threading.Event,
        held: bool = False,
    ) -> None:
        self._full = _full_pipe() if held else None
        super().__init__(words, stderr, patience_s, on_line, stopping, self._full)

    def await_held(self, limit_s: float) -> None:
        """Waits until it is blocked with its producer started. Raises ProgramError."""
        limit = time.monotonic() + limit_s
        while STARTED not in self._stderr.read_text(errors="replace"):
            if self._process.poll() is not None:
                raise ProgramError(self._ended())
            if time.monotonic() > limit:
                self.kill()
                raise ProgramError(f"it hangs: it was not ready within {limit_s:.0f} s{self._error_output()}")
            if self._stopping.wait(_POLL_S):
                return

    def go(self) -> None:
        """Releases it: its output is read from now on."""
        assert self._full is not None
        left = self._full.ours
        while left > 0:
            left -= len(os.read(self._full.read_end, left))
        self._last_line_at = time.monotonic()
        self._listen(os.fdopen(self._full.read_end, "rb"))

    def check(self) -> None:
        """Raises ProgramError if it hangs, and kills it then."""
        if time.monotonic() - self._last_line_at > self._patience_s:
            raise self._hanging("has printed nothing")

    def await_end(self, idle: Callable[[], None]) -> None:
        """Waits for it to end on its own. Raises ProgramError if it hangs, or ends badly."""
        while self.running and not self._stopping.is_set():
            self._join_reader(_POLL_S)
            idle()
            self.check()
        if not self._stopping.is_set() and self._process.wait() not in self.ok_statuses:
            raise ProgramError(self._ended())

    def end(self) -> None:
        """SIGTERM: it finishes the messages it has buffered."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def close(self) -> None:
        super().close()
        if self._stderr.exists() and not self._error_output():
            self._stderr.unlink()

    def error_output(self) -> str:
        """Its error output after a colon; empty if there is none."""
        return self._error_output()

    def _request_stop(self) -> None:
        self.end()

    def _error_output(self) -> str:
        """Its error output without stack traces."""
        lines = self._stderr.read_text(errors="replace").strip().splitlines()
        kept = [line for line in lines if not line.startswith(("\tat ", "\t...")) and STARTED not in line]
        return ": " + "\n".join(kept[-5:]) if kept else ""


def _full_pipe() -> Output:
    """A pipe that is full."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    ours = 0
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                ours += os.write(write_end, b"\n" * size)
    os.set_blocking(write_end, True)
    return Output(read_end, write_end, ours)
