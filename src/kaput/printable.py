"""Makes text from elsewhere safe to print: nothing in it moves the cursor or hides.

Such text is record keys and values, log lines, error messages of clients, and names from a cluster or a run
folder. `printable` is for a value within a line, `printable_lines` for text of several lines. kaput's streams
(cli/main.py) pass everything through `printable_lines` again, to catch what a caller forgot.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# Control characters (C0, DEL, C1), line and paragraph separators, and Unicode's default-ignorable characters:
# bidirectional controls, and characters without a width.
_UNSAFE = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)
_ON_A_LINE = re.compile(f"[\\n\\t{_UNSAFE}]")
_IN_LINES = re.compile(f"[{_UNSAFE}]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """`text` as one line: newlines and tabs are escaped too."""
    return _ON_A_LINE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """`text` with newlines and tabs kept, and other unsafe characters escaped. JSON stays equal JSON."""
    return _IN_LINES.sub(_escaped, text)


def printable_document(value: Any) -> Any:
    """A JSON-like document with `printable` applied to all strings, including keys."""
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
    # A JSON string never contains raw C0 characters, but may contain others, so these get JSON escapes.
    return _NAMED.get(char, f"\\x{ord(char):02x}") if char < " " else json_escaped(char)


def json_escaped(text: str) -> str:
    """Every character as `\\uNNNN`, those above 16 bits as two."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class EscapingStream(io.TextIOWrapper):
    """Escapes everything written to it but to `unescaped`. `used`: whether anything was written."""

    used = False

    def write(self, text: str, /) -> int:
        """Writes `printable_lines(text)`."""
        self.used = True
        return super().write(printable_lines(text))

    @property
    def unescaped(self) -> _Unescaped:
        """The stream for kaput's own control sequences."""
        return _Unescaped(self)


class _Unescaped:
    """An EscapingStream without the escaping."""

    def __init__(self, stream: EscapingStream) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class EscapingBytes(io.RawIOBase):
    """A binary stream of UTF-8 that writes to an escaping text stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._decoder = stream, codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        """Writes all complete characters; keeps an incomplete one for the next call."""
        taken = bytes(data)
        self._stream.write(self._decoder.decode(taken))
        return len(taken)


def unescaped(stream: TextIO) -> TextIO:
    """The stream for kaput's own control sequences: colors, and lines that are rewritten."""
    inner: TextIO = getattr(stream, "unescaped", stream)
    return inner
