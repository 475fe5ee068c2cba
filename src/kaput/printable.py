"""Text that kaput did not write, made safe to print: nothing in it moves the cursor or hides.

The one home of that: record keys and values, log lines, error messages of clients, names that a cluster or a
run folder has. `printable` is for a value that stands on a line, `printable_lines` for text that may have
several. kaput's streams (cli/streams.py) pass everything through `printable_lines` once more, so that what
somebody forgets is escaped as well.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# Control characters (C0, DEL, C1), the separators of lines and paragraphs, and what Unicode calls
# default-ignorable: bidirectional controls, and characters without a width.
_UNSAFE = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)
_ON_A_LINE = re.compile(f"[\\n\\t{_UNSAFE}]")
_IN_LINES = re.compile(f"[{_UNSAFE}]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """`text` on one line: newlines and tabs are escaped as well."""
    return _ON_A_LINE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """`text` with its newlines and tabs, everything else escaped. JSON stays the same JSON."""
    return _IN_LINES.sub(_escaped, text)


def printable_document(value: Any) -> Any:
    """A JSON-like document with every string in it, keys too, as `printable` writes it."""
    match value:
        case str():
            return printable(value)
        case Mapping():
            return {printable_document(key): printable_document(each) for key, each in value.items()}
        case list() | tuple():
            return [printable_document(each) for each in value]
    return value


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    # No string of JSON has C0 as it is. All else may stand in one, so it is written as JSON writes it.
    return _NAMED.get(char, f"\\x{ord(char):02x}") if char < " " else json_escaped(char)


def json_escaped(text: str) -> str:
    """Every character as `\\uNNNN`, those beyond 16 bits as two."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class EscapingStream(io.TextIOWrapper):
    """A stream that escapes what is written to it; `unescaped` is the same one as it is."""

    def write(self, text: str, /) -> int:
        """Writes `printable_lines(text)`."""
        return super().write(printable_lines(text))

    @property
    def unescaped(self) -> _Unescaped:
        """For control sequences of kaput's own."""
        return _Unescaped(self)


class _Unescaped:
    """An EscapingStream without the escaping."""

    def __init__(self, stream: EscapingStream) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        """As it is."""
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class EscapingBytes(io.RawIOBase):
    """For a writer of UTF-8 bytes, onto a stream that escapes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._decoder = stream, codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        """Nothing else."""
        return True

    def write(self, data: Buffer, /) -> int:
        """All of it, in whole characters."""
        taken = bytes(data)
        self._stream.write(self._decoder.decode(taken))
        return len(taken)


def unescaped(stream: TextIO) -> TextIO:
    """Where to write control sequences of kaput's own: colours, and lines that are rewritten."""
    found: TextIO = getattr(stream, "unescaped", stream)
    return found
