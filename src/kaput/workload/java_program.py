"""One of Kafka's Verifiable tools as a program: held until the load begins, told to end by SIGTERM.

The producer sends as soon as it is there, and makes up for time that it lost. So its stdout is a pipe that is
full: it stands still at the line that says it is there, before it looks at the clock, and goes on when the
pipe is read. Not here: what the lines mean (java_lines.py), how the tools are called (java_commands.py).
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

from kaput.workload.commanded import Commanded, CommandError, OnLine, Output

STARTED = "Kafka producer started"
_POLL_S = 0.02
_SIGTERM_STATUS = 128 + signal.SIGTERM  # of a JVM whose shutdown hooks have run


class JavaProgram(Commanded):
    """A JVM with a tool. `held`: it stands still at its first line until `go`. Raises CommandError."""

    good_ends: ClassVar[frozenset[int]] = frozenset({0, _SIGTERM_STATUS})
    told_by: ClassVar[str] = "SIGTERM"

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
        """Waits until it stands still, with a producer that is there. Raises CommandError."""
        limit = time.monotonic() + limit_s
        while STARTED not in self._stderr.read_text(errors="replace"):
            if self._process.poll() is not None:
                raise CommandError(self._ended())
            if time.monotonic() > limit:
                self.kill()
                raise CommandError(f"it hangs: it was not ready within {limit_s:.0f} s{self._last_words()}")
            if self._stopping.wait(_POLL_S):
                return

    def go(self) -> None:
        """Lets it go on: what it prints is read from now on."""
        assert self._full is not None
        left = self._full.ours
        while left > 0:
            left -= len(os.read(self._full.read_end, left))
        self._heard_at = time.monotonic()
        self._listen(os.fdopen(self._full.read_end, "rb"))

    def check(self) -> None:
        """Raises CommandError where it hangs, and kills it then."""
        if time.monotonic() - self._heard_at > self._patience_s:
            raise self._hangs("has said nothing")

    def await_end(self, idle: Callable[[], None]) -> None:
        """Waits for it to end on its own. Raises CommandError where it hangs, or ends badly."""
        while self.running and not self._stopping.is_set():
            self._join_reader(_POLL_S)
            idle()
            self.check()
        if not self._stopping.is_set() and self._process.wait() not in self.good_ends:
            raise CommandError(self._ended())

    def end(self) -> None:
        """SIGTERM: it finishes what it has in hand."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def close(self) -> None:
        super().close()
        if self._stderr.exists() and not self._last_words():
            self._stderr.unlink()

    def last_words(self) -> str:
        """What it said of an error, behind a colon; nothing where it said nothing."""
        return self._last_words()

    def _hang_up(self) -> None:
        self.end()

    def _last_words(self) -> str:
        """What Java says of an error, without where in its code that was."""
        lines = self._stderr.read_text(errors="replace").strip().splitlines()
        told = [line for line in lines if not line.startswith(("\tat ", "\t...")) and STARTED not in line]
        return ": " + "\n".join(told[-5:]) if told else ""


def _full_pipe() -> Output:
    """A pipe into which nothing more goes."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    ours = 0
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                ours += os.write(write_end, b"\n" * size)
    os.set_blocking(write_end, True)
    return Output(read_end, write_end, ours)
