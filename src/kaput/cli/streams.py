"""stdout and stderr whose reader may go away: a closed pipe is no error and changes no exit status.

Control characters of data are escaped on their way (printable.py). What else keeps stdout from being written
(a full disk) is kept until the program ends, and said then.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any, TextIO

from kaput.printable import EscapingStream, json_escaped

_ESCAPE = "kaput-escape"


class _Raw(io.FileIO):
    """The descriptor itself. After the first failure everything is dropped."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return len(data)


class Streams:
    """stdout and stderr of this program, from its start to its end."""

    def __init__(self) -> None:
        _occupy_standard_descriptors()
        codecs.register_error(_ESCAPE, _escape)
        self._stdout, self._stderr = _Raw(1, "wb", closefd=False), _Raw(2, "wb", closefd=False)
        # Somebody else's, a test's for example, are left alone.
        if sys.stdout is None or sys.stdout is sys.__stdout__:
            sys.stdout = _text(self._stdout, sys.stdout, _ESCAPE)
        if sys.stderr is None or sys.stderr is sys.__stderr__:
            sys.stderr = _text(self._stderr, sys.stderr, "backslashreplace")

    def finish(self) -> str | None:
        """Writes what is gathered. Why stdout could not take it all; None where it could, or was closed."""
        sys.stdout.flush()
        sys.stderr.flush()
        failure = self._stdout.failure
        return None if failure is None or isinstance(failure, BrokenPipeError) else str(failure.strerror)


def _occupy_standard_descriptors() -> None:
    """A descriptor that was closed at the start would be the next file's, and a child's stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _text(raw: _Raw, before: TextIO | None, errors: str) -> TextIO:
    terminal = raw.isatty()
    old = before if isinstance(before, io.TextIOWrapper) else None
    # JSON is UTF-8, or ASCII, and in no other encoding; what ASCII lacks is escaped.
    whole = old is None or codecs.lookup(old.encoding).name == "utf-8"
    return EscapingStream(
        io.BufferedWriter(raw),
        encoding="utf-8" if whole else "ascii",
        errors=errors,
        line_buffering=terminal or raw.fileno() == 2,
        write_through=old.write_through if old else False,
    )


def _escape(error: UnicodeError) -> tuple[str, int]:
    """What the terminal's encoding lacks, written as JSON writes it: also right inside a JSON string."""
    assert isinstance(error, UnicodeEncodeError)
    return json_escaped(error.object[error.start : error.end]), error.end
