"""What all producer processes share, whichever client sends their messages; above all, live counters.

The counters of all producers are one small memory-mapped file: each one's attempts and outcomes (FIELDS).
Progress is read from it, and producers use it to notice the N-th attempt over all of them. It is not
evidence: recorders write that.
"""

from __future__ import annotations

import mmap
import threading
import uuid
from pathlib import Path
from typing import Generic, TypeVar

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.recorder import Recorder
from kaput.scenario.vocabulary import OUTCOMES
from kaput.workload.client_spec import ProducerSpec
from kaput.workload.payload.identity import Codec

FIELDS = ("attempted", *OUTCOMES)
_ROW = len(FIELDS)


class Counters:
    """`producers` rows of FIELDS in the file at `path`, which every process maps."""

    def __init__(self, path: Path, producers: int, create: bool = False) -> None:
        size = producers * _ROW * 8
        if create:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._cells = memoryview(self._map).cast("q")
        self._producers = producers

    def row(self, producer: int) -> memoryview:
        """The cells of one producer, writable."""
        return self._cells[producer * _ROW : (producer + 1) * _ROW]

    def total(self, field: int) -> int:
        """The sum of one field (an index into FIELDS) over all producers."""
        return sum(self._cells[field::_ROW])


class ThresholdWatch:
    """Notices the N-th attempt over all producers: each checks the sum after each attempt.

    Checking less often would be cheaper, but late: a slow producer may be the one to make the N-th attempt.
    """

    def __init__(self, counters: Counters, thresholds: list[int]) -> None:
        self._counters = counters
        self.left = sorted(thresholds)

    def look(self) -> list[int]:
        """The thresholds reached since the last call."""
        total = self._counters.total(0)
        reached = [n for n in self.left if n <= total]
        del self.left[: len(reached)]
        return reached


S = TypeVar("S", bound=ProducerSpec)


class NumberedProducer(Generic[S]):
    """`attempts` and `recorder` write its evidence, `counts` is its row of live counters, `watch` notices
    thresholds that faults wait for; `encode` makes a message's payload; `stopping`: send no more.
    """

    def __init__(self, spec: S) -> None:
        self.spec = spec
        folder = Path(spec.folder)
        self.recorder = Recorder(folder, "sends", f"producer-{spec.producer}", spec.cluster)
        self.attempts = AttemptWriter(folder, spec.producer, spec.topic, spec.cluster)
        counters = Counters(Path(spec.counters), spec.producers)
        self.counts = counters.row(spec.producer)
        self.watch = ThresholdWatch(counters, spec.thresholds)
        fill = uuid.UUID(spec.run_id).bytes + bytes(range(64))
        codec = Codec(uuid.UUID(spec.run_id), spec.payload_bytes, fill, spec.text)
        self.encode = codec.encoder(spec.producer)
        self.stopping = threading.Event()
