"""Follows files that a run appends to, each read continuing where the last one ended.

Only complete messages of a stream are read: a partial one will be complete a little later, or is the torn
tail of a dead writer. The files stay open: sealing removes their names, not their content. Not here: the
meaning of the rows (dashboard/watching, analysis/streaming).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

AT_ONCE = 4 << 20  # maximum bytes read from a file at a time
_MAX_MESSAGE = 64 << 20  # a recorder's messages have a few hundred kilobytes
_FRAME = 8  # continuation marker and message length
_ATTEMPTS_AT = 4096  # where the numbers begin (evidence/attempts.py)


class _StreamSource(io.RawIOBase):
    """The file object for Arrow's reader: it only has complete messages, so reads are never short."""

    def __init__(self) -> None:
        self._whole = b""

    def give(self, whole: bytes) -> None:
        """Adds complete messages."""
        self._whole += whole

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = len(self._whole)
        taken, self._whole = self._whole[:size], self._whole[size:]
        return taken


class StreamTail:
    """Follows `columns` of one Arrow stream. Owns the descriptor."""

    def __init__(self, descriptor: int, columns: Sequence[str]) -> None:
        self._descriptor, self._columns = descriptor, columns
        self._at = 0
        self._partial = b""  # of an incomplete message
        self._source = _StreamSource()
        self._reader: pa.RecordBatchReader | None = None
        self.broken = False  # what follows is not a message

    def take(self) -> Iterator[pa.RecordBatch]:
        """The batches completed since the last call, up to AT_ONCE."""
        if self.broken:
            return
        read = os.pread(self._descriptor, AT_ONCE, self._at)
        self._at += len(read)
        self.more = len(read) == AT_ONCE
        waiting = self._partial + read
        whole, batches = self._whole(waiting)
        self._partial = waiting[whole:]
        self.broken = self.broken or len(self._partial) > _MAX_MESSAGE
        try:
            yield from self._batches(waiting[:whole], batches)
        except (pa.ArrowInvalid, OSError, ValueError, KeyError):
            self.broken = True

    more = False  # whether the last read was full, so there may be more

    def _whole(self, waiting: bytes) -> tuple[int, int]:
        """The number of bytes in complete messages, and the number of batches in these."""
        reader, end, batches = pa.BufferReader(waiting), 0, 0
        while len(waiting) - end >= _FRAME:
            try:
                message = pa.ipc.read_message(reader)
            except (EOFError, pa.ArrowInvalid, OSError):
                break
            end = reader.tell()
            batches += message.type == "record batch"
        return end, batches

    def _batches(self, whole: bytes, count: int) -> Iterator[pa.RecordBatch]:
        self._source.give(whole)
        if self._reader is None:
            if not whole:
                return
            self._reader = self._opened(whole)
        for _ in range(count):
            yield self._reader.read_next_batch()

    def _opened(self, whole: bytes) -> pa.RecordBatchReader:
        names = pa.ipc.open_stream(pa.BufferReader(whole)).schema.names
        wanted = [names.index(name) for name in self._columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        return pa.ipc.open_stream(pa.PythonFile(self._source, "r"), options=options)

    def close(self) -> None:
        os.close(self._descriptor)


class AttemptsTail:
    """Follows the times of one producer's attempts, in the order of seq. Owns the descriptor. The producer
    maps the file and writes each number at once; after the last one there are zeros. Read, not mapped: a
    mapped file that shrinks kills its reader.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.count = 0
        self.more = False

    def take(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """attempt_ns of the attempts made since the last call, up to AT_ONCE."""
        read = os.pread(self._descriptor, AT_ONCE, _ATTEMPTS_AT + 8 * self.count)
        cells = np.frombuffer(read[: len(read) // 8 * 8], dtype="<i8")
        made = int(np.argmax(cells == 0)) if len(cells) and (cells == 0).any() else len(cells)
        self.count += made
        self.more = made == AT_ONCE // 8
        return cells[:made].astype(np.int64)

    def close(self) -> None:
        os.close(self._descriptor)
