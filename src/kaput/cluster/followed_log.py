"""Follows one partition's log on the disks of several replicas while brokers write them: each batch once.

A batch that only some replicas have may still be truncated, so it counts once `enough` of them have it.
Not here: reading one replica's files (segments.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kaput.cluster.record_batches import StoredBatch
from kaput.cluster.segments import SegmentReader

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
        found: dict[_BatchKey, StoredBatch] = {}
        for replica in self._readers:
            while batches := self._read(replica):
                for batch in batches:
                    key = (batch.head.leader_epoch, batch.head.base_offset)
                    if key <= self._returned:
                        continue
                    self._holders[key].add(replica)
                    if len(self._holders[key]) >= self._enough:
                        found[key] = batch
        if found:
            self._returned = max(found)
            for key in [key for key in self._holders if key <= self._returned]:
                del self._holders[key]
        return [found[key] for key in sorted(found)]

    def close(self) -> None:
        """Closes the files."""
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
