"""Delivery reports on their way into the sends table.

The callback keeps the reports of one poll, a few hundred at a time: `take` reads them column by column, in
C, and lets go of them, so no object of a message outlives the poll that reported it. `flush` writes a batch.
Not here: sending and polling (producer.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from confluent_kafka import Message

from kaput.evidence.bulk import Ints, Longs, Stamps
from kaput.evidence.identity import STAMP_AT, STAMP_BYTES
from kaput.evidence.recorder import NULL_LONG, Recorder, Values
from kaput.workload.order import ProducerOrder
from kaput.workload.outcome import outcome_of

_WHOLE_BYTES = 1024  # of payloads up to this size it is quicker to copy the whole than to cut out a part
# Reports taken down together: few enough to be in the processor's cache still, and to share one time (done_ns
# is late by the callbacks that followed in the same few hundred, a tenth of a millisecond, and never early);
# enough to share numpy's overhead.
_AT_ONCE = 256
ROWS = 16_384  # acknowledgements that wait for a flush at most
_CELL = {"acked": 1, "failed": 2, "unknown": 3}


# Bound to the class: C calls them for a whole list, without a look-up for each message.
_value: Any = Message.value
_offset: Any = Message.offset
_partition: Any = Message.partition


class _Columns:
    """Acknowledgements, column by column, in memory that is used again after each flush."""

    def __init__(self) -> None:
        self.stamps = np.zeros((2, ROWS), np.int64)  # seq and attempt_ns
        self.done_ns, self.offset = np.zeros(ROWS, np.int64), np.zeros(ROWS, np.int64)
        self.partition = np.zeros(ROWS, np.int32)


class Reports:
    """Records one producer's outcomes and counts them in `counts` (a row of Counters)."""

    def __init__(self, recorder: Recorder, order: ProducerOrder, counts: memoryview) -> None:
        self._recorder, self._order, self._counts = recorder, order, counts
        self._whole = order.payload_bytes <= _WHOLE_BYTES
        self._stamps = Stamps(order.payload_bytes) if self._whole else Stamps(STAMP_BYTES, at=0)
        self._reported: list[Message] = []  # acknowledgements of the poll that is under way
        self.pending = 0  # rows that are not flushed yet
        self._acks, self._acked = _Columns(), 0
        # Arrow loads much at its first use, which would hold up the first sends.
        self._write(0)

    def listener(self) -> Callable[[Any, Message], None]:
        """The delivery callback."""
        reported, take, fail = self._reported, self.take, self._failed
        keep = reported.append

        def report(error: Any, message: Message) -> None:
            if error is None:
                keep(message)
                if len(reported) >= _AT_ONCE:
                    take()
            else:
                fail(error, message)

        return report

    def take(self) -> None:
        """Takes down what was reported, and lets go of it; to be called after each poll."""
        reported = self._reported
        if not reported:
            return
        count = len(reported)
        if self._acked + count > ROWS:
            self.flush()
        self._read(reported, slice(self._acked, self._acked + count))
        self._acked += count
        self.pending += count
        self._counts[1] += count
        reported.clear()

    def _read(self, reported: list[Message], rows: slice) -> None:
        acks, count = self._acks, len(reported)
        acks.done_ns[rows] = time.time_ns()
        payloads: Iterable[bytes] = map(_value, reported)
        if not self._whole:
            payloads = (payload[STAMP_AT : STAMP_AT + STAMP_BYTES] for payload in payloads)
        acks.stamps[:, rows] = self._stamps.read(b"".join(payloads))
        try:
            acks.offset[rows] = np.fromiter(map(_offset, reported), np.int64, count)
        except TypeError:  # acks=0 and idempotent duplicates come without one
            offsets = (message.offset() for message in reported)
            acks.offset[rows] = np.fromiter((NULL_LONG if o is None else o for o in offsets), np.int64, count)
        if not self._order.chooses:
            acks.partition[rows] = np.fromiter(map(_partition, reported), np.int32, count)

    def flush(self) -> None:
        """Everything taken down so far is the operating system's after this."""
        self._write(self._acked)
        self.pending = self._acked = 0

    def _write(self, count: int) -> None:
        acks, rows = self._acks, slice(0, count)
        seq, attempt_ns = acks.stamps[0, rows], acks.stamps[1, rows]
        columns: dict[str, Values] = {
            "producer": self._order.producer,
            "seq": seq,
            "topic": self._order.topic,
            "partition": self._chosen(seq) if self._order.chooses else acks.partition[rows],
            "attempt_ns": attempt_ns,
            "done_ns": acks.done_ns[rows],
            "outcome": "acked",
            "offset": acks.offset[rows],
        }
        self._recorder.batch(count, columns)

    def _chosen(self, seq: Longs) -> Ints | int:
        """Where messages went whose partition this producer chose itself: nothing else is possible."""
        return (seq % self._order.partitions).astype(np.int32) if self._order.partitions > 1 else 0

    def refused(self, seq: int, attempt_ns: int, error: str) -> None:
        """A message that the client did not even take."""
        self._row(seq, attempt_ns, "failed", None, error)

    def _failed(self, error: Any, message: Message) -> None:
        payload, partition = message.value(), message.partition()
        assert isinstance(payload, bytes)
        seq, attempt_ns = Stamps(len(payload)).read(payload)[:, 0].tolist()
        outcome = outcome_of(error.code(), self._order.retries_disabled)
        known = partition if partition is not None and partition >= 0 else None
        self._row(seq, attempt_ns, outcome, known, f"{error.name()}: {error.str()}")

    def _row(self, seq: int, attempt_ns: int, outcome: str, partition: int | None, error: str) -> None:
        order = self._order
        self._recorder.row(
            order.producer, seq, order.topic, partition, attempt_ns, time.time_ns(), outcome, None, error
        )
        self.pending += 1
        self._counts[_CELL[outcome]] += 1
