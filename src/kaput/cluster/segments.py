"""One replica's log on disk, read while the running broker writes it.

Kafka appends whole batches to the newest segment file and shortens it where a new leader's log ends earlier.
Nothing is locked and nothing mapped (a mapped file that shrinks ends the process that reads it): each read is
one fstat, and one pread if there is more. Not here: the contents of batches (record_batches.py).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kaput.cluster.record_batches import HEADER_BYTES, Header, StoredBatch, header, later_magic
from kaput.errors import UnknownFormat

CHUNK_BYTES = 1 << 20
BACKLOG_BYTES_MAX = 64 << 20

TRUNCATED = "truncated"
OVERWRITTEN = "overwritten"


def directory(data: Path, topic: str, partition: int) -> Path:
    """The directory of a partition within a data directory, or within the second one beside it."""
    first, second = (place / f"{topic}-{partition}" for place in (data, data.with_name(f"{data.name}-2")))
    return second if second.is_dir() and not first.is_dir() else first


def log_end(replica: Path) -> int:
    """The offset after the last complete batch; 0 without a log. Raises OSError."""
    files = segments(replica)
    if not files:
        return 0
    end = int(files[-1].stem)
    for _, head in headers(files[-1]):
        end = head.last_offset + 1
    return end


class SegmentReader:
    """Reads a replica's log forward, from the batch that contains `offset`, while it only grows. It ends
    (`ended` is the reason) if the log is truncated or replaced: at a batch of a later epoch than `epoch`, or
    one that does not continue the previous one. Not thread-safe.
    """

    def __init__(
        self, replica: Path, offset: int, epoch: int, *, backlog_bytes_max: int = BACKLOG_BYTES_MAX
    ) -> None:
        """Raises OSError if there is no log."""
        self._replica, self._epoch = replica, epoch
        self.ended: str | None = None
        files = segments(replica)
        if not files:
            raise FileNotFoundError(f"{replica} has no segment file")
        path = max((s for s in files if int(s.stem) <= offset), default=files[0])
        if sum(s.stat().st_size for s in files if s > path) > backlog_bytes_max:
            path = files[-1]
        self.next_offset, self._position = _find_batch(path, offset, backlog_bytes_max)
        self._file = os.open(path, os.O_RDONLY)

    @property
    def place(self) -> tuple[int, int]:
        """The current file, and the position in it."""
        return self._file, self._position

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read(self) -> list[StoredBatch]:
        """New complete batches, about CHUNK_BYTES at most; may be empty."""
        if self.ended is not None:
            return []
        size = os.fstat(self._file).st_size
        if size < self._position:
            self.ended = TRUNCATED
            return []
        if size == self._position:
            self._next_segment()
            return []
        data = os.pread(self._file, min(size - self._position, CHUNK_BYTES), self._position)
        return self._complete_batches(data)

    def _complete_batches(self, data: bytes) -> list[StoredBatch]:
        """The complete batches in `data`; an incomplete one is read again next time."""
        batches: list[StoredBatch] = []
        at = 0
        while (head := self._header(data, at)) is not None:
            if at + head.size > len(data):
                if at:
                    break
                data = os.pread(self._file, head.size, self._position)  # larger than a chunk
                if len(data) < head.size:
                    break
            batches.append(StoredBatch(head, data[at : at + head.size]))
            self.next_offset = head.last_offset + 1
            at += head.size
        self._position += at
        return batches

    def _header(self, data: bytes, at: int) -> Header | None:
        try:
            head = header(data, at)
        except ValueError:
            self.ended = OVERWRITTEN
            return None
        if head is not None and (head.base_offset != self.next_offset or head.leader_epoch > self._epoch):
            self.ended = OVERWRITTEN
            return None
        return head

    def _next_segment(self) -> None:
        """The next segment is named after its first offset."""
        following = self._replica / f"{self.next_offset:020d}.log"
        try:
            opened = os.open(following, os.O_RDONLY)
        except FileNotFoundError:
            if not os.fstat(self._file).st_nlink:  # the broker's disk was emptied, or the topic deleted
                self.ended = TRUNCATED
            return
        if os.path.sameopenfile(opened, self._file):  # an empty segment has the name of its successor
            os.close(opened)
            return
        self.close()
        self._file, self._position = opened, 0


def segments(replica: Path) -> list[Path]:
    """A replica's segment files, oldest first."""
    return sorted(path for path in replica.glob("*.log") if path.stem.isdigit())


def _find_batch(segment: Path, offset: int, backlog_bytes_max: int) -> tuple[int, int]:
    """The base offset and position of the batch that contains `offset`, or of the end. If more than
    `backlog_bytes_max` follows, a later batch: reading it all would disturb the measurement.
    """
    size = segment.stat().st_size
    end = int(segment.stem), 0
    for position, head in headers(segment):
        if head.last_offset >= offset and size - position <= backlog_bytes_max:
            return head.base_offset, position
        end = head.last_offset + 1, position + head.size
    return end


def headers(segment: Path) -> Iterator[tuple[int, Header]]:
    """Position and header of each complete batch. Raises OSError; UnknownFormat for a later format."""
    file = os.open(segment, os.O_RDONLY)
    try:
        size, position = os.fstat(file).st_size, 0
        if (magic := later_magic(os.pread(file, HEADER_BYTES, 0))) is not None:
            raise UnknownFormat(f"{segment} has record batches in format {magic}")
        while position < size:
            try:
                head = header(os.pread(file, HEADER_BYTES, position))
            except ValueError:
                return
            if head is None or position + head.size > size:
                return
            yield position, head
            position += head.size
    finally:
        os.close(file)


_ANY_EPOCH = 2**31 - 1
_BatchKey = tuple[int, int]  # (leader epoch, base offset): increasing within a log


class FollowedLog:
    """`replicas`: directories, which need not exist yet. Not thread-safe."""

    def __init__(self, replicas: Sequence[Path], enough: int) -> None:
        self._readers: dict[Path, SegmentReader | None] = dict.fromkeys(replicas)
        self._enough = enough
        self._holders: dict[_BatchKey, set[Path]] = defaultdict(set)
        self._returned: _BatchKey = (-1, -1)

    def take(self) -> list[StoredBatch]:
        """New batches that enough replicas have, in order; all of them on the first call. Raises OSError."""
        complete: dict[_BatchKey, StoredBatch] = {}
        for replica in self._readers:
            while batches := self._read(replica):
                for batch in batches:
                    key = (batch.head.leader_epoch, batch.head.base_offset)
                    if key <= self._returned:
                        continue
                    self._holders[key].add(replica)
                    if len(self._holders[key]) >= self._enough:
                        complete[key] = batch
        if complete:
            self._returned = max(complete)
            for key in [key for key in self._holders if key <= self._returned]:
                del self._holders[key]
        return [complete[key] for key in sorted(complete)]

    def close(self) -> None:
        for reader in self._readers.values():
            if reader is not None:
                reader.close()

    def _read(self, replica: Path) -> list[StoredBatch]:
        reader = self._readers[replica]
        if reader is None:
            with suppress(FileNotFoundError):
                reader = self._readers[replica] = SegmentReader(replica, 0, _ANY_EPOCH)
        if reader is None:
            return []
        batches = reader.read()
        if reader.ended is not None:  # truncated: read again from the start, since its batches may differ now
            reader.close()
            self._readers[replica] = None
        return batches
