"""A producer that is another program: `python -m kaput.workload.command.producer SPEC.json`.

The user's own (`client: command`), or the one on Kafka's Java client. Numbers the messages, passes them to
the program and records the outcomes it prints. A program that dies, hangs or prints unknown lines is a
finding about it, and the run continues: messages without an outcome are `unknown`. Reports to the supervisor
as librdkafka/producer.py does.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
from pathlib import Path

from kaput.scenario.vocabulary import CLIENT_OUTCOMES, TRANSACTION_OUTCOMES
from kaput.workload.client_spec import (
    CommandProducerSpec,
    client_properties,
    follow_input,
    notify,
    run_client,
    stop_at_sigterm,
)
from kaput.workload.command.host import READY_S, move_line, start_failure
from kaput.workload.command.program import ClientProgram, Line, ProgramError, integer, line_of
from kaput.workload.counters import FIELDS, NumberedProducer, TransactionRecord
from kaput.workload.moving import MoveTo, ProducerMove

BATCH = 64
FLUSH_S = 0.2
_CELL = {"acked": FIELDS.index("acked"), "failed": FIELDS.index("failed"), "unknown": FIELDS.index("unknown")}


class CommandSender(NumberedProducer[CommandProducerSpec]):
    """Passes one producer's messages to a program, and records the outcomes it prints."""

    def __init__(self, spec: CommandProducerSpec, stderr: Path) -> None:
        super().__init__(spec)
        self.ready, self.library = threading.Event(), ""
        self.move = ProducerMove(self)
        self._moved = threading.Event()
        self._moves_to: str | None = None  # the cluster it was told to move to
        self._recording = threading.Lock()
        self._outstanding: dict[int, int] = {}  # attempt_ns by seq
        self._flushed_at = time.monotonic()
        self.program = ClientProgram(
            spec.command, stderr, spec.patience_ms / 1000, self.on_line, self.stopping
        )

    @property
    def idle(self) -> bool:
        return self.stopping.is_set() or not self._outstanding

    def serve(self, timeout_s: float) -> None:
        time.sleep(timeout_s)
        self._flush(time.monotonic())

    def end_client(self) -> int:
        """The number of messages without an outcome, which the program may still report."""
        return len(self._outstanding)

    def begin_client(self, move: MoveTo) -> None:
        """Tells the program to move to another cluster. Raises ProgramError."""
        self._moves_to = move.to.cluster
        self.spec = move.to.applied_to(self.spec)
        self._moved.clear()
        self.program.write(move_line(self.spec))

    def connect(self, timeout_s: float = READY_S) -> None:
        """Waits until it has moved. Raises ProgramError."""
        self.program.await_event(self._moved, "moved", max(timeout_s, READY_S))

    def start(self) -> None:
        """Tells the program where to send, and waits until it is ready. Raises ProgramError."""
        spec = self.spec
        id_ = {} if spec.transactional_id is None else {"transactional_id": spec.transactional_id}
        self.program.write(
            line_of(
                bootstrap_servers=spec.config["bootstrap.servers"],
                topic=spec.topic,
                partitions=spec.partitions,
                producer=spec.producer,
                acks=spec.acks,
                idempotence=spec.idempotence,
                config=spec.client_config,
                **client_properties(spec),
                **id_,
            )
        )
        self.program.await_event(self.ready, "ready", READY_S)

    def send_all(self) -> None:
        """Passes it every message at the configured rate. Raises ProgramError."""
        spec, start = self.spec, time.monotonic() + self.spec.starts_ms / 1000
        self.stopping.wait(self.spec.starts_ms / 1000)
        end = start + spec.duration_ms / 1000 if spec.duration_ms else None
        seq = self.first
        while not self.stopping.is_set():
            self.move.follow()
            now = time.monotonic()
            self._flush(now)
            if seq == spec.messages or (end is not None and now >= end):
                return
            self.program.check()
            due = int((now - start) * spec.rate) + 1 + self.first - seq if spec.rate else BATCH
            if due <= 0:
                time.sleep(min(max(start + (seq - self.first) / spec.rate - now, 0.0), 0.05))
                continue
            last = seq + min(due, BATCH if not self.watch.left else 1)
            seq = self.send(seq, last if spec.messages is None else min(last, spec.messages))

    def send(self, first: int, end: int) -> int:
        """Passes it messages `first` to before `end`, or fewer; returns the next seq. Raises ProgramError."""
        lines = []
        for seq in range(first, end):
            at_ns = time.time_ns()
            self.attempts.attempt(seq, at_ns)
            self._outstanding[seq] = at_ns
            lines.append(self._line(seq, at_ns))
        self.counts[0] = end
        self.program.write(b"".join(lines))
        for n in self.watch.look() if self.watch.left else ():
            notify("threshold", n=n, at_ns=time.time_ns())
        return end

    def _line(self, seq: int, at_ns: int) -> bytes:
        spec = self.spec
        payload = base64.b64encode(self.encode(seq, at_ns)).decode()
        key = {"none": None, "producer": str(spec.producer), "seq": str(seq)}.get(str(spec.key), "")
        key = str(seq % int(spec.key)) if key == "" else key
        more = {"partition": seq % spec.partitions} if spec.chooses else {}
        return line_of(seq=seq, key=key, payload=payload, **more)

    def finish(self) -> None:
        """Waits for every outcome, and for the program's end. Raises ProgramError."""
        self.program.finish(self.while_waiting)
        if self._outstanding and not self.stopping.is_set():
            first = min(self._outstanding)
            raise ProgramError(
                f"it ended without reporting the outcome of {len(self._outstanding):,} messages "
                f"(the first is seq {first})"
            )

    def while_waiting(self) -> None:
        """Called regularly while outcomes are awaited."""
        self._flush(time.monotonic())
        self.move.follow(waits=False, moves=False)

    def close(self) -> None:
        """Records everything that is known, and ends the program."""
        self.program.close()
        with self._recording:
            self.recorder.close()
        self.attempts.close()

    def on_line(self, line: Line) -> str | None:
        """One line of output, in the reader thread; a clause about what is wrong with it, or None."""
        if line.get("ready") is True:
            if self.ready.is_set():
                return "a second ready"
            self.library = str(line.get("library", ""))[:100]
            self.ready.set()
            return None
        if line.get("moved") is True:
            return self._has_moved()
        seq, outcome, offset, partition = (line.get(k) for k in ("seq", "outcome", "offset", "partition"))
        if not integer(seq) or outcome not in CLIENT_OUTCOMES:
            return "neither ready nor moved nor a seq and an outcome (acked, failed, unknown)"
        if not (offset is None or integer(offset)) or not (partition is None or integer(partition)):
            return "offset and partition are numbers from 0 on, or left out"
        attempt_ns = self._outstanding.pop(seq, None)
        if attempt_ns is None:
            return "a second outcome for that seq" if seq < self.counts[0] else "it was not given that seq"
        if partition is None and self.spec.chooses:
            partition = seq % self.spec.partitions
        error = line.get("error")
        done_ns = time.time_ns()
        with self._recording:
            self.recorder.row(
                producer=self.spec.producer, seq=seq, topic=self.spec.topic, partition=partition,
                attempt_ns=attempt_ns, done_ns=done_ns, outcome=outcome, offset=offset,
                error=None if error is None else str(error)[:500],
            )  # fmt: skip
        self.counts[_CELL[outcome]] += 1
        return None

    def _has_moved(self) -> str | None:
        """From now on outcomes are of messages sent to the new cluster."""
        if self._moves_to is None or self._moved.is_set():
            return "it was not told to move"
        with self._recording:
            self.recorder.flush()
            self.recorder.cluster = self._moves_to
        self.attempts.sends_to(self._moves_to)
        self._moved.set()
        return None

    def _flush(self, now: float) -> None:
        if now - self._flushed_at >= FLUSH_S:
            with self._recording:
                self.recorder.flush()
            self._flushed_at = now


