"""Files that a run appends to, read on from where they were last read.

Of a stream only messages that are whole are looked at: what is half-written now is whole a moment later, or
is the torn tail of a dead writer. The files stay open: sealing removes their names, not what is in them.
Not here: what the rows mean (dashboard/watching, analysis/streaming).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

AT_ONCE = 4 << 20  # bytes that a look reads of one file
_LONGEST = 64 << 20  # a message of a recorder has some hundred kilobytes
_FRAME = 8  # a mark and the length of what follows
_ATTEMPTS_AT = 4096  # where the numbers begin (evidence/attempts.py)


class _Source(io.RawIOBase):
    """What Arrow's reader is given to read: whole messages, and never less than it asks for."""

    def __init__(self) -> None:
        self._whole = b""

    def give(self, whole: bytes) -> None:
        """More to read; everything before has been read."""
        self._whole = self._whole + whole if self._whole else whole

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = len(self._whole)
        taken, self._whole = self._whole[:size], self._whole[size:]
        return taken


class StreamTail:
    """One Arrow stream, of which `columns` are wanted. Owns the descriptor."""

    def __init__(self, descriptor: int, columns: Sequence[str]) -> None:
        self._descriptor, self._columns = descriptor, columns
        self._at = 0
        self._begun = b""  # of a message that is not whole yet
        self._source = _Source()
        self._reader: pa.RecordBatchReader | None = None
        self.broken = False  # what follows is no message, and never will be

    def take(self) -> Iterator[pa.RecordBatch]:
        """The batches that have become whole since; of very many the first."""
        if self.broken:
            return
        read = os.pread(self._descriptor, AT_ONCE, self._at)
        self._at += len(read)
        self.more = len(read) == AT_ONCE
        waiting = self._begun + read
        whole, batches = self._whole(waiting)
        self._begun = waiting[whole:]
        self.broken = self.broken or len(self._begun) > _LONGEST
        try:
            yield from self._batches(waiting[:whole], batches)
        except (pa.ArrowInvalid, OSError, ValueError, KeyError):
            self.broken = True

    more = False  # whether there was more than a look reads

    def _whole(self, waiting: bytes) -> tuple[int, int]:
        """How many of these bytes are whole messages, and how many of those are batches."""
        reader, end, batches = pa.BufferReader(waiting), 0, 0
        while len(waiting) - end >= _FRAME:
            try:
                message = pa.ipc.read_message(reader)
            except EOFError:
                break
            except (pa.ArrowInvalid, OSError):
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
        """Lets the file go."""
        os.close(self._descriptor)


class AttemptsTail:
    """The moments at which one producer made its attempts, in the order of seq. Owns the descriptor.

    The producer has the file mapped and writes each number at once; behind the last one it has zeros. Read,
    and not mapped as well: a mapped file that shrinks ends the process that reads it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.count = 0
        self.more = False

    def take(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """attempt_ns of those made since; of very many the first."""
        read = os.pread(self._descriptor, AT_ONCE, _ATTEMPTS_AT + 8 * self.count)
        cells = np.frombuffer(read[: len(read) // 8 * 8], dtype="<i8")
        made = int(np.argmax(cells == 0)) if len(cells) and (cells == 0).any() else len(cells)
        self.count += made
        self.more = made == AT_ONCE // 8
        return cells[:made].astype(np.int64)

    def close(self) -> None:
        """Lets the file go."""
        os.close(self._descriptor)
