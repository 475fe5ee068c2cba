"""A producer that is somebody else's program: `python -m kaput.workload.command_producer ORDER.json`.

Numbers the messages, hands them to the program and records what it says became of each, as producer.py does
with librdkafka. A program that dies, hangs or prints rubbish is a finding about it, and the run goes on: what
it had been handed and did not answer is `unknown`. Says what producer.py says.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
import threading
import time
import uuid
from pathlib import Path

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.identity import Codec
from kaput.evidence.recorder import Recorder
from kaput.scenario.vocabulary import OUTCOMES
from kaput.workload.commanded import Commanded, CommandError, Line, integer, line_of
from kaput.workload.counters import FIELDS, Counters, ThresholdWatch
from kaput.workload.hosting import ITS_COMMAND, no_program, produce
from kaput.workload.order import CommandProducerOrder, properties_of, say

READY_S = 50.0  # a little less than what the run waits for
TOGETHER = 64
FLUSH_S = 0.2
_CELL = {"acked": FIELDS.index("acked"), "failed": FIELDS.index("failed"), "unknown": FIELDS.index("unknown")}


class CommandSender:
    """Hands one producer's messages to a program, and records what it answers."""

    def __init__(self, order: CommandProducerOrder, stderr: Path) -> None:
        self.order = order
        folder = Path(order.folder)
        self.recorder = Recorder(folder, "sends", f"producer-{order.producer}")
        self.attempts = AttemptWriter(folder, order.producer, order.topic)
        counters = Counters(Path(order.counters), order.producers)
        self.counts = counters.row(order.producer)
        self.watch = ThresholdWatch(counters, order.thresholds)
        fill = uuid.UUID(order.run_id).bytes + bytes(range(64))
        codec = Codec(uuid.UUID(order.run_id), order.payload_bytes, fill, order.text)
        self.encode = codec.encoder(order.producer)
        self.stopping, self.ready = threading.Event(), threading.Event()
        self._recording = threading.Lock()
        self._outstanding: dict[int, int] = {}  # attempt_ns by seq
        self._attempted = 0
        self._flushed_at = time.monotonic()
        self.program = Commanded(
            order.command, stderr, order.patience_ms / 1000, self._answered, self.stopping
        )

    def connect(self) -> None:
        """Tells it where to send. Raises CommandError where it does not get ready."""
        order = self.order
        self.program.tell(
            line_of(
                bootstrap_servers=order.config["bootstrap.servers"],
                topic=order.topic,
                partitions=order.partitions,
                producer=order.producer,
                acks=order.acks,
                idempotence=order.idempotence,
                config=order.client_config,
                **properties_of(order),
            )
        )
        self.program.await_(self.ready, "ready", READY_S)

    def send_all(self) -> None:
        """Hands over every message, at the ordered pace. Raises CommandError."""
        order, start = self.order, time.monotonic()
        end = start + order.duration_ms / 1000 if order.duration_ms else None
        seq = 0
        while not self.stopping.is_set():
            now = time.monotonic()
            self._flush(now)
            if seq == order.messages or (end is not None and now >= end):
                return
            due = int((now - start) * order.rate) + 1 - seq if order.rate else TOGETHER
            if due <= 0:
                time.sleep(min(max(start + seq / order.rate - now, 0.0), 0.05))
                continue
            last = seq + min(due, TOGETHER if not self.watch.left else 1)
            seq = self._send(seq, last if order.messages is None else min(last, order.messages))

    def _send(self, first: int, end: int) -> int:
        lines = []
        for seq in range(first, end):
            at_ns = time.time_ns()
            self.attempts.attempt(seq, at_ns)
            self._outstanding[seq] = at_ns
            lines.append(self._line(seq, at_ns))
        self._attempted = self.counts[0] = end
        self.program.tell(b"".join(lines))
        for n in self.watch.look() if self.watch.left else ():
            say("threshold", n=n, at_ns=time.time_ns())
        return end

    def _line(self, seq: int, at_ns: int) -> bytes:
        order = self.order
        payload = base64.b64encode(self.encode(seq, at_ns)).decode()
        key = {"none": None, "producer": str(order.producer), "seq": str(seq)}.get(str(order.key), "")
        key = str(seq % int(order.key)) if key == "" else key
        more = {"partition": seq % order.partitions} if order.chooses else {}
        return line_of(seq=seq, key=key, payload=payload, **more)

    def finish(self) -> None:
        """Waits for every outcome, and for its end. Raises CommandError."""
        self.program.finish(lambda: self._flush(time.monotonic()))
        if self._outstanding and not self.stopping.is_set():
            first = min(self._outstanding)
            raise CommandError(
                f"it ended without saying what became of {len(self._outstanding):,} messages "
                f"(the first is seq {first})"
            )

    def close(self) -> None:
        """Everything that is known is on record, and nothing of the program is left."""
        self.program.close()
        with self._recording:
            self.recorder.close()
        self.attempts.close()

    def _answered(self, line: Line) -> str | None:
        """One line of the program's, in the thread that listens."""
        if line.get("ready") is True:
            if self.ready.is_set():
                return "it was ready before"
            self.ready.set()
            return None
        seq, outcome, offset, partition = (line.get(k) for k in ("seq", "outcome", "offset", "partition"))
        if not integer(seq) or outcome not in OUTCOMES:
            return "neither ready nor a seq and an outcome (acked, failed, unknown)"
        if not (offset is None or integer(offset)) or not (partition is None or integer(partition)):
            return "offset and partition are numbers from 0 on, or left out"
        attempt_ns = self._outstanding.pop(seq, None)
        if attempt_ns is None:
            return "it has answered that seq before" if seq < self._attempted else "it was not given that seq"
        if partition is None and self.order.chooses:
            partition = seq % self.order.partitions
        error = line.get("error")
        row = (self.order.producer, seq, self.order.topic, partition, attempt_ns, time.time_ns())
        with self._recording:
            self.recorder.row(*row, outcome, offset, None if error is None else str(error)[:500])
        self.counts[_CELL[outcome]] += 1
        return None

    def _flush(self, now: float) -> None:
        if now - self._flushed_at >= FLUSH_S:
            with self._recording:
                self.recorder.flush()
            self._flushed_at = now


def main() -> None:
    """Runs one order to its end."""
    path = Path(sys.argv[1])
    order = CommandProducerOrder(**json.loads(path.read_text()))
    try:
        sender = CommandSender(order, path.with_suffix(".command.err"))
        signal.signal(signal.SIGTERM, lambda *_: sender.stopping.set())
        sender.connect()
    except CommandError as error:
        raise no_program(ITS_COMMAND, error) from None
    produce(sender, ITS_COMMAND)


if __name__ == "__main__":
    main()
