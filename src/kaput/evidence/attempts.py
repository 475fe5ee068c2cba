"""Records what a producer is about to send so that it survives the producer's death: one number per message,
in mapped memory.

FOLDER/evidence/sends/producer-N.attempts holds a header (producer, topic and, where it has a name, the
cluster) and then attempt_ns by seq.
It is written before each send and needs no system call, so a SIGKILL of the producer loses nothing.
Sealing (sealing.py) turns attempts that never got an outcome into `unknown` and removes the file.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kaput.core import cluster_and_topic, qualified
from kaput.errors import EvidenceError
from kaput.evidence.recording import hold_to_record

SUFFIX = ".attempts"
_HEADER = struct.Struct("<8sii288s")  # magic, producer, length of the topic's name, the name
_MAGIC = b"KPATTMP1"
_CHUNK = 1 << 20  # bytes mapped at a time: memory does not grow with the run
_SLOTS = _CHUNK // 8
_PAGE_START = 4096  # the numbers start on a page boundary, as a mapping must


Times = np.ndarray[tuple[int], np.dtype[np.int64]]


class AttemptWriter:
    """Writes the attempts of one producer, in the order of seq. Not safe across threads. While it is open no
    other process can seal the folder. `again`: after a killed process of the producer, whose attempts
    (`made`: their times) stay. Raises EvidenceError if the file exists, and not `again`.
    """

    def __init__(
        self, folder: Path, producer: int, topic: str, cluster: str | None = None, *, again: bool = False
    ) -> None:
        directory = folder / "evidence" / "sends"
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"producer-{producer}{SUFFIX}"
        self._hold = hold_to_record(folder, f"sends/{path.name}")
        earlier = read_attempts(path) if again else None
        self.made: Times = np.zeros(0, np.int64) if earlier is None else earlier.attempt_ns
        try:
            self._file = path.open("r+b" if again else "x+b")
        except FileExistsError:
            self._hold.release()
            raise EvidenceError(f"{path}: already recorded, and never overwritten") from None
        self._producer, self._topic = producer, topic
        self.sends_to(cluster)
        self._base = len(self.made) // _SLOTS * _SLOTS  # the seq that _slots[0] stands for
        self._map, self._slots = self._mapped(self._base // _SLOTS)

    def sends_to(self, cluster: str | None) -> None:
        """Records that the producer sends to this cluster from now on."""
        name = qualified(cluster, self._topic).encode()
        self._file.seek(0)
        self._file.write(_HEADER.pack(_MAGIC, self._producer, len(name), name))
        self._file.flush()

    def _mapped(self, chunk: int) -> tuple[mmap.mmap, memoryview]:
        self._file.truncate(_PAGE_START + (chunk + 1) * _CHUNK)
        mapped = mmap.mmap(self._file.fileno(), _CHUNK, offset=_PAGE_START + chunk * _CHUNK)
        return mapped, memoryview(mapped).cast("q")

    def cells(self, start: int, end: int) -> memoryview:
        """For hot loops: a view of the slots from seq `start` on. Storing a time there records an attempt.
        Ends at `end`, or where the mapping ends. Must be released before the next call.
        """
        if start - self._base >= _SLOTS:
            self._unmap()
            self._base = start - start % _SLOTS
            self._map, self._slots = self._mapped(self._base // _SLOTS)
        return self._slots[start - self._base : end - self._base]

    def attempt(self, seq: int, at_ns: int) -> None:
        """Records that `seq` is about to be sent. If it is sent again, the last time counts."""
        self.cells(seq, seq + 1)[0] = at_ns

    def _unmap(self) -> None:
        self._slots.release()
        self._map.close()

    def close(self) -> None:
        """Unmaps the file, which remains for sealing."""
        self._unmap()
        self._file.close()
        self._hold.release()


class Attempts(NamedTuple):
    """One producer's attempts: `attempt_ns` is int64 by seq."""

    producer: int
    cluster: str | None
    topic: str
    attempt_ns: Times


def read_attempts(path: Path) -> Attempts | None:
    """Reads the file; None if the producer died before its first attempt. Raises EvidenceError."""
    size = path.stat().st_size
    if size < _HEADER.size:
        return None
    with path.open("rb") as file:
        magic, producer, length, name = _HEADER.unpack(file.read(_HEADER.size))
    if magic != _MAGIC:
        raise EvidenceError(f"{path}: not an attempts file of kaput")
    if size < _PAGE_START + 8:
        return None
    slots = np.memmap(path, dtype="<i8", mode="r", offset=_PAGE_START)
    # Attempts are dense and never at time 0: the first zero is the end.
    count = int(np.searchsorted(slots == 0, True))
    return Attempts(producer, *cluster_and_topic(name[:length].decode()), slots[:count])
