"""Input as blocks of whole lines: from files, or from a pipe, which gives what it has.

Memory is bounded: a line longer than LONGEST bytes is cut to nothing, and so is unreadable.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from pathlib import Path

from kaput.errors import Interrupted, UsageError

BLOCK_BYTES = 1 << 21
LONGEST = 1 << 20
_SLICE = 1 << 18
_PATIENCE_S = 0.2
STDIN = "-"


def blocks(paths: Sequence[str]) -> Iterator[bytes]:
    """Every file in its turn, `-` for stdin. A last line without its newline is given one.

    Raises UsageError for a file that can't be read; Interrupted, when all that was read before was given.
    """
    for path in paths:
        descriptor = _opened(path)
        try:
            yield from _lines(_gathered(descriptor, path))
        finally:
            if descriptor != 0:
                os.close(descriptor)


def _opened(path: str) -> int:
    if path == STDIN:
        return 0
    try:
        if Path(path).is_dir():
            raise UsageError(f"{path}: is a directory")
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _gathered(descriptor: int, path: str) -> Iterator[bytes]:
    """What has come, as much as a block at a time; while nothing more comes, what is there."""
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            # Whoever writes slowly is not waited for with lines in hand.
            idle = size > 0 and not select.select([descriptor], [], [], _PATIENCE_S)[0]
            part = b"" if idle else os.read(descriptor, _SLICE)
        except Interrupted:
            yield b"".join(parts)
            raise
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        parts.append(part)
        size += len(part)
        if not part or size >= BLOCK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
        if not part and not idle:
            return


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, cut behind newlines."""
    rest, dropping = b"", False
    for chunk in chunks:
        whole, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest, dropping = _longer(rest, tail, dropping)
            continue
        # Of a line that was too long an empty one is left.
        head = whole.partition(b"\n") if dropping else (b"", b"", b"")
        block = b"\n" + (head[2] + b"\n" if head[1] else b"") if dropping else rest + whole + b"\n"
        yield block
        rest, dropping = _longer(b"", tail, False)
    if rest or dropping:
        yield rest + b"\n"


def _longer(rest: bytes, more: bytes, dropping: bool) -> tuple[bytes, bool]:
    """A line that is not at its end yet, and whether it is too long to be kept."""
    if dropping or len(rest) + len(more) > LONGEST:
        return b"", True
    return rest + more, False
