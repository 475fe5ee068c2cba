"""Reads files, folders of them, or a pipe as blocks of complete lines.

Files may be compressed (gzip, zstd, bz2, lz4), Parquet, or UTF-16, as Windows PowerShell writes.

Memory is bounded: a line longer than MAX_LINE_BYTES is replaced by an empty one, which is unreadable. Not
here: parsing (parsing.py).
"""

from __future__ import annotations

import codecs
import itertools
import json
import os
import re
import select
from collections.abc import Iterator, Sequence
from pathlib import Path

from kaput.errors import Interrupted, UsageError, unreadable
from kaput.evidence.foreign_lines import compression_of, rows_of
from kaput.sequence.tool_lines import COLUMNS

BLOCK_BYTES = 1 << 21
MAX_LINE_BYTES = 1 << 20
_SLICE = 1 << 18
_IDLE_S = 0.2
STDIN = "-"
_TABLE = re.compile(rb'\s*(?:\[|\{\s*"[^"]*"\s*:\s*[\[{])')


def blocks(paths: Sequence[str]) -> Iterator[bytes]:
    """Blocks of all files in order, `-` for stdin. Adds a missing newline at the end of a file. Raises
    UsageError for a file that can't be read; Interrupted, after yielding everything read before.
    """
    for path in [file for each in paths for file in _files(each)]:
        descriptor = _opened(path)
        try:
            start = _start(descriptor, path)
            compression = compression_of(start)
            if start == b"PAR1":
                yield from _of_parquet(path)
                continue
            chunks = _chunks(descriptor, path) if compression is None else _unpacked(path, compression)
            yield from _lines(_of_table(_as_utf8(chunks)))
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


def _start(descriptor: int, path: str) -> bytes:
    """A file's first bytes; none of a pipe."""
    try:
        return b"" if path == STDIN else os.pread(descriptor, 4, 0)
    except OSError:
        return b""  # a named pipe


def _of_parquet(path: str) -> Iterator[bytes]:
    """The rows of a Parquet file as JSON lines, of the columns that tell something about a message."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        names = {name: name.lower() for name in file.schema_arrow.names if name.lower() in COLUMNS}
        if not {"number", "seq"} & set(names.values()):
            has = ", ".join(file.schema_arrow.names[:10])
            raise UsageError(f"{path}: has no column number or seq (its columns: {has})")
        for batch in file.iter_batches(columns=list(names)):
            texts = [each.cast(pa.string()) if pa.types.is_timestamp(each.type) else each for each in batch]
            rows = pa.RecordBatch.from_arrays(texts, [names[name] for name in batch.schema.names])
            yield b"".join(json.dumps(row, default=str).encode() + b"\n" for row in rows.to_pylist())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as Parquet ({error})") from None


def _unpacked(path: str, compression: str) -> Iterator[bytes]:
    import pyarrow as pa

    try:
        with pa.input_stream(path, compression=compression) as stream:
            while chunk := stream.read(BLOCK_BYTES):
                yield chunk
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


def _of_table(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The rows of a JSON document that holds a whole table as lines; anything else as it is."""
    first = next(chunks, b"")
    if not _TABLE.match(first):
        yield first
        yield from chunks
        return
    text = first + b"".join(chunks)
    try:
        rows = rows_of(json.loads(text))
    except (ValueError, RecursionError):
        rows = None
    yield text if rows is None else b"".join(json.dumps(row).encode() + b"\n" for row in rows)


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
