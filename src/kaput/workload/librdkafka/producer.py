"""A process of one producer, or of several: `python -m kaput.workload.librdkafka.producer SPEC.json`.

Reports `ready`, waits for a line on stdin, sends, reports `sent`, waits for every outcome, reports `done`.
Records every attempt before its send (evidence/attempts.py), every outcome in its callback. Can be moved to
another cluster (moving.py). Ends at once when its stdin closes: its supervisor is gone.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, as_completed, wait
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from kaput.core import MS
from kaput.workload.client_spec import (
    NotAuthorizedError,
    ProducerSpec,
    client_settings,
    follow_input,
    notify,
    run_client,
    stop_at_sigterm,
)
from kaput.workload.counters import NumberedProducer
from kaput.workload.librdkafka.client_setup import (
    AuthorizationErrors,
    RequestCounts,
    is_fatal,
    notify_ready,
    quiet_logger,
    text_of,
    tune_garbage_collection,
)
from kaput.workload.librdkafka.delivery_reports import OutcomeRecorder
from kaput.workload.moving import MoveTo, ProducerMove

FLUSH_ROWS = 8192
FLUSH_S = 0.2
PURGE_S = 10  # for the delivery reports of purged messages
POLL_EVERY = 64  # sends between two polls for callbacks
POLL_S = 0.01  # sends that take longer than this together are followed by a poll
TICK_S = 0.001  # librdkafka rounds timeouts down to whole milliseconds


class Sender(NumberedProducer[ProducerSpec]):
    """Sends one producer's messages, records their outcomes. `enough`: set to send no more."""

    def __init__(self, spec: ProducerSpec) -> None:
        super().__init__(spec)
        self.enough = threading.Event()
        self.reports = OutcomeRecorder(self.recorder, spec, self.counts)
        self.move = ProducerMove(self)
        self._flushed_at = self._served_at = time.monotonic()
        self._requests = RequestCounts(spec, client_settings(spec))
        self._open_client()

    def _open_client(self) -> None:
        self.fatal: str | None = None  # the error that ended the client
        self.settings = client_settings(self.spec)
        self.authorization = AuthorizationErrors(self.settings)
        callbacks = {"on_delivery": self.listener(), "error_cb": self.authorization.on_error}
        self.client = self.make_client({**self.settings, **callbacks, **self._requests.settings()})

    @property
    def idle(self) -> bool:
        return self.stopping.is_set() or not len(self.client)

    def on_instruction(self, message: Mapping[str, Any]) -> None:
        """Handles a line of stdin (client_spec.py: Instruction), from another thread."""
        if message["kind"] == "enough":
            self.enough.set()
        else:
            self.move.instructions.take(message)

    def end_client(self) -> int:
        """Gives up messages without an outcome, and records them; returns how many."""
        given_up = len(self.client)
        self.give_up()
        self.reports.take()
        self.reports.flush()
        return given_up

    def begin_client(self, move: MoveTo) -> None:
        """Opens a client on another cluster, which messages go to from now on."""
        self.spec = move.to.applied_to(self.spec)
        self.recorder.cluster = move.to.cluster
        self.attempts.sends_to(move.to.cluster)
        self._open_client()

    def make_client(self, settings: dict[str, Any]) -> Any:
        return Producer(settings, logger=quiet_logger())

    def listener(self) -> Callable[[Any, Message], None]:
        return self.reports.listener()

    def connect(self, timeout_s: float = 30) -> None:
        """Fetches metadata, for a quick first send. Raises KafkaException, NotAuthorizedError."""
        self.authorization.describe_topic(self.client, self.spec.topic, timeout_s)

    def send_all(self) -> None:
        """Makes every attempt at the configured rate."""
        spec, start = self.spec, time.monotonic() + self.spec.starts_ms / 1000
        while (left := start - time.monotonic()) > 0 and not (self.stopping.is_set() or self.enough.is_set()):
            self.serve(min(left, 0.05))
            if self.move.instructions.waiting:
                self.move.follow()
        seq = served = self.first
        end = start + spec.duration_ms / 1000 if spec.duration_ms else None
        while not (self.stopping.is_set() or self.enough.is_set()):
            if self.move.instructions.waiting:
                self.move.follow()
            now = time.monotonic()
            if seq == spec.messages or (end is not None and now >= end):
                return
            due = int((now - start) * spec.rate) + 1 + self.first - seq if spec.rate else POLL_EVERY
            if due <= 0:
                self.serve(min(max(start + (seq - self.first) / spec.rate - now, TICK_S), 0.05))
                continue
            last = seq + min(due, POLL_EVERY)
            seq = self._advance(seq, last if spec.messages is None else min(last, spec.messages))
            if seq - served >= POLL_EVERY or time.monotonic() - self._served_at >= POLL_S:
                self.serve(0)
                served = seq

    def _advance(self, seq: int, end: int) -> int:
        """Sends up to `end`, one by one before a threshold, so that none is noticed late."""
        while seq < end and not self.move.instructions.waiting:
            seq = self.send(seq, seq + 1 if self.watch.left else end)
            self.counts[0] = seq
            if self.watch.left:
                for n in self.watch.look():
                    notify("threshold", n=n, at_ns=time.time_ns())
        return seq

    def send(self, start: int, end: int) -> int:
        """Sends from `start` to before `end`; returns the next seq. Waits if the queue is full."""
        cells, topic = self.attempts.cells(start, end), self.spec.topic
        end = start + len(cells)
        encode, produce, time_ns = self.encode, self._produce, time.time_ns
        seqs, places = range(start, end), range(len(cells))
        messages = zip(seqs, places, self.keys(start), self.partitions(start), strict=False)
        seq, attempt_ns = start, 0
        try:
            for seq, place, key, partition in messages:
                cells[place] = attempt_ns = time_ns()
                produce(topic, encode(seq, attempt_ns), key, partition)
        except BufferError as error:
            return self.on_queue_full(seq, attempt_ns, error)
        except KafkaException as error:
            self.refused(seq, attempt_ns, error)
            return seq + 1
        return end

    @property
    def _produce(self) -> Callable[..., None]:
        """The client's method, with timestamps if they are shifted."""
        produce: Callable[..., None] = self.client.produce
        shift = self.spec.timestamps_ms
        return produce if shift is None else lambda *of: produce(*of, timestamp=time.time_ns() // MS + shift)

    def on_queue_full(self, seq: int, attempt_ns: int, error: BufferError) -> int:
        """Called when the client's queue is full; returns the seq to send next."""
        self.serve(0.05)
        return seq

    def refused(self, seq: int, attempt_ns: int, error: KafkaException) -> None:
        fatal = is_fatal(error.args[0])
        self.reports.refused(seq, attempt_ns, (self.fatal if fatal else None) or text_of(error.args[0]))
        if fatal and not self.spec.rate and self.spec.messages is None:
            self.serve(TICK_S)  # else it would refuse as many as it can until the end of its time

    def partitions(self, seq: int) -> Iterator[int]:
        """The partition of each message from `seq` on; -1 leaves it to the client's partitioner."""
        count = self.spec.partitions
        if not self.spec.chooses:
            return itertools.repeat(-1)
        if self.spec.partition is not None:
            return itertools.repeat(self.spec.partition)
        return itertools.repeat(0) if count == 1 else (n % count for n in itertools.count(seq))

    def keys(self, seq: int) -> Iterator[bytes | None]:
        """The key of each message from `seq` on."""
        match self.spec.key:
            case "none":
                return itertools.repeat(None)
            case "producer":
                return itertools.repeat(str(self.spec.producer).encode())
            case "seq":
                return (b"%d" % n for n in itertools.count(seq))
            case keys:
                count = int(keys)
                return (b"%d" % (n % count) for n in itertools.count(seq))

    def await_others(self, all_sent: threading.Event) -> None:
        """Runs callbacks until the other producers of its process have sent everything; moves with them."""
        while not (all_sent.is_set() or self.stopping.is_set()):
            self.serve(0.05)
            self.move.follow(waits=False)

    def serve_for(self, seconds: float) -> None:
        """Runs callbacks for that long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.serve(min(max(left, TICK_S), 0.05))

    def finish(self) -> None:
        """Waits for every outcome; purges what librdkafka still holds after its own timeout."""
        limit = time.monotonic() + self.timeout_ms() / 1000 + 30
        while not self.idle and time.monotonic() < limit:
            self.serve(0.1)
            self.move.follow(waits=False, moves=False)
        self.give_up()
        self.reports.flush()
        self.recorder.close()
        self.attempts.close()
        self._requests.close()

    def timeout_ms(self) -> int:
        """How long the client tries to deliver a message."""
        return int(self.spec.config.get("message.timeout.ms", 300_000)) or 300_000

    def give_up(self) -> None:
        """Purges messages that have no outcome yet."""
        if len(self.client):
            self.client.purge()
            limit = time.monotonic() + PURGE_S
            while len(self.client) and time.monotonic() < limit:
                self.serve(0.1)

    def serve(self, timeout_s: float) -> None:
        """Runs callbacks; flushes their rows when there are many, or after a while."""
        self.poll(timeout_s)
        self.reports.take()
        self._served_at = now = time.monotonic()
        pending = self.reports.pending
        if pending >= FLUSH_ROWS or (pending and now - self._flushed_at >= FLUSH_S):
            self.reports.flush()
            self._flushed_at = now

    def poll(self, timeout_s: float) -> None:
        """Runs callbacks. The client raises a fatal error amid them: gives up what it has, since it sends
        nothing more. It refuses each later message (which has failed), and transactional calls.
        """
        try:
            self.client.poll(timeout_s)
        except KafkaException as error:
            if not is_fatal(error.args[0]):
                raise
            self.client.purge()
            self.on_fatal(text_of(error.args[0]))

    def on_fatal(self, text: str) -> None:
        """Reports what ended the client. A producer that is moved to another cluster has a new one there."""
        self.fatal, who = text, f"The client of producer {self.spec.producer}"
        notify("note", message=f"{who} ended at a fatal error, and sent nothing more: {text}")


def connect_or_exit(sender: Sender) -> None:
    """Connects. If that fails, reports it and raises SystemExit (1)."""
    try:
        sender.connect()
    except NotAuthorizedError as error:
        notify("trouble", message=str(error))
        raise SystemExit(1) from None
    except KafkaException as error:
        notify("trouble", message=f"cannot reach the cluster: {error.args[0]}")
        raise SystemExit(1) from None


def run(sender: Sender) -> None:
    tune_garbage_collection()
    stop_at_sigterm(sender.stopping.set)
    connect_or_exit(sender)
    notify_ready()
    sys.stdin.readline()
    follow_input(sender.stopping.set, sender.on_instruction)
    sender.send_all()
    notify("sent", attempted=sender.counts[0])
    sender.finish()
    notify("done", attempted=sender.counts[0], acked=sender.counts[1])


def run_together(senders: Sequence[Sender]) -> None:
    """Runs several producers from `ready` to `done`, reporting for all of them together. If one raises, stops
    the others and re-raises. Each is the same as in its own process, in a thread: its client, its numbers,
    its evidence. Hundreds of processes would need more memory than the brokers; at modest rates the threads
    mostly wait.
    """
    tune_garbage_collection()
    stop_at_sigterm(partial(_stop_all, senders))
    with ThreadPoolExecutor(len(senders)) as pool:
        try:
            _wait_all(pool.submit(connect_or_exit, sender) for sender in senders)
            notify_ready()
            sys.stdin.readline()
            follow_input(partial(_stop_all, senders), partial(_instruct_all, senders))
            sending = {pool.submit(sender.send_all): sender for sender in senders}
            all_sent, finishing = threading.Event(), []
            for part in as_completed(sending):
                part.result()
                finishing.append(pool.submit(_finish, sending[part], all_sent))
            notify("sent", attempted=sum(sender.counts[0] for sender in senders))
            all_sent.set()
            _wait_all(finishing)
        finally:
            _stop_all(senders)
    acked = sum(sender.counts[1] for sender in senders)
    notify("done", attempted=sum(sender.counts[0] for sender in senders), acked=acked)


def _finish(sender: Sender, all_sent: threading.Event) -> None:
    sender.await_others(all_sent)
    sender.finish()


def _wait_all(parts: Iterable[Future[None]]) -> None:
    """Waits for all of them, or until one has failed; re-raises its exception."""
    for part in wait(list(parts), return_when=FIRST_EXCEPTION).done:
        part.result()


def _instruct_all(senders: Sequence[Sender], message: Mapping[str, Any]) -> None:
    for sender in senders:
        sender.on_instruction(message)


def _stop_all(senders: Sequence[Sender]) -> None:
    for sender in senders:
        sender.stopping.set()


def main(sender: type[Sender] = Sender) -> None:
    """Runs one producer, or several, until every outcome is known."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    if "producer" in spec:
        run(sender(ProducerSpec(**spec)))
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each client is connected to every broker
    run_together([sender(ProducerSpec(**each)) for each in spec["producers"]])


if __name__ == "__main__":
    run_client(main)
