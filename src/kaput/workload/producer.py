"""One producer, a process of its own: `python -m kaput.workload.producer ORDER.json`.

Says `ready`, waits for a line on stdin, sends, says `sent`, waits for every outcome, says `done`.
Every attempt is noted before its send (evidence/attempts.py), every outcome at its callback.
Ends at once when its stdin closes: then nobody is listening any more.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.identity import Codec
from kaput.evidence.recorder import NULL_INT, NULL_LONG, Recorder
from kaput.workload.counters import Counters, ThresholdWatch
from kaput.workload.order import ProducerOrder, say
from kaput.workload.outcome import outcome_of
from kaput.workload.quiet import quiet_logger

FLUSH_ROWS = 8192
FLUSH_S = 0.2
POLL_EVERY = 64  # sends between two looks at the callbacks
_SEQ_AND_TIME = struct.Struct(">qq")
_SEQ_AT = 24  # where seq and send time stand in a payload


class Sender:
    """Sends one producer's messages and records what it learns."""

    def __init__(self, order: ProducerOrder) -> None:
        self.order = order
        folder = Path(order.folder)
        self.recorder = Recorder(folder, "sends", f"producer-{order.producer}")
        self.attempts = AttemptWriter(folder, order.producer, order.topic)
        counters = Counters(Path(order.counters), order.producers)
        self.counts = counters.row(order.producer)
        self.watch = ThresholdWatch(counters, order.thresholds)
        fill = uuid.UUID(order.run_id).bytes + bytes(range(64))
        self.codec = Codec(uuid.UUID(order.run_id), order.payload_bytes, fill)
        self.stopping = threading.Event()
        self._pending = 0
        self._flushed_at = time.monotonic()
        self._bind()
        config = {**order.config, "on_delivery": self._report}
        self.client = Producer(config, logger=quiet_logger())

    def _bind(self) -> None:
        """Binds the columns' appends once: they are called for every message."""
        column = self.recorder.appender
        self._seq, self._attempt, self._done = column("seq"), column("attempt_ns"), column("done_ns")
        self._outcome, self._error = column("outcome"), column("error")
        self._partition, self._offset = column("partition"), column("offset")
        self._producer, self._topic = column("producer"), column("topic")
        self._topic_word = self.recorder.word("topic", self.order.topic)
        self._words = {o: self.recorder.word("outcome", o) for o in ("acked", "failed", "unknown")}
        self._cell = {"acked": 1, "failed": 2, "unknown": 3}

    def connect(self, timeout_s: float = 30) -> None:
        """Fetches metadata, so that the first send is not a cold one. Raises KafkaException."""
        self.client.list_topics(self.order.topic, timeout=timeout_s)

    def send_all(self) -> None:
        """Makes every attempt, at the ordered pace."""
        order, start = self.order, time.monotonic()
        gap_s = 1 / order.rate if order.rate else 0.0
        end = start + order.duration_ms / 1000 if order.duration_ms else None
        seq = 0
        while not self.stopping.is_set():
            if order.messages is not None and seq >= order.messages:
                return
            now = time.monotonic()
            if end is not None and now >= end:
                return
            due = start + seq * gap_s
            if due > now:
                self._serve(min(due - now, 0.05))
                continue
            self.send(seq)
            seq += 1
            if seq % POLL_EVERY == 0:
                self._serve(0)

    def send(self, seq: int) -> None:
        """One message; a local queue that is full is waited for."""
        order = self.order
        key = self._key(seq)
        partition = seq % order.partitions if order.round_robin else -1  # -1: the partitioner decides
        while True:
            now = time.time_ns()
            self.attempts.attempt(seq, now)
            try:
                payload = self.codec.encode(order.producer, seq, now)
                self.client.produce(order.topic, payload, key=key, partition=partition)
                break
            except BufferError:
                self._serve(0.05)
            except KafkaException as error:
                self._row(seq, now, "failed", None, None, str(error.args[0]))
                break
        self.counts[0] = seq + 1
        if self.watch.left:
            for n in self.watch.look():
                say("threshold", n=n, at_ns=time.time_ns())

    def _key(self, seq: int) -> bytes | None:
        match self.order.key:
            case "none":
                return None
            case "producer":
                return str(self.order.producer).encode()
            case "seq":
                return str(seq).encode()
            case keys:
                return str(seq % int(keys)).encode()

    def finish(self) -> None:
        """Waits for every outcome; what librdkafka still holds after its own timeout is purged."""
        timeout_ms = int(self.order.config.get("message.timeout.ms", 300_000)) or 300_000
        limit = time.monotonic() + timeout_ms / 1000 + 30
        while len(self.client) and time.monotonic() < limit and not self.stopping.is_set():
            self._serve(0.1)
        if len(self.client):
            self.client.purge()
            self.client.flush(10)
        self._flush()
        self.recorder.close()
        self.attempts.close()

    def _serve(self, timeout_s: float) -> None:
        self.client.poll(timeout_s)
        now = time.monotonic()
        if self._pending >= FLUSH_ROWS or (self._pending and now - self._flushed_at >= FLUSH_S):
            self._flush()
            self._flushed_at = now

    def _flush(self) -> None:
        self.recorder.flush(self._pending)
        self._pending = 0

    def _report(self, error: Any, message: Message) -> None:
        payload = message.value()
        assert isinstance(payload, bytes)
        seq, sent_ns = _SEQ_AND_TIME.unpack_from(payload, _SEQ_AT)
        partition, offset = message.partition(), message.offset()
        if error is None:
            self._row(seq, sent_ns, "acked", partition, offset, None)
        else:
            outcome = outcome_of(error.code(), self.order.retries_disabled)
            self._row(seq, sent_ns, outcome, partition, offset, f"{error.name()}: {error.str()}")

    def _row(
        self,
        seq: int,
        sent_ns: int,
        outcome: str,
        partition: int | None,
        offset: int | None,
        error: str | None,
    ) -> None:
        self._producer(self.order.producer)
        self._seq(seq)
        self._topic(self._topic_word)
        self._partition(NULL_INT if partition is None or partition < 0 else partition)
        self._attempt(sent_ns)
        self._done(time.time_ns())
        self._outcome(self._words[outcome])
        # Only an acknowledgement tells an offset; acks=0 and idempotent duplicates come without one.
        self._offset(NULL_LONG if outcome != "acked" or offset is None or offset < 0 else offset)
        self._error(NULL_INT if error is None else self.recorder.word("error", error))
        self._pending += 1
        self.counts[self._cell[outcome]] += 1


def _stop_when_abandoned(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()


def main() -> None:
    """Runs one order to its end."""
    sender = Sender(ProducerOrder(**json.loads(Path(sys.argv[1]).read_text())))
    signal.signal(signal.SIGTERM, lambda *_: sender.stopping.set())
    try:
        sender.connect()
    except KafkaException as error:
        say("trouble", message=f"cannot reach the cluster: {error.args[0]}")
        raise SystemExit(1) from None
    say("ready")
    sys.stdin.readline()
    threading.Thread(target=_stop_when_abandoned, args=(sender.stopping,), daemon=True).start()
    sender.send_all()
    say("sent", attempted=sender.counts[0])
    sender.finish()
    say("done", attempted=sender.counts[0], acked=sender.counts[1])


if __name__ == "__main__":
    main()
