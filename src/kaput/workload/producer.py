"""One producer, a process of its own: `python -m kaput.workload.producer ORDER.json`.

Says `ready`, waits for a line on stdin, sends, says `sent`, waits for every outcome, says `done`.
Every attempt is noted before its send (evidence/attempts.py), every outcome at its callback.
Ends at once when its stdin closes: then nobody is listening any more.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.identity import Codec
from kaput.evidence.recorder import Recorder
from kaput.processes.lean import leave_out_pandas
from kaput.workload.counters import Counters, ThresholdWatch
from kaput.workload.garbage import collect_seldom
from kaput.workload.order import ProducerOrder, say, settings_of
from kaput.workload.quiet import quiet_logger
from kaput.workload.refusals import Refusals, RefusedError
from kaput.workload.reports import Reports

FLUSH_ROWS = 8192
FLUSH_S = 0.2
PURGE_S = 10  # within which what was purged is reported
POLL_EVERY = 64  # sends between two looks at the callbacks
TICK_S = 0.001  # librdkafka waits for whole milliseconds: told to wait for less it does not wait at all


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
        self.reports = Reports(self.recorder, order, self.counts)
        fill = uuid.UUID(order.run_id).bytes + bytes(range(64))
        codec = Codec(uuid.UUID(order.run_id), order.payload_bytes, fill, order.text)
        self.encode = codec.encoder(order.producer)
        self.stopping = threading.Event()
        self.settings = settings_of(order)
        self.refusals = Refusals(self.settings)
        self._flushed_at = time.monotonic()
        self.client = Producer(
            {**self.settings, "on_delivery": self.listener(), "error_cb": self.refusals.heard},
            logger=quiet_logger(),
        )

    def listener(self) -> Callable[[Any, Message], None]:
        """The delivery callback."""
        return self.reports.listener()

    def connect(self, timeout_s: float = 30) -> None:
        """Fetches metadata, so that the first send is not a cold one. Raises KafkaException, RefusedError."""
        self.refusals.find(self.client, self.order.topic, timeout_s)

    def send_all(self) -> None:
        """Makes every attempt, at the ordered pace."""
        order, start = self.order, time.monotonic()
        seq = served = 0
        end = start + order.duration_ms / 1000 if order.duration_ms else None
        while not self.stopping.is_set():
            now = time.monotonic()
            if seq == order.messages or (end is not None and now >= end):
                return
            due = int((now - start) * order.rate) + 1 - seq if order.rate else POLL_EVERY
            if due <= 0:
                self.serve(min(max(start + seq / order.rate - now, TICK_S), 0.05))
                continue
            last = seq + min(due, POLL_EVERY)
            seq = self._advance(seq, last if order.messages is None else min(last, order.messages))
            if seq - served >= POLL_EVERY:
                self.serve(0)
                served = seq

    def _advance(self, seq: int, end: int) -> int:
        """Sends up to `end`. While a threshold is ahead each attempt is counted on its own, and looked at."""
        while seq < end:
            seq = self.send(seq, seq + 1 if self.watch.left else end)
            self.counts[0] = seq
            if self.watch.left:
                for n in self.watch.look():
                    say("threshold", n=n, at_ns=time.time_ns())
        return seq

    def send(self, start: int, end: int) -> int:
        """Messages `start` to before `end`, or fewer: the seq that is next. A full queue is waited for."""
        cells, topic = self.attempts.cells(start, end), self.order.topic
        end = start + len(cells)
        encode, produce, time_ns = self.encode, self.client.produce, time.time_ns
        seqs, places = range(start, end), range(len(cells))
        messages = zip(seqs, places, self.keys(start), self.partitions(start), strict=False)
        seq, attempt_ns = start, 0
        try:
            for seq, place, key, partition in messages:
                cells[place] = attempt_ns = time_ns()
                produce(topic, encode(seq, attempt_ns), key, partition)
        except BufferError:
            self.serve(0.05)
            return seq
        except KafkaException as error:
            self.refused(seq, attempt_ns, error)
            return seq + 1
        return end

    def refused(self, seq: int, attempt_ns: int, error: KafkaException) -> None:
        """A message that the client did not even take."""
        self.reports.refused(seq, attempt_ns, str(error.args[0]))

    def partitions(self, seq: int) -> Iterator[int]:
        """Where each message goes, from `seq` on; -1 leaves it to the client's partitioner."""
        count = self.order.partitions
        if not self.order.chooses:
            return itertools.repeat(-1)
        return itertools.repeat(0) if count == 1 else (n % count for n in itertools.count(seq))

    def keys(self, seq: int) -> Iterator[bytes | None]:
        """The key of each message, from `seq` on."""
        match self.order.key:
            case "none":
                return itertools.repeat(None)
            case "producer":
                return itertools.repeat(str(self.order.producer).encode())
            case "seq":
                return (b"%d" % n for n in itertools.count(seq))
            case keys:
                count = int(keys)
                return (b"%d" % (n % count) for n in itertools.count(seq))

    def finish(self) -> None:
        """Waits for every outcome; what librdkafka still holds after its own timeout is purged."""
        timeout_ms = int(self.order.config.get("message.timeout.ms", 300_000)) or 300_000
        limit = time.monotonic() + timeout_ms / 1000 + 30
        while len(self.client) and time.monotonic() < limit and not self.stopping.is_set():
            self.serve(0.1)
        if len(self.client):
            self.client.purge()
            limit = time.monotonic() + PURGE_S
            while len(self.client) and time.monotonic() < limit:
                self.serve(0.1)
        self.reports.flush()
        self.recorder.close()
        self.attempts.close()

    def serve(self, timeout_s: float) -> None:
        """Lets the callbacks run, and writes what they told when that is much, or a while ago."""
        self.poll(timeout_s)
        self.reports.take()
        now, pending = time.monotonic(), self.reports.pending
        if pending >= FLUSH_ROWS or (pending and now - self._flushed_at >= FLUSH_S):
            self.reports.flush()
            self._flushed_at = now

    def poll(self, timeout_s: float) -> None:
        """Lets the callbacks run."""
        self.client.poll(timeout_s)


def _stop_when_abandoned(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()


def run(sender: Sender) -> None:
    """From `ready` to `done`."""
    collect_seldom()
    signal.signal(signal.SIGTERM, lambda *_: sender.stopping.set())
    try:
        sender.connect()
    except RefusedError as error:
        say("trouble", message=str(error))
        raise SystemExit(1) from None
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


def main() -> None:
    """Runs one order to its end."""
    leave_out_pandas()
    run(Sender(ProducerOrder(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    main()
