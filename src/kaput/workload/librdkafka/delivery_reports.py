"""Writes delivery reports to the sends table, with what each proves: acked, failed or unknown.

*failed* means definitely not written (docs/GLOSSARY.md).

The callback takes only a payload and a few numbers from a report, and leaves the report to the client, which
frees it while it is still in the CPU cache. `take` decodes a hundred of them together, in C, so no message
outlives the poll that reported it. `flush` writes a batch. Not here: sending and polling (producer.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message

from kaput.core import NULL_LONG
from kaput.evidence.recorder import Recorder, Values
from kaput.scenario.vocabulary import Outcome
from kaput.workload.client_spec import ProducerSpec
from kaput.workload.counters import FIELDS
from kaput.workload.librdkafka.client_setup import text_of
from kaput.workload.payload import HEADER_BYTES, STAMP_AT, STAMP_BYTES, headers
from kaput.workload.payload_bulk import Ints, Longs, Stamps

# Errors that a broker returns before it appends anything.
_REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_DEFINITE = _REFUSED | frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.INVALID_REQUIRED_ACKS,
    }
)


def outcome_of(error_code: int, retries_disabled: bool, never_written: bool = False) -> Outcome:
    """The outcome of a report with this error code. With retries, the last error does not tell whether an
    earlier try was written, and confluent-kafka does not expose librdkafka's message status: then everything
    but an acknowledgement is unknown. If the producer has been refused from its first message on
    (`never_written`), a further refusal is definite: brokers check authorization before they append.
    """
    if never_written and error_code in _REFUSED:
        return "failed"
    if retries_disabled and error_code in _DEFINITE:
        return "failed"
    return "unknown"


_WHOLE_BYTES = 1024  # up to this size, copying whole payloads is faster than slicing them
# Reports recorded together: few enough to still be in the processor's cache, and to share one time (done_ns
# is late by the callbacks that followed in the same hundred, some 50 us, and never early); enough to share
# numpy's overhead.
_AT_ONCE = 128
ROWS = 16_384  # the most acknowledgements before a flush
_CELL = {name: FIELDS.index(name) for name in FIELDS}


class _Columns:
    """Acknowledgements, column by column, in memory that is reused after each flush."""

    def __init__(self) -> None:
        self.stamps = np.zeros((2, ROWS), np.int64)  # seq and attempt_ns
        self.done_ns, self.offset = np.zeros(ROWS, np.int64), np.zeros(ROWS, np.int64)
        self.partition = np.zeros(ROWS, np.int32)


class OutcomeRecorder:
    """Records one producer's outcomes and counts them in `counts` (a row of Counters)."""

    def __init__(self, recorder: Recorder, spec: ProducerSpec, counts: memoryview) -> None:
        self._recorder, self._spec, self._counts = recorder, spec, counts
        self._whole = spec.payload_bytes <= _WHOLE_BYTES
        self._stamps = Stamps(spec.payload_bytes) if self._whole else Stamps(STAMP_BYTES, at=0)
        if spec.text:
            self._stamps = Stamps(HEADER_BYTES)
        # Of acknowledgements in the current poll.
        self._payloads: list[bytes] = []
        self._offsets: list[int | None] = []
        self._partitions: list[int] = []
        self._structs = {count: Struct(f"{count}q") for count in range(1, _AT_ONCE + 1)}
        self.pending = 0  # rows that are not flushed yet
        self._acks, self._acked = _Columns(), 0
        # Warms up Arrow, whose first use would delay the first sends.
        self._write(0)

    def listener(self) -> Callable[[Any, Message], None]:
        payloads, take, fail = self._payloads, self.take, self._failed
        keep_payload, keep_offset, keep_partition = (
            kept.append for kept in (payloads, self._offsets, self._partitions)
        )

        # Two near copies: one more call or condition would cost time for each message.
        def report(error: Any, message: Any) -> None:
            if error is None:
                keep_payload(message.value())
                keep_offset(message.offset())
                if len(payloads) >= _AT_ONCE:
                    take()
            else:
                fail(error, message)

        def report_with_partition(error: Any, message: Any) -> None:
            if error is None:
                keep_payload(message.value())
                keep_offset(message.offset())
                keep_partition(message.partition())
                if len(payloads) >= _AT_ONCE:
                    take()
            else:
                fail(error, message)

        return report if self._spec.chooses else report_with_partition

    def take(self) -> None:
        """Records the reports so far; call it after each poll."""
        count = len(self._payloads)
        if not count:
            return
        if self._acked + count > ROWS:
            self.flush()
        self._read(self._acked, count)
        self._acked += count
        self.pending += count
        self._counts[1] += count
        self._payloads.clear()
        self._offsets.clear()
        self._partitions.clear()

    def _read(self, at: int, count: int) -> None:
        acks, rows, payloads = self._acks, slice(at, at + count), self._payloads
        acks.done_ns[rows] = time.time_ns()
        if self._spec.text:
            payloads = [headers(payloads)]
        elif not self._whole:
            payloads = [payload[STAMP_AT : STAMP_AT + STAMP_BYTES] for payload in payloads]
        acks.stamps[:, rows] = self._stamps.read(b"".join(payloads))
        # struct puts Python's numbers into memory in half of numpy's time.
        struct, memory, place = self._structs[count], acks.offset.data, at * acks.offset.itemsize
        try:
            struct.pack_into(memory, place, *self._offsets)
        except StructError:  # acks=0 and idempotent duplicates come without one
            struct.pack_into(memory, place, *(NULL_LONG if o is None else o for o in self._offsets))
        if not self._spec.chooses:
            acks.partition[rows] = self._partitions

    def flush(self) -> None:
        """Flushes everything recorded so far to the operating system."""
        self._write(self._acked)
        self.pending = self._acked = 0

    def _write(self, count: int) -> None:
        acks, rows = self._acks, slice(0, count)
        seq, attempt_ns = acks.stamps[0, rows], acks.stamps[1, rows]
        columns: dict[str, Values] = {
            "producer": self._spec.producer,
            "seq": seq,
            "topic": self._spec.topic,
            "partition": self._chosen(seq) if self._spec.chooses else acks.partition[rows],
            "attempt_ns": attempt_ns,
            "done_ns": acks.done_ns[rows],
            "outcome": "acked",
            "offset": acks.offset[rows],
        }
        self._recorder.batch(count, columns)

    def _chosen(self, seq: Longs) -> Ints | int:
        if self._spec.partition is not None:
            return self._spec.partition
        return (seq % self._spec.partitions).astype(np.int32) if self._spec.partitions > 1 else 0

    def refused(self, seq: int, attempt_ns: int, error: str) -> None:
        """Records a message that the client rejected at once."""
        self.row(seq, attempt_ns, "failed", None, error)

    def _failed(self, error: Any, message: Message) -> None:
        payload, partition = message.value(), message.partition()
        assert isinstance(payload, bytes)
        seq, attempt_ns = self.stamp(payload)
        acked, unknown = self._counts[_CELL["acked"]] or self._payloads, self._counts[_CELL["unknown"]]
        outcome = outcome_of(error.code(), self._spec.retries_disabled, not (acked or unknown))
        known = partition if partition is not None and partition >= 0 else None
        self.row(seq, attempt_ns, outcome, known, text_of(error))

    def stamp(self, payload: bytes) -> tuple[int, int]:
        """The seq and the attempt_ns in a payload."""
        if self._spec.text:
            payload = headers([payload])
        seq, attempt_ns = Stamps(len(payload)).read(payload)[:, 0].tolist()
        return seq, attempt_ns

    def row(self, seq: int, attempt_ns: int, outcome: str, partition: int | None, error: str) -> None:
        """Records a message that is not acknowledged."""
        spec = self._spec
        self._recorder.row(
            producer=spec.producer, seq=seq, topic=spec.topic, partition=partition, attempt_ns=attempt_ns,
            done_ns=time.time_ns(), outcome=outcome, error=error,
        )  # fmt: skip
        self.pending += 1
        self._counts[_CELL[outcome]] += 1
