"""Reads files, folders of them, or a pipe as blocks of complete lines.

Files may be compressed (gzip, zstd, bz2, lz4), Parquet, or UTF-16, as Windows PowerShell writes.

Memory is bounded: a line longer than MAX_LINE_BYTES is replaced by an empty one, which is unreadable. Not
here: parsing (parsing.py).
"""

from __future__ import annotations

import bisect
import codecs
import io
import itertools
import json
import os
import re
import select
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kaput.errors import Interrupted, UsageError, unreadable
from kaput.evidence.foreign_lines import compression_of, rows_of
from kaput.sequence.tool_lines import COLUMNS

BLOCK_BYTES = 1 << 21
MAX_LINE_BYTES = 1 << 20
_SLICE = 1 << 18
_PART = 1 << 10
_IDLE_S = 0.2
STDIN = "-"
_TABLE = re.compile(rb'\s*(?:\[(?![0-9]{4}-)|\{\s*"[^"]*"\s*:\s*[\[{])')


class Place(NamedTuple):
    """Where a line is: its number, from 1, in a file (None: stdin), or that of a row in a table."""

    file: str | None
    line: int
    is_row: bool = False

    def __str__(self) -> str:
        if self.file is None or self.is_row:
            row = f"{'row' if self.is_row else 'line'} {self.line:,}"
            return row if self.file is None else f"{self.file}, {row}"
        return f"{self.file}:{self.line}"


class Places:
    """The places of lines that are counted over all files, from 0."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._files: list[tuple[str, bool]] = []

    def begin(self, file: str, is_table: bool, line: int) -> None:
        """A file begins, with this line."""
        self._starts.append(line)
        self._files.append((file, is_table))

    def of(self, line: int) -> Place:
        at = bisect.bisect(self._starts, line) - 1
        if at < 0:
            return Place(None, line + 1)
        file, is_table = self._files[at]
        return Place(None if file == STDIN else file, line - self._starts[at] + 1, is_table)


# Gets a file's name before its first block, and whether its lines are the rows of a table.
OnFile = Callable[[str, bool], None]


def blocks(paths: Sequence[str], on_file: OnFile = lambda path, is_table: None) -> Iterator[bytes]:
    """Blocks of all files in order, `-` for stdin. Adds a missing newline at the end of a file. Raises
    UsageError for a file that can't be read; Interrupted, after yielding everything read before.
    """
    for path in [file for each in paths for file in _files(each)]:
        descriptor = _opened(path)
        try:
            start, chunks = _started(_chunks(descriptor, path))
            if start.startswith(b"PAR1"):
                on_file(path, True)
                yield from _of_parquet(path, chunks)
                continue
            compression = compression_of(start)
            chunks = chunks if compression is None else _unpacked(path, chunks, compression)
            rows, chunks = _of_table(_as_utf8(chunks))
            on_file(path, rows is not None)
            yield from _lines(chunks if rows is None else iter([rows]))
        finally:
            if descriptor != 0:
                os.close(descriptor)


def _files(path: str) -> list[str]:
    """The files of a folder, such as Spark's, in the order of their names; a file as it is."""
    root = Path(path)
    if path == STDIN or not root.is_dir():
        return [path]
    try:
        files = [str(file) for file in sorted(root.iterdir()) if file.name[0] not in "_." and file.is_file()]
    except OSError as error:
        raise unreadable(path, error) from None
    if not files:
        raise UsageError(f"{path}: is a directory without files (names that begin with _ or . are skipped)")
    return files


