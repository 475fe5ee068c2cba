"""A user's program as a client: starts it, writes to its stdin, reads its stdout.

One JSON object per line in both directions (docs/ADDING_A_CLIENT.md). Whatever the program does wrong becomes
a sentence. Not here: what the lines mean (producer.py, member.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, ClassVar, TypeGuard

Line = Mapping[str, Any]
# Handles a line; returns a clause about what is wrong with it, or None.
OnLine = Callable[[Line], str | None]

_LONGEST = 1 << 22  # the most bytes per line
_SHOWN = 100
_LONGEST_SHOWN = 300  # the most characters per line of stderr
_SLICE = 1 << 16
_MOST_ERRORS = 1 << 22  # the most bytes of stderr kept
_TICK_S = 0.1
_KILL_S = 5.0
_PR_SET_PDEATHSIG = 1


class ProgramError(Exception):
    """The program failed; the text is a sentence that says why."""


class ClientProgram:
    """A program. Write from one thread; `on_line` is called in another. Raises ProgramError."""

    ok_statuses: ClassVar[frozenset[int]] = frozenset({0})
    stop_request: ClassVar[str] = "the end of its input"

    def __init__(
        self, words: list[str], stderr: Path, patience_s: float, on_line: OnLine, stopping: threading.Event
    ) -> None:
        self._words, self._stderr, self._patience_s = words, stderr, patience_s
        self._on_line, self._stopping = on_line, stopping
        self._violations = 0
        self._first_violation = ""
        self._last_line_at = time.monotonic()
        self._line_lock, self._closed = threading.Lock(), False
        self._line_received = threading.Event()  # set after each line
        try:
            kept = stderr.open("wb", buffering=0)
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,  # signals reach what it starts, too
                # Safe here: this process has no other threads yet.
                preexec_fn=_end_with_parent,  # noqa: PLW1509
            )
        except OSError as error:
            raise ProgramError(f"{words[0]} cannot be started: {error.strerror}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._errors = threading.Thread(target=self._keep_errors, args=(kept,), daemon=True)
        self._errors.start()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it is running, or its output has not been read to the end."""
        return self._reader.is_alive() or self._process.poll() is None

    def write(self, data: bytes) -> None:
        """Writes lines to it. Raises ProgramError if it has ended, or stops reading."""
        left, moved_at = memoryview(data), time.monotonic()
        while left and not self._stopping.is_set():
            try:
                left = left[os.write(self._input, left) :]
                moved_at = time.monotonic()
            except BlockingIOError:
                # A program that is busy with a broken cluster still prints outcomes.
                if time.monotonic() - max(moved_at, self._last_line_at) > self._patience_s:
                    raise self._hanging("has read no input") from None
                select.select([], [self._input], [], _TICK_S)
            except BrokenPipeError:
                self._reader.join(_KILL_S)
                raise ProgramError(self._ended()) from None

    def await_event(self, event: threading.Event, what: str, limit_s: float) -> None:
        """Waits for something that it prints. Raises ProgramError if that does not come."""
        limit = time.monotonic() + limit_s
        while not event.wait(_TICK_S) and not self._stopping.is_set():
            if not self.running and not event.is_set():
                raise ProgramError(self._ended())
            if time.monotonic() > limit:
                self.kill()
                raise ProgramError(f"it hangs: it was not {what} within {limit_s:.0f} s{self.error_output()}")

    def await_lines(self, done: Callable[[], bool], idle: Callable[[], None]) -> None:
        """Waits until its output makes `done` true. Raises ProgramError if it ends or hangs before."""
        self._last_line_at = time.monotonic()
        while not done() and not self._stopping.is_set():
            self._line_received.wait(_TICK_S)
            self._line_received.clear()
            idle()
            if not self.running and not done():
                raise ProgramError(self._ended())
            if time.monotonic() - self._last_line_at > self._patience_s:
                raise self._hanging("has printed nothing")

    def check(self) -> None:
        """Raises ProgramError if it has ended."""
        if not self.running:
            raise ProgramError(self._ended())

    def finish(self, idle: Callable[[], None] = lambda: None) -> None:
        """Closes its input and waits for it to end. Raises ProgramError if it hangs, or ends badly."""
        self._request_stop()
        self._last_line_at = time.monotonic()
        while self.running and not self._stopping.is_set():
            self._reader.join(_TICK_S)
            idle()
            if time.monotonic() - self._last_line_at > self._patience_s:
                raise self._hanging("has neither printed anything nor ended after the end of its input,")
        if not self._stopping.is_set() and self._process.wait() not in self.ok_statuses:
            raise ProgramError(self._ended())

    def stop(self, timeout_s: float) -> None:
        """Asks it to end and waits `timeout_s`, even while stopping. Raises ProgramError."""
        self._request_stop()
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramError(
                f"it hangs: it has not ended within {timeout_s:.0f} s of {self.stop_request}"
            ) from None
        self._reader.join(_KILL_S)
        if status not in self.ok_statuses:
            raise ProgramError(self._ended())

    def kill(self) -> None:
        """Kills it, and reads the rest of its output."""
        self._process.kill()
        self._process.wait()
        # Its child may hold its stdout open.
        self._reader.join(_KILL_S)

    def close(self) -> None:
        """Ends it and everything of it; no line is handled after this."""
        if self._process.poll() is None:
            self.kill()
        with self._line_lock:
            self._closed = True
        self._close_input()
        self._errors.join(_TICK_S)
        if self._stderr.exists() and self._stderr.stat().st_size == 0:
            self._stderr.unlink()

    def protocol_violations(self) -> str | None:
        """A sentence about lines outside the protocol; None if there were none."""
        if not self._violations:
            return None
        lines = "a line" if self._violations == 1 else f"{self._violations:,} lines"
        return f"it printed {lines} that the protocol does not have; the first: {self._first_violation}"

    def _request_stop(self) -> None:
        self._close_input()

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]

    def _hanging(self, how: str) -> ProgramError:
        self.kill()
        return ProgramError(f"it hangs: it {how} for {self._patience_s:g} s (patience){self.error_output()}")

    def _ended(self) -> str:
        try:
            status = self._process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"it closed its input and did not end{self.error_output()}"
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"it ended on its own ({how}){self.error_output()}"

    def error_output(self) -> str:
        """The end of its stderr after a colon, without stack traces; empty if there is none."""
        # Its last words may still be in the pipe; its child may hold that open.
        self._errors.join(_KILL_S if self._process.poll() is not None else _TICK_S)
        every = self._stderr.read_text(errors="replace").strip().splitlines()
        lines = [line for line in every if not line.startswith(("\tat ", "\t..."))][-5:]
        return ": " + "\n".join(line[:_LONGEST_SHOWN] for line in lines) if lines else ""

    def _keep_errors(self, kept: IO[bytes]) -> None:
        """Keeps the end of its stderr: a program that prints endlessly must not fill the disk."""
        assert self._process.stderr is not None
        with kept:
            while text := os.read(self._process.stderr.fileno(), _SLICE):
                with contextlib.suppress(OSError):  # keep reading the pipe even if the disk is full
                    if kept.tell() > _MOST_ERRORS:
                        kept.seek(0)
                        kept.truncate()
                    kept.write(text)

    def _read(self, output: IO[bytes]) -> None:
        while text := output.readline(_LONGEST):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                if not text.endswith(b"\n") and len(text) < _LONGEST:
                    return  # the half line of a program that was killed
                wrong: str | None = "not JSON"
            else:
                wrong = self._on_json(line) if isinstance(line, dict) else "not an object"
            # Only valid lines count as progress: some programs print others endlessly.
            if wrong is None:
                self._last_line_at = time.monotonic()
                self._line_received.set()
            else:
                self._note(text, wrong)

    def _on_json(self, line: Line) -> str | None:
        with self._line_lock:
            return None if self._closed else self._on_line(line)

    def _note(self, text: bytes, wrong: str) -> None:
        if not self._violations:
            shown = text[:_SHOWN].decode(errors="replace").rstrip("\n")
            self._first_violation = f"{shown!r}{'...' if len(text) > _SHOWN else ''} ({wrong})"
        self._violations += 1


def _end_with_parent() -> None:
    """Runs in the new process: makes a SIGKILL of its parent kill it too (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def line_of(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def integer(value: Any) -> TypeGuard[int]:
    """Whether a field is an integer from 0 on that fits a table's column."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def partition_lists(value: Any, numbers: int) -> Iterable[list[Any]] | None:
    """A list of [topic, partition] (2 `numbers`: and offset); None if the field is none."""
    if not isinstance(value, list):
        return None
    good = all(
        isinstance(each, list)
        and len(each) == 1 + numbers
        and isinstance(each[0], str)
        and all(integer(number) for number in each[1:])
        and each[1] < 2**31
        for each in value
    )
    return value if good else None