class TransactionalCommandSender(CommandSender):
    """Records each transaction when the program has reported its outcome. Tells it where a transaction begins
    and, when the outcomes of all its messages are known, how to end it, so that aborted messages are in the
    log too. As librdkafka/transactional_producer.py does.
    """

    def __init__(self, spec: CommandProducerSpec, stderr: Path) -> None:
        from kaput.scenario.producers import Transactions  # with pydantic, which few producers need

        self._plan = Transactions.model_validate(spec.transactions)
        self._record = TransactionRecord(spec, str(spec.transactional_id))
        self._broken: str | None = None  # why it can only be aborted
        self._end_requested = False
        self._ended: tuple[str, int, str | None] | None = (
            None  # (outcome, time in ns, error) as the program reported
        )
        super().__init__(spec, stderr)
        self._record.go_on(Path(spec.folder), self.attempts.made)

    def send(self, first: int, end: int) -> int:
        """As CommandSender.send, but not beyond the current transaction, which it ends when complete."""
        if self._record.begin_ns is None:
            self._record.begin(first)
            self._broken = None
            self.program.write(line_of(begin=True))
        whole = self._record.first + self._plan.size
        seq = super().send(first, min(end, whole))
        if seq == whole or self._broken is not None:
            self._end(seq - 1)
        return seq

    def finish(self) -> None:
        """Ends the last transaction, and waits for every outcome. Raises ProgramError."""
        if self._record.begin_ns is not None and not self.stopping.is_set():
            self._end(self.counts[0] - 1)
        super().finish()

    def close(self) -> None:
        super().close()
        if self._record.begin_ns is not None:
            self._record.end(self.counts[0] - 1, "unknown", None, self._broken)
        self._record.close()

    def on_line(self, line: Line) -> str | None:
        if "transaction" not in line:
            wrong = super().on_line(line)
            if wrong is None and line.get("outcome") in ("failed", "unknown"):
                self._broken = str(line.get("error"))[:500]
            return wrong
        outcome, error = line["transaction"], line.get("error")
        if outcome not in TRANSACTION_OUTCOMES:
            return f"transaction is one of {', '.join(TRANSACTION_OUTCOMES)}"
        if not self._end_requested:
            return "it was not told to end a transaction"
        self._end_requested = False
        self._ended = (outcome, time.time_ns(), None if error is None else str(error)[:500])
        return None

    def _end(self, last: int) -> None:
        """Makes the program commit or abort, and records the outcome, to seq `last`. Raises ProgramError."""
        self.program.await_lines(lambda: self.idle, self.while_waiting)
        commit = self._broken is None and not self._plan.aborts(self._record.number)
        self._ended, self._end_requested = None, True
        self.program.write(line_of(end="commit" if commit else "abort"))
        self.program.await_lines(lambda: self._ended is not None, self.while_waiting)
        if self._ended is not None:
            outcome, end_ns, error = self._ended
            self._record.end(last, outcome, end_ns, error or self._broken)


