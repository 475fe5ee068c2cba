"""A producer that is Kafka's own, in Java: `python -m kaput.workload.java_producer ORDER.json`.

Starts VerifiableProducer, which numbers its messages itself, holds it until the load begins, and records what
it says of each. One that dies, hangs or prints rubbish is a finding about it, and the run goes on. Says what
producer.py says.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from kaput.workload.command_producer import FLUSH_S, READY_S
from kaput.workload.commanded import CommandError
from kaput.workload.counters import Counters, ThresholdWatch
from kaput.workload.hosting import no_program, produce
from kaput.workload.java_program import JavaProgram
from kaput.workload.java_sends import JavaSends
from kaput.workload.order import JavaProducerOrder, say

_POLL_S = 0.05
_WHO = "Kafka's Java producer"


class JavaSender:
    """Listens to one VerifiableProducer. Raises CommandError where that cannot be started."""

    def __init__(self, order: JavaProducerOrder, stderr: Path) -> None:
        self.order = order
        counters = Counters(Path(order.counters), order.producers)
        self.counts = counters.row(order.producer)
        self.watch = ThresholdWatch(counters, order.thresholds)
        self.stopping, self._made = threading.Event(), threading.Event()
        self._flushed_at = time.monotonic()
        self.sends = JavaSends(order, self.counts, self._attempted)
        patience_s = order.patience_ms / 1000
        self.program = JavaProgram(
            order.command, stderr, patience_s, self.sends.heard, self.stopping, held=True
        )

    def send_all(self) -> None:
        """Lets it go, until it has made every attempt. Raises CommandError."""
        order = self.order
        self.sends.released_ns = time.time_ns()
        self.program.go()
        end = time.monotonic() + order.duration_ms / 1000 if order.duration_ms else None
        while not self.stopping.is_set() and not self._made.wait(_POLL_S):
            self.program.check()
            self._flush()
            if not self.program.running:
                return  # how it ended is told by `finish`
            if end is not None and time.monotonic() >= end:
                self.program.end()
                return

    def finish(self) -> None:
        """Waits for every outcome, and for its end. Raises CommandError."""
        self.program.await_end(self._flush)
        if self.stopping.is_set():
            return
        said = self.sends.contradictions()
        missing = self.order.messages is not None and self.sends.attempted < self.order.messages
        if missing:
            said.append(f"it ended after {self.sends.attempted:,} of {self.order.messages:,} messages")
        if self.sends.outstanding:
            said.append(f"it ended without saying what became of {self.sends.outstanding:,} messages")
        if said:
            raise CommandError("; ".join(said))

    def close(self) -> None:
        """Everything that is known is on record, and nothing of the program is left."""
        self.program.close()
        self.sends.close()

    def _attempted(self, count: int) -> None:
        for n in self.watch.look() if self.watch.left else ():
            say("threshold", n=n, at_ns=time.time_ns())
        if count == self.order.messages:
            self._made.set()

    def _flush(self) -> None:
        now = time.monotonic()
        if now - self._flushed_at >= FLUSH_S:
            self.sends.flush()
            self._flushed_at = now


def main() -> None:
    """Runs one order to its end."""
    path = Path(sys.argv[1])
    order = JavaProducerOrder(**json.loads(path.read_text()))
    sender = None
    try:
        sender = JavaSender(order, path.with_suffix(".java.err"))
        signal.signal(signal.SIGTERM, lambda *_: sender.stopping.set() if sender else None)
        say("body", pid=sender.program.pid)
        sender.program.await_held(READY_S)
    except CommandError as error:
        if sender is not None:
            sender.close()
        raise no_program(_WHO, error) from None
    produce(sender, _WHO)


if __name__ == "__main__":
    main()
