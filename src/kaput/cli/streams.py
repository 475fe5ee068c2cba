"""stdout and stderr that tolerate a closed pipe, which is not an error and does not change the exit status.

Escapes control characters in data (printable.py). Other write errors (a full disk) are reported when the
program ends.
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
    """A raw stream of a file descriptor. After the first failure all output is dropped."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return len(data)


class Streams:
    """The program's stdout and stderr, from start to end."""

    def __init__(self) -> None:
        _occupy_standard_descriptors()
        codecs.register_error(_ESCAPE, _escape)
        self._stdout, self._stderr = _Raw(1, "wb", closefd=False), _Raw(2, "wb", closefd=False)
        # Streams that were replaced, by a test for example, stay.
        if sys.stdout is None or sys.stdout is sys.__stdout__:
            sys.stdout = _text(self._stdout, sys.stdout, _ESCAPE)
        if sys.stderr is None or sys.stderr is sys.__stderr__:
            sys.stderr = _text(self._stderr, sys.stderr, "backslashreplace")

    def finish(self) -> str | None:
        """Flushes. Returns why stdout could not be written; None if it could, or if its reader closed it."""
        sys.stdout.flush()
        sys.stderr.flush()
        failure = self._stdout.failure
        return None if failure is None or isinstance(failure, BrokenPipeError) else str(failure.strerror)


def _occupy_standard_descriptors() -> None:
    """Opens standard descriptors that are closed: otherwise the next opened file would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _text(raw: _Raw, before: TextIO | None, errors: str) -> TextIO:
    terminal = raw.isatty()
    old = before if isinstance(before, io.TextIOWrapper) else None
    # JSON must be UTF-8 or ASCII; ASCII with the rest escaped.
    whole = old is None or codecs.lookup(old.encoding).name == "utf-8"
    return EscapingStream(
        io.BufferedWriter(raw),
        encoding="utf-8" if whole else "ascii",
        errors=errors,
        line_buffering=terminal or raw.fileno() == 2,
        write_through=old.write_through if old else False,
    )


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Escapes characters that the terminal cannot show, as in JSON, so it is also valid in a JSON string."""
    assert isinstance(error, UnicodeEncodeError)
    return json_escaped(error.object[error.start : error.end]), error.end