def sender_of(spec: CommandProducerSpec, stderr: Path) -> CommandSender:
    """The sender for a spec, with its program started. Raises ProgramError if that fails."""
    if spec.transactions is None:
        return CommandSender(spec, stderr)
    return TransactionalCommandSender(spec, stderr)


def run_producer(sender: CommandSender, who: str) -> None:
    """Runs a producer whose program is ready, until everything is reported. `who` names it in messages."""
    notify("ready", library=sender.library)
    sys.stdin.readline()
    follow_input(sender.stopping.set, sender.move.instructions.take)
    findings = []
    try:
        sender.send_all()
        notify("sent", attempted=int(sender.counts[0]))
        sender.finish()
    except ProgramError as error:
        findings.append(str(error))
    sender.close()
    for finding in findings:
        notify("finding", message=f"{who}: {finding}", ended=True)
    if violations := sender.program.protocol_violations():
        notify("finding", message=f"{who}: {violations}")
    if findings:
        notify("sent", attempted=int(sender.counts[0]))
    notify("done", attempted=int(sender.counts[0]), acked=int(sender.counts[1]))


def main() -> None:
    path = Path(sys.argv[1])
    spec = CommandProducerSpec(**json.loads(path.read_text()))
    try:
        sender = sender_of(spec, path.with_suffix(".command.err"))
        stop_at_sigterm(sender.stopping.set)
        notify("client-pid", pid=sender.program.pid)
        sender.start()
    except ProgramError as error:
        raise start_failure(spec.who, error) from None
    run_producer(sender, spec.who)


if __name__ == "__main__":
    run_client(main)
