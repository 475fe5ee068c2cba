"""What all producer processes share, whichever client sends their messages; above all, live counters.

The counters of all producers are one small memory-mapped file: each one's attempts and outcomes (FIELDS).
Progress is read from it, and producers use it to notice the N-th attempt over all of them. It is not
evidence: recorders write that.
"""

from __future__ import annotations

import mmap
import threading
import time
import uuid
from pathlib import Path
from typing import Generic, TypeVar

from kaput.evidence.attempts import AttemptWriter, Times
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import TABLES
from kaput.scenario.vocabulary import OUTCOMES
from kaput.workload.client_spec import ProducerSpec
from kaput.workload.payload import Codec

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
    """Notices the N-th attempt over all producers: each checks the sum after each attempt. Checking less
    often would be cheaper, but late: a slow producer may be the one to make the N-th attempt.
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
    thresholds that faults wait for; `encode` makes a message's payload; `stopping`: send no more; `first`:
    the number of this process's first message.
    """

    def __init__(self, spec: S) -> None:
        self.spec = spec
        folder = Path(spec.folder)
        self.recorder = Recorder(folder, "sends", spec.writer, spec.cluster)
        self.attempts = AttemptWriter(folder, spec.producer, spec.topic, spec.cluster, again=spec.process > 1)
        self.first = len(self.attempts.made)
        counters = Counters(Path(spec.counters), spec.producers)
        self.counts = counters.row(spec.producer)
        self.counts[0] = self.first
        self.watch = ThresholdWatch(counters, spec.thresholds)
        fill = uuid.UUID(spec.run_id).bytes + bytes(range(64))
        codec = Codec(uuid.UUID(spec.run_id), spec.payload_bytes, fill, spec.text)
        self.encode = codec.encoder(spec.producer)
        self.stopping = threading.Event()


class TransactionRecord:
    """Writes one producer's transactions. `number` and `first`: of the current one and of its first message;
    `begin_ns`: when it began, None if none is open.
    """

    def __init__(self, spec: ProducerSpec, transactional_id: str) -> None:
        self._rows = Recorder(Path(spec.folder), "transactions", spec.writer, spec.cluster)
        self._producer, self._id = spec.producer, transactional_id
        self.number = self.first = 0
        self.begin_ns: int | None = None

    def begin(self, first: int) -> None:
        """Called when a transaction begins whose first message is `first`."""
        self.first, self.begin_ns = first, time.time_ns()

    def end(self, last: int, outcome: str, end_ns: int | None, error: str | None) -> None:
        """Records the outcome of the open one, whose last message is `last`."""
        self._rows.row(
            transactional_id=self._id, producer=self._producer, transaction=self.number,
            first_seq=self.first, last_seq=last, outcome=outcome, begin_ns=self.begin_ns, end_ns=end_ns,
            error=error,
        )  # fmt: skip
        self._rows.flush()  # so that a SIGKILL does not lose earlier outcomes
        self.begin_ns = None
        self.number += 1

    def go_on(self, folder: Path, made: Times) -> None:
        """Goes on after the processes of this producer that were killed. What the last one had open has an
        unknown outcome: it may have been killed during a commit. `made`: the times of their attempts.
        """
        if not len(made):
            return
        from kaput.evidence.sealing import UNRESOLVED, whole_batches  # loads Parquet, which few need

        for path in (folder / "evidence" / "transactions").glob(f"producer-{self._producer}.*arrows"):
            for batch in whole_batches(TABLES["transactions"], path, []):
                for row in batch.select(["transaction", "last_seq"]).to_pylist():
                    self.number = max(self.number, row["transaction"] + 1)
                    self.first = max(self.first, row["last_seq"] + 1)
        if self.first < len(made):
            self.begin_ns = int(made[self.first])
            self.end(len(made) - 1, "unknown", None, UNRESOLVED)

    def close(self) -> None:
        self._rows.close()
