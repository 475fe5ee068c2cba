"""power-loss: the targets' machines lose power: processes and all data not synced to disk are gone.

Kills the processes, then truncates each log to what had been synced. That is the worst case: an
operating system writes some of the rest on its own, within about half a minute. Heals by a restart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kaput.cluster.node import Node
from kaput.cluster.segments import headers, segments
from kaput.core import TopicPartition, first_few
from kaput.errors import LabError, UnknownFormat
from kaput.faults.fault import Effect, in_parallel
from kaput.faults.kill import SigkillFault

_CHECKPOINT = "recovery-point-offset-checkpoint"
# Every record of the metadata log is synced before it counts.
_ALWAYS_SYNCED = "__cluster_metadata"
_DIRECTORY = re.compile(r"(?P<topic>[\w.-]+)-(?P<partition>\d+)")
_FLUSHING = re.compile(r"partition=([\w.-]+)-(\d+), .*Flushing log up to offset (\d+) ")
_RECOVERY_POINT = re.compile(r"([\w.-]+) (\d+) (\d+)")
_FLUSH_WORDS = b"Flushing log up to offset"
_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex", ".snapshot")


@dataclass(frozen=True)
class UnsyncedTail:
    """The end of one log: `size` bytes from offset `synced` on."""

    topic: str
    partition: int
    synced: int
    size: int
    files: tuple[tuple[Path, int], ...]  # (file, the number of its bytes that are kept)


def tails(data: Path, log: Path) -> list[UnsyncedTail]:
    """The unsynced end of each log below `data`, if any. `log`: the broker's log file. The broker must not
    run. Raises OSError, UnknownFormat.
    """
    synced_offsets = _read_checkpoint(data / _CHECKPOINT)
    for place, offset in _read_flushes(log).items():
        synced_offsets[place] = max(offset, synced_offsets.get(place, 0))
    unsynced = []
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        match = _DIRECTORY.fullmatch(folder.name)
        if match is None or match["topic"] == _ALWAYS_SYNCED:
            continue
        place = TopicPartition(match["topic"], int(match["partition"]))
        tail = _tail(folder, place, synced_offsets.get(place, 0))
        if tail.size:
            unsynced.append(tail)
    return unsynced


def cut(tail: UnsyncedTail) -> None:
    """Cuts off the tail, as if it had never reached the disk. Raises OSError."""
    for path, kept_bytes in tail.files:
        if kept_bytes or path == tail.files[0][0]:
            os.truncate(path, kept_bytes)  # the first one stays even if empty: a log needs a segment
            continue
        path.unlink()
        for ending in _INDEX_SUFFIXES:
            path.with_suffix(ending).unlink(missing_ok=True)


def _tail(folder: Path, place: TopicPartition, synced: int) -> UnsyncedTail:
    files = []
    for path in segments(folder):
        kept_bytes = _synced_bytes(path, synced)
        if kept_bytes < path.stat().st_size:
            files.append((path, kept_bytes))
    size = sum(path.stat().st_size - kept_bytes for path, kept_bytes in files)
    return UnsyncedTail(*place, synced, size, tuple(files))


def _synced_bytes(segment: Path, synced: int) -> int:
    """The position of the first batch that is torn, or that contains or follows offset `synced`."""
    end = 0
    for position, head in headers(segment):
        if head.last_offset >= synced:
            return position
        end = position + head.size
    return end


def _read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """The recovery points (version, count, then `topic partition offset` lines). Raises UnknownFormat."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    if not lines:  # Kafka makes the file empty, and writes it when it first flushes
        return {}
    entries = [_RECOVERY_POINT.fullmatch(line) for line in lines[2:]]
    if lines[:2] != ["0", str(len(entries))] or None in entries:
        raise UnknownFormat(f"{path} begins with {lines[:3]}")
    return {TopicPartition(at[1], int(at[2])): int(at[3]) for at in entries if at is not None}


def _read_flushes(log: Path) -> Mapping[TopicPartition, int]:
    """The last offset that each log was flushed up to. Raises UnknownFormat."""
    flushed: dict[TopicPartition, int] = {}
    try:
        with log.open("rb") as lines:
            for line in lines:
                if _FLUSH_WORDS not in line or not line.endswith(b"\n"):
                    continue
                text = line.decode(errors="replace")
                if (match := _FLUSHING.search(text)) is None:
                    raise UnknownFormat(f"{log} has {text.strip()[:300]!r}")
                flushed[TopicPartition(match[1], int(match[2]))] = int(match[3])
    except FileNotFoundError:
        pass
    return flushed


_NAMED = 3


class PowerLoss(SigkillFault):
    """Proof: the process no longer exists, and no log reaches beyond what was synced."""

    name = "power-loss"
    tails: Callable[[Path, Path], list[UnsyncedTail]] = staticmethod(tails)
    cut: Callable[[UnsyncedTail], None] = staticmethod(cut)

    def inject(self, nodes: Sequence[Node]) -> Effect:
        killed = super().inject(nodes)
        hit = [node for node in nodes if self.was_hit(node)]
        if not hit or any(node.running for node in hit):
            return killed
        details = in_parallel(self._truncate, hit)
        return killed.with_proof("; ".join(words for words, _ in details), all(whole for _, whole in details))

    def _truncate(self, node: Node) -> tuple[str, bool]:
        """Truncates one broker's logs; returns a sentence, and whether only synced data is left."""
        try:
            unsynced = self.tails(node.layout.data, node.log)
            for tail in unsynced:
                self.cut(tail)
            left = self.tails(node.layout.data, node.log)
        except (OSError, ValueError) as error:
            raise LabError(f"the logs of {node.title} cannot be cut: {error}") from None
        taken = sum(tail.size for tail in unsynced) - sum(tail.size for tail in left)
        words = f"{node.title}: {taken:,} bytes cut that it had not synced{_tails_text(unsynced)}"
        return f"{words}, {sum(t.size for t in left):,} left" if left else words, not left


def _tails_text(unsynced: Sequence[UnsyncedTail]) -> str:
    """` (orders-0 from offset 900 on, ...)`, the longest first."""
    longest = sorted(unsynced, key=lambda tail: (-tail.size, tail.topic, tail.partition))
    names = [f"{t.topic}-{t.partition} from offset {t.synced:,} on" for t in longest]
    return f" ({first_few(names, _NAMED)})" if names else ""
