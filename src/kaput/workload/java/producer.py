"""A producer that is Kafka's own, in Java: `python -m kaput.workload.java.producer SPEC.json`.

Starts VerifiableProducer, which numbers its messages itself, holds it until the load begins, and records the
outcome of each. A tool that dies, hangs or prints unknown lines is a finding about it, and the run continues.
Reports to the supervisor as librdkafka/producer.py does.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from kaput.workload.client_main import run_client
from kaput.workload.client_spec import JavaProducerSpec, notify
from kaput.workload.command.host import READY_S, run_producer, start_failure
from kaput.workload.command.producer import FLUSH_S
from kaput.workload.command.program import ProgramError
from kaput.workload.counters import Counters, ThresholdWatch
from kaput.workload.java.program import JavaProgram
from kaput.workload.java.sends import JavaSends

_POLL_S = 0.05
_WHO = "Kafka's Java producer"


class JavaSender:
    """Reads one VerifiableProducer. Raises ProgramError if that cannot be started."""

    def __init__(self, spec: JavaProducerSpec, stderr: Path) -> None:
        self.spec = spec
        counters = Counters(Path(spec.counters), spec.producers)
        self.counts = counters.row(spec.producer)
        self.watch = ThresholdWatch(counters, spec.thresholds)
        self.stopping, self._made = threading.Event(), threading.Event()
        self._flushed_at = time.monotonic()
        self.sends = JavaSends(spec, self.counts, self._attempted)
        patience_s = spec.patience_ms / 1000
        self.program = JavaProgram(
            spec.command, stderr, patience_s, self.sends.on_line, self.stopping, held=True
        )

    def send_all(self) -> None:
        """Releases it, and returns when it has made every attempt. Raises ProgramError."""
        spec = self.spec
        self.sends.released_ns = time.time_ns()
        self.program.go()
        end = time.monotonic() + spec.duration_ms / 1000 if spec.duration_ms else None
        while not self.stopping.is_set() and not self._made.wait(_POLL_S):
            self.program.check()
            self._flush()
            if not self.program.running:
                return  # `finish` raises for a bad end
            if end is not None and time.monotonic() >= end:
                self.program.end()
                return

    def finish(self) -> None:
        """Waits for every outcome, and for its end. Raises ProgramError."""
        self.program.await_end(self._flush)
        if self.stopping.is_set():
            return
        problems = self.sends.contradictions()
        missing = self.spec.messages is not None and self.sends.attempted < self.spec.messages
        if missing:
            problems.append(f"it ended after {self.sends.attempted:,} of {self.spec.messages:,} messages")
        if self.sends.outstanding:
            problems.append(f"it ended without reporting the outcome of {self.sends.outstanding:,} messages")
        if problems:
            raise ProgramError("; ".join(problems))

    def close(self) -> None:
        """Records everything that is known, and leaves nothing of the program behind."""
        self.program.close()
        self.sends.close()

    def _attempted(self, count: int) -> None:
        for n in self.watch.look() if self.watch.left else ():
            notify("threshold", n=n, at_ns=time.time_ns())
        if count == self.spec.messages:
            self._made.set()

    def _flush(self) -> None:
        now = time.monotonic()
        if now - self._flushed_at >= FLUSH_S:
            self.sends.flush()
            self._flushed_at = now


def main() -> None:
    """Runs one producer until every outcome is known."""
    path = Path(sys.argv[1])
    spec = JavaProducerSpec(**json.loads(path.read_text()))
    sender = None
    try:
        sender = JavaSender(spec, path.with_suffix(".java.err"))
        signal.signal(signal.SIGTERM, lambda *_: sender.stopping.set() if sender else None)
        notify("client-pid", pid=sender.program.pid)
        sender.program.await_held(READY_S)
    except ProgramError as error:
        if sender is not None:
            sender.close()
        raise start_failure(_WHO, error) from None
    run_producer(sender, _WHO)


if __name__ == "__main__":
    run_client(main)
