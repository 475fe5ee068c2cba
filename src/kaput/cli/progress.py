"""Progress on stderr: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from kaput.cli.verbs import Verbosity
from kaput.console import Console
from kaput.printable import printable

if TYPE_CHECKING:
    from kaput.faults.engine import FaultState

PLAIN_EVERY_S = 5.0


_STATUS = TextColumn("{task.fields[status]}", markup=False)


class _ProgressBar:
    """A bar on a terminal within the block; elsewhere lines, the last one of them always (`late`: the first
    after a while, and none of what takes less time). `doing`: a word after the title of the bar.
    """

    def __init__(self, title: str, *columns: ProgressColumn, doing: str = "", late: bool = False) -> None:
        self._title = title
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal and not Verbosity.lines
        self._began_at = time.monotonic()
        self._shown_at = self._began_at if late else 0.0
        self._shows_last = not late
        self._skipped: str | None = None  # the latest line that is not shown yet
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *columns,
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(printable(f"{title}{doing and ': '}{doing}"), total=None, status="")

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._bar.stop()
        elif self._skipped is not None and self._shows_last and error[0] is None:
            self._print(self._skipped)

    def _show(self, line: str, **task: Any) -> None:
        """Updates the bar; elsewhere prints the line, unless the last one was printed a moment ago."""
        if self._live:
            self._bar.update(self._task, **task)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._print(line)
        else:
            self._skipped = line

    def _print(self, line: str) -> None:
        self._shown_at, self._shows_last, self._skipped = time.monotonic(), True, None
        self._console.print(f"{self._title}: {line}", soft_wrap=True)


class RunProgress(_ProgressBar):
    """Shows one run: phase, messages attempted and acknowledged, active faults. `words`: for phases."""

    def __init__(self, title: str, words: Mapping[str, str] | None = None) -> None:
        super().__init__(title, BarColumn(), MofNCompleteColumn(), _STATUS, TimeElapsedColumn())
        self._phase, self._words = "start", words or {}
        self._faults: dict[str, str] = {}
        self._acked = 0
        self._lock = threading.Lock()

    def phase(self, name: str) -> None:
        self._phase = self._words.get(name, name)
        if self._live:
            self._bar.update(self._task, description=printable(f"{self._title}: {self._phase}"))
        else:
            self._write(self._phase)

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        self._acked = acked
        self._draw(attempted, total, "sent", self._status())

    def drained(self, offsets: int, total: int | None) -> None:
        """The number of offsets of the log that were read."""
        self._draw(offsets, total, "read", "")

    def fault(self, step: str, what: str, state: FaultState) -> None:
        with self._lock:
            if state == "injected":
                self._faults[step] = what
            else:
                self._faults.pop(step, None)
        self._write(f"{state}: {what}")

    def note(self, text: str) -> None:
        self._write(text)

    def _status(self) -> str:
        with self._lock:
            active = printable(", ".join(self._faults.values()))
        return f"{self._acked:,} acknowledged" + (f"; active: {active}" if active else "")

    def _draw(self, done: int, total: int | None, verb: str, status: str) -> None:
        if self._live:
            self._bar.update(self._task, completed=done, total=total, status=status)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            of = f" of {total:,}" if total else ""
            self._write(f"{done:,}{of} {verb}" + (f", {status}" if status else ""))

    def _write(self, text: str) -> None:
        elapsed = f"{time.monotonic() - self._began_at:7.2f} s  " if Verbosity.lines else ""
        line = printable(f"{elapsed}{self._title}: {text}")
        if self._live:
            self._bar.console.print(line)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


class CountProgress(_ProgressBar):
    """Shows how much is done. `line`: the sentence with both numbers. `tell` may be called at any rate."""

    def __init__(
        self, title: str, line: str = "{:,} of {:,} offsets", doing: str = "", late: bool = False
    ) -> None:
        columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        super().__init__(title, *columns, doing=doing, late=late)
        self._line = line

    def tell(self, done: int, total: int) -> None:
        self._show(self._line.format(done, total), completed=done, total=total)

    def step(self, what: str, done: int, total: int) -> None:
        """The same of a step with its own count."""
        text = printable(f"{self._title}: {what}")
        self._show(f"{what}: {done:,} of {total:,}", description=text, completed=done, total=total)


class BytesProgress(_ProgressBar):
    """Shows bytes and partitions copied. `tell` may be called at any rate."""

    def __init__(self, title: str) -> None:
        super().__init__(
            title, BarColumn(), DownloadColumn(), TransferSpeedColumn(), _STATUS, TimeElapsedColumn()
        )

    def tell(self, copied: int, of_bytes: int, done: int, total: int) -> None:
        """The number of bytes and partitions copied."""
        status = f"{done:,} of {total:,} partitions"
        line = f"{decimal(copied)} of {decimal(of_bytes)}, {status}"
        self._show(line, completed=copied, total=of_bytes or None, status=status)
