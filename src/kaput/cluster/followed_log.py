"""One log, followed on the disks of several of its replicas while brokers write them: each batch once.

What only some replicas have may still be truncated, so a batch counts once `enough` of them have it.
Not here: reading one replica's files (segments.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kaput.cluster.segments import Batch, SegmentReader

_ANY_EPOCH = 2**31 - 1
_Mark = tuple[int, int]  # (leader epoch, base offset), which only grow in a log


class FollowedLog:
    """`replicas`: directories, which need not exist yet. Not thread-safe."""

    def __init__(self, replicas: Sequence[Path], enough: int) -> None:
        self._readers: dict[Path, SegmentReader | None] = dict.fromkeys(replicas)
        self._enough = enough
        self._have: dict[_Mark, set[Path]] = defaultdict(set)
        self._told: _Mark = (-1, -1)

    def take(self) -> list[Batch]:
        """Batches that enough replicas have now, in the log's order; at first all. Raises OSError."""
        found: dict[_Mark, Batch] = {}
        for replica in self._readers:
            while batches := self._read(replica):
                for batch in batches:
                    mark = (batch.head.leader_epoch, batch.head.base_offset)
                    if mark <= self._told:
                        continue
                    self._have[mark].add(replica)
                    if len(self._have[mark]) >= self._enough:
                        found[mark] = batch
        if found:
            self._told = max(found)
            for mark in [mark for mark in self._have if mark <= self._told]:
                del self._have[mark]
        return [found[mark] for mark in sorted(found)]

    def close(self) -> None:
        """Closes the files."""
        for reader in self._readers.values():
            if reader is not None:
                reader.close()

    def _read(self, replica: Path) -> list[Batch]:
        reader = self._readers[replica]
        if reader is None:
            with suppress(FileNotFoundError):
                reader = self._readers[replica] = SegmentReader(replica, 0, _ANY_EPOCH)
        if reader is None:
            return []
        batches = reader.read()
        if reader.ended is not None:  # truncated: read anew, since what it has now may be different
            reader.close()
            self._readers[replica] = None
        return batches
