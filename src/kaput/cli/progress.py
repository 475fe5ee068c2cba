"""Progress on stderr: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import Self

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

PLAIN_EVERY_S = 5.0


_STATUS = TextColumn("{task.fields[status]}", markup=False)


class _ProgressBar:
    """A bar on a terminal within the block; elsewhere subclasses print lines."""

    def __init__(self, description: str, *columns: ProgressColumn) -> None:
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal and not Verbosity.lines
        self._began_at = time.monotonic()
        self._shown_at = 0.0
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *columns,
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(printable(description), total=None, status="")

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._bar.stop()


class RunProgress(_ProgressBar):
    """Shows one run: phase, messages attempted and acknowledged, active faults. `words`: for phases."""

    def __init__(self, title: str, words: Mapping[str, str] | None = None) -> None:
        super().__init__(title, BarColumn(), MofNCompleteColumn(), _STATUS, TimeElapsedColumn())
        self._title, self._phase, self._words = title, "start", words or {}
        self._faults: dict[str, str] = {}
        self._acked = 0
        self._lock = threading.Lock()

    def phase(self, name: str) -> None:
        """A phase begins."""
        self._phase = self._words.get(name, name)
        if self._live:
            self._bar.update(self._task, description=printable(f"{self._title}: {self._phase}"))
        else:
            self._line(self._phase)

    def messages(self, attempted: int, acked: int, total: int | None) -> None:
        """Live counts."""
        self._acked = acked
        self._draw(attempted, total, "sent", self._status())

    def drained(self, offsets: int, total: int | None) -> None:
        """The number of offsets of the log that were read."""
        self._draw(offsets, total, "read", "")

    def fault(self, step: str, what: str, active: bool) -> None:
        """A fault began or ended."""
        with self._lock:
            if active:
                self._faults[step] = what
            else:
                self._faults.pop(step, None)
        self._line(f"{'injected' if active else 'healed'}: {what}")

    def note(self, text: str) -> None:
        """Prints a sentence."""
        self._line(text)

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
            self._line(f"{done:,}{of} {verb}" + (f", {status}" if status else ""))

    def _line(self, text: str) -> None:
        elapsed = f"{time.monotonic() - self._began_at:7.2f} s  " if Verbosity.lines else ""
        line = printable(f"{elapsed}{self._title}: {text}")
        if self._live:
            self._bar.console.print(line)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


class JudgeProgress(_ProgressBar):
    """Shows how many parts of an analysis are done. `tell` is called at most twice a second."""

    def __init__(self, title: str) -> None:
        super().__init__(f"{title}: judging", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._title, self._shown_at = title, time.monotonic()

    def tell(self, done: int, total: int) -> None:
        """The number of parts done."""
        if self._live:
            self._bar.update(self._task, completed=done, total=total)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            self._console.print(f"{self._title}: counted {done:,} of {total:,} parts", soft_wrap=True)


class RecordsProgress(_ProgressBar):
    """Shows how many offsets have been copied. `tell` may be called at any rate."""

    def __init__(self, title: str) -> None:
        super().__init__(title, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._title = title

    def tell(self, done: int, total: int) -> None:
        """The number of offsets copied."""
        if self._live:
            self._bar.update(self._task, completed=done, total=total)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            self._console.print(f"{self._title}: {done:,} of {total:,} offsets", soft_wrap=True)


class StepsProgress(_ProgressBar):
    """Shows work in several steps, each with its own count. `tell` may be called at any rate."""

    def __init__(self, title: str) -> None:
        super().__init__(title, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._title, self._shown_at = title, time.monotonic()

    def tell(self, what: str, done: int, total: int) -> None:
        """The progress of a step."""
        if self._live:
            text = printable(f"{self._title}: {what}")
            self._bar.update(self._task, description=text, completed=done, total=total)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            self._console.print(f"{self._title}: {what}: {done:,} of {total:,}", soft_wrap=True)


class BytesProgress(_ProgressBar):
    """Shows bytes and partitions copied. `tell` may be called at any rate."""

    def __init__(self, title: str) -> None:
        super().__init__(
            title, BarColumn(), DownloadColumn(), TransferSpeedColumn(), _STATUS, TimeElapsedColumn()
        )
        self._title = title

    def tell(self, copied: int, of_bytes: int, done: int, total: int) -> None:
        """The number of bytes and partitions copied."""
        status = f"{done:,} of {total:,} partitions"
        if self._live:
            self._bar.update(self._task, completed=copied, total=of_bytes or None, status=status)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            self._console.print(
                f"{self._title}: {decimal(copied)} of {decimal(of_bytes)}, {status}", soft_wrap=True
            )