def _started(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, at least four if there are as many in the first line, and all chunks."""
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= 4 or b"\n" in start:
            break
    return start, itertools.chain([start], chunks)


def _of_parquet(path: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The rows of a Parquet file as JSON lines, of the columns that tell something about a message."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kaput.evidence.foreign_columns import plain

    try:
        is_file = path != STDIN and Path(path).is_file()
        file = pq.ParquetFile(path if is_file else pa.BufferReader(b"".join(chunks)))
        there = file.schema_arrow.names
        names = [name for name in there if name.lower() in COLUMNS]
        lower = [name.lower() for name in names]
        if not {"number", "seq"} & set(lower):
            raise UsageError(f"{path}: has no column number or seq (its columns: {', '.join(there[:10])})")
        if twice := next((name for name in lower if lower.count(name) > 1), None):
            raise UsageError(f"{path}: column {twice!r} is there twice")
        for field in (file.schema_arrow.field(name) for name in names):
            if pa.types.is_duration(field.type):
                raise UsageError(f"{path}: column {field.name!r} is {field.type}, which is no time")
        for batch in file.iter_batches(columns=names):
            texts = [each.cast(pa.string()) if pa.types.is_temporal(each.type) else each for each in batch]
            columns = [plain(each).to_pylist() for each in texts]
            rows = (dict(zip(lower, row, strict=True)) for row in zip(*columns, strict=True))
            yield b"".join(json.dumps(row, default=str).encode() + b"\n" for row in rows)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as Parquet ({error})") from None


class _Stream(io.RawIOBase):
    """Chunks as a file, of which a read waits for no more than there is."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = chunk
        size = len(self._rest) if size < 0 else size
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def _unpacked(path: str, chunks: Iterator[bytes], compression: str) -> Iterator[bytes]:
    import pyarrow as pa

    parts: list[bytes] = []
    size = 0
    try:
        with pa.CompressedInputStream(pa.PythonFile(_Stream(chunks), mode="r"), compression) as stream:
            # In small parts: of the one that is being read when Ctrl-C comes, nothing is left.
            while part := stream.read(_PART):
                parts.append(part)
                size += len(part)
                if size >= BLOCK_BYTES:
                    yield b"".join(parts)
                    parts, size = [], 0
        yield b"".join(parts)
    except Interrupted:
        yield b"".join(parts)
        raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as {compression} ({error})") from None


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same text without the byte order mark at its beginning, which tells UTF-16."""
    first = next(chunks, b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for chunk in itertools.chain([first], chunks):
        yield decoder.decode(chunk).encode()


def _of_table(chunks: Iterator[bytes]) -> tuple[bytes | None, Iterator[bytes]]:
    """The rows of a JSON document that holds a whole table as lines; None, and all chunks: it is none."""
    first = next(chunks, b"")
    line, _, more = first.partition(b"\n")
    if not _TABLE.match(first) or (more.strip() and _is_json(line)):
        return None, itertools.chain([first], chunks)
    text = first + b"".join(chunks)
    try:
        rows = rows_of(json.loads(text))
    except (ValueError, RecursionError):
        rows = None
    lines = None if rows is None else b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return lines, iter([text])


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _opened(path: str) -> int:
    if path == STDIN:
        return 0
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(path, error) from None


def _chunks(descriptor: int, path: str) -> Iterator[bytes]:
    """Chunks of the input: up to BLOCK_BYTES, or less if the input is idle."""
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            # Do not hold back lines while waiting for a slow writer.
            idle = size > 0 and not select.select([descriptor], [], [], _IDLE_S)[0]
            part = b"" if idle else os.read(descriptor, _SLICE)
        except Interrupted:
            yield b"".join(parts)
            raise
        except OSError as error:
            raise unreadable(path, error) from None
        parts.append(part)
        size += len(part)
        if not part or size >= BLOCK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
        if not part and not idle:
            return


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, cut after newlines."""
    rest, dropping = b"", False
    for chunk in chunks:
        whole, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest, dropping = _extended(rest, tail, dropping)
            continue
        # A line that was too long is replaced by an empty one.
        head = whole.partition(b"\n") if dropping else (b"", b"", b"")
        block = b"\n" + (head[2] + b"\n" if head[1] else b"") if dropping else rest + whole + b"\n"
        yield block
        rest, dropping = _extended(b"", tail, False)
    if rest or dropping:
        yield rest + b"\n"


def _extended(rest: bytes, more: bytes, dropping: bool) -> tuple[bytes, bool]:
    """The incomplete line extended by `more`, and whether it is too long, so that it is dropped."""
    if dropping or len(rest) + len(more) > MAX_LINE_BYTES:
        return b"", True
    return rest + more, False
