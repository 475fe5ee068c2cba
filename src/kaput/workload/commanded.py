"""Somebody else's program as a client: started, told what to do on its stdin, listened to on its stdout.

One JSON object a line in both directions (docs/ADDING_A_CLIENT.md). Whatever the program does wrong ends in a
sentence: `findings`. Not here: what the lines mean (command_producer.py, command_member.py).
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
from typing import IO, Any, ClassVar, NamedTuple, TypeGuard

Line = Mapping[str, Any]
# Takes a line; a clause about what is wrong with it, None where nothing is.
OnLine = Callable[[Line], str | None]

_LONGEST = 1 << 22  # bytes of a line
_SHOWN = 100
_LONGEST_SHOWN = 300  # of a line of stderr
_SLICE = 1 << 16
_MOST_ERRORS = 1 << 22  # bytes of stderr
_TICK_S = 0.1
_KILL_S = 5.0
_PR_SET_PDEATHSIG = 1


class Output(NamedTuple):
    """Both ends of a pipe, and how many bytes of ours stand in it already."""

    read_end: int
    write_end: int
    ours: int


class CommandError(Exception):
    """The program cannot go on; the text is a sentence about why."""


class Commanded:
    """A program under its command line. To be told things from one thread; `on_line` is called in another.

    `output`: what its stdout is to be, instead of a pipe that is read from now on; `listen` then begins to.
    Raises CommandError where it cannot be started.
    """

    good_ends: ClassVar[frozenset[int]] = frozenset({0})
    told_by: ClassVar[str] = "the end of its input"

    def __init__(
        self,
        words: list[str],
        stderr: Path,
        patience_s: float,
        on_line: OnLine,
        stopping: threading.Event,
        output: Output | None = None,
    ) -> None:
        self._words, self._stderr, self._patience_s = words, stderr, patience_s
        self._on_line, self._stopping = on_line, stopping
        self._wrong = 0
        self._first_wrong = ""
        self._heard_at = time.monotonic()
        self._hearing, self._deaf = threading.Lock(), False
        try:
            kept = stderr.open("wb", buffering=0)
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if output is None else output.write_end,
                stderr=subprocess.PIPE,
                # Safe here: this process has no other threads yet.
                preexec_fn=_end_with_parent,  # noqa: PLW1509
            )
        except OSError as error:
            raise CommandError(f"{words[0]} cannot be started: {error.strerror}") from None
        assert self._process.stdin is not None
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._errors = threading.Thread(target=self._keep_errors, args=(kept,), daemon=True)
        self._errors.start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        if output is None:
            assert self._process.stdout is not None
            self._listen(self._process.stdout)
        else:
            os.close(output.write_end)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended, or what it printed is not read to its end yet."""
        return self._reader.is_alive() or self._process.poll() is None

    def _listen(self, output: IO[bytes]) -> None:
        self._output = output
        self._reader.start()

    def _join_reader(self, timeout_s: float) -> None:
        if self._reader.ident is not None:
            self._reader.join(timeout_s)

    def tell(self, data: bytes) -> None:
        """Gives it lines. Raises CommandError where it has ended, or takes nothing any more."""
        left, moved_at = memoryview(data), time.monotonic()
        while left and not self._stopping.is_set():
            try:
                left = left[os.write(self._input, left) :]
                moved_at = time.monotonic()
            except BlockingIOError:
                # Whoever is busy with a broken cluster says so by what it prints.
                if time.monotonic() - max(moved_at, self._heard_at) > self._patience_s:
                    raise self._hangs("has taken no input") from None
                select.select([], [self._input], [], _TICK_S)
            except BrokenPipeError:
                self._join_reader(_KILL_S)
                raise CommandError(self._ended()) from None

    def await_(self, event: threading.Event, what: str, limit_s: float) -> None:
        """Waits for something that it says. Raises CommandError where that does not come."""
        limit = time.monotonic() + limit_s
        while not event.wait(_TICK_S) and not self._stopping.is_set():
            if not self.running and not event.is_set():
                raise CommandError(self._ended())
            if time.monotonic() > limit:
                self.kill()
                raise CommandError(f"it hangs: it was not {what} within {limit_s:.0f} s{self._last_words()}")

    def finish(self, idle: Callable[[], None] = lambda: None) -> None:
        """Closes its input and waits for its end. Raises CommandError where it hangs, or ends badly."""
        self._hang_up()
        self._heard_at = time.monotonic()
        while self.running and not self._stopping.is_set():
            self._join_reader(_TICK_S)
            idle()
            if time.monotonic() - self._heard_at > self._patience_s:
                raise self._hangs("has neither said anything nor ended, its input at its end,")
        if not self._stopping.is_set() and self._process.wait() not in self.good_ends:
            raise CommandError(self._ended())

    def leave(self, timeout_s: float) -> None:
        """Tells it to end and gives it so long, stopping or not. Raises CommandError."""
        self._hang_up()
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CommandError(
                f"it hangs: it has not ended within {timeout_s:.0f} s of {self.told_by}"
            ) from None
        self._join_reader(_KILL_S)
        if status not in self.good_ends:
            raise CommandError(self._ended())

    def kill(self) -> None:
        """Ends it at once; all that it has printed is read."""
        self._process.kill()
        self._process.wait()
        # A child of its own may hold its stdout open.
        self._join_reader(_KILL_S)

    def close(self) -> None:
        """Nothing of it is left after this, and nothing more is heard."""
        if self._process.poll() is None:
            self.kill()
        with self._hearing:
            self._deaf = True
        self._close_input()
        self._errors.join(_TICK_S)
        if self._stderr.exists() and self._stderr.stat().st_size == 0:
            self._stderr.unlink()

    def rubbish(self) -> str | None:
        """A sentence about lines that were none of the protocol's; None where there were none."""
        if not self._wrong:
            return None
        lines = "a line" if self._wrong == 1 else f"{self._wrong:,} lines"
        return f"it printed {lines} that the protocol does not have; the first: {self._first_wrong}"

    def _hang_up(self) -> None:
        """Tells it to end."""
        self._close_input()

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]

    def _hangs(self, how: str) -> CommandError:
        self.kill()
        return CommandError(f"it hangs: it {how} for {self._patience_s:g} s (patience){self._last_words()}")

    def _ended(self) -> str:
        try:
            status = self._process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"it has closed its input, and did not end{self._last_words()}"
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"it ended on its own ({how}){self._last_words()}"

    def _last_words(self) -> str:
        self._errors.join(_TICK_S)
        lines = self._stderr.read_text(errors="replace").strip().splitlines()[-5:]
        return ": " + "\n".join(line[:_LONGEST_SHOWN] for line in lines) if lines else ""

    def _keep_errors(self, kept: IO[bytes]) -> None:
        """Keeps the end of its stderr: a program that prints without end must not fill the disk."""
        assert self._process.stderr is not None
        with kept:
            while text := os.read(self._process.stderr.fileno(), _SLICE):
                with contextlib.suppress(OSError):  # where the disk is full, its pipe must not be
                    if kept.tell() > _MOST_ERRORS:
                        kept.seek(0)
                        kept.truncate()
                    kept.write(text)

    def _read(self) -> None:
        while text := self._output.readline(_LONGEST):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                wrong: str | None = "not JSON"
            else:
                wrong = self._heard(line) if isinstance(line, dict) else "not an object"
            # Lines that mean nothing are no sign of work: some programs print them without end.
            if wrong is None:
                self._heard_at = time.monotonic()
            else:
                self._note(text, wrong)

    def _heard(self, line: Line) -> str | None:
        with self._hearing:
            return None if self._deaf else self._on_line(line)

    def _note(self, text: bytes, wrong: str) -> None:
        if not self._wrong:
            shown = text[:_SHOWN].decode(errors="replace").rstrip("\n")
            self._first_wrong = f"{shown!r}{'...' if len(text) > _SHOWN else ''} ({wrong})"
        self._wrong += 1


def _end_with_parent() -> None:
    """In the new process: a SIGKILL of kaput's own leaves nobody behind (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def line_of(**fields: Any) -> bytes:
    """One line of the protocol."""
    return json.dumps(fields).encode() + b"\n"


def integer(value: Any, least: int = 0) -> TypeGuard[int]:
    """Whether a field is a number that a table can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def places(value: Any, numbers: int) -> Iterable[list[Any]] | None:
    """A field's list of [topic, partition] and perhaps an offset (so many numbers); None where it is none."""
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
