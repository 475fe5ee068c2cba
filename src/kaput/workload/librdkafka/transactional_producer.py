"""A producer that sends in transactions, in its own process, like producer.py.

Waits for the outcomes of all messages of a transaction before it commits or deliberately aborts, so that
aborted messages are in the log too. If the client gives up (fenced by another producer with the same id, as
after a pause beyond the timeout), a new one continues: the coordinator has then aborted transactions without
a commit request, and the outcome of the others is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from kaput.scenario.producers import Transactions
from kaput.workload.client_spec import ProducerSpec, run_client
from kaput.workload.counters import TransactionRecord
from kaput.workload.librdkafka.client_setup import quiet_logger, text_of
from kaput.workload.librdkafka.producer import PURGE_S, Sender, main

CALL_S = 5.0  # how long a call to the coordinator may block; callbacks run between calls
PATIENCE_S = 180.0  # for retries of one call
STOPPED = "told to stop"


Call = Callable[[], None]


class TransactionalSender(Sender):
    """Records each transaction when its outcome is known."""

    def __init__(self, spec: ProducerSpec) -> None:
        super().__init__(spec)
        assert spec.transactions is not None
        self._plan = Transactions.model_validate(spec.transactions)
        self._id = str(spec.config["transactional.id"])
        self._record = TransactionRecord(spec, self._id)
        self.broken: str | None = None  # why it can only be aborted
        self._commit_asked = False

    def connect(self, timeout_s: float = 30) -> None:
        """Fetches metadata; ends an earlier client's open transaction. Raises as Sender does."""
        super().connect(timeout_s)
        try:
            self._init()
        except KafkaException as error:
            self.authorization.check(error.args[0], "Write", f"transactional id {self._id}")
            raise
        self._record.go_on(Path(self.spec.folder), self.attempts.made)

    def send(self, start: int, end: int) -> int:
        """As Sender.send, but not beyond the current transaction, which it ends when complete."""
        if self._record.begin_ns is None:
            self.begin(start)
        whole = self._record.first + self._plan.size
        seq = super().send(start, min(end, whole))
        if seq == whole or self.broken is not None:
            self.end(seq - 1)
        return seq

    def refused(self, seq: int, attempt_ns: int, error: KafkaException) -> None:
        """Records the rejection, which breaks the transaction."""
        super().refused(seq, attempt_ns, error)
        self.broken = text_of(error.args[0])

    def on_fatal(self, text: str) -> None:
        """No commit is asked for; the next transactional call raises it again, and a new client continues."""
        self.broken = text

    def finish(self) -> None:
        """Ends the last transaction, unless told to stop, and waits for every outcome."""
        if self._record.begin_ns is not None and not self.stopping.is_set():
            self.end(self.counts[0] - 1)
        super().finish()
        if self._record.begin_ns is not None:
            self._record.end(self.counts[0] - 1, "unknown", None, STOPPED)
        self._record.close()

    def begin(self, seq: int) -> None:
        """Begins a transaction whose first message is `seq`."""
        self._record.begin(seq)
        self.broken = None
        try:
            self.client.begin_transaction()
        except KafkaException as error:
            self.broken = text_of(error.args[0])

    def end(self, last: int) -> str:
        """Commits or aborts; records and returns the outcome. `last`: the seq of its last message. Raises
        KafkaException if a client that is no longer usable cannot be replaced.
        """
        outcome, self._commit_asked = "unknown", False
        try:
            self._settle()
            if self.broken is None and not self._plan.aborts(self._record.number):
                outcome = self._commit()
            else:
                outcome = self._abort()
        except KafkaException as error:
            self.broken = text_of(error.args[0])
            self._renew()
            if not self._commit_asked:
                outcome = "aborted"
        finally:
            self.reports.flush()  # a SIGKILL leaves no committed transaction of messages without outcomes
            self._record.end(last, outcome, time.time_ns(), self.broken)
        return outcome

    def _settle(self) -> None:
        """Waits for the outcomes of all messages; the client has its own timeout."""
        while len(self.client) and not self.stopping.is_set():
            self.serve(0.02)

    def _commit(self) -> str:
        """Returns `committed`, or `aborted` if the client requires that. Raises KafkaException."""
        try:
            self.before_commit()
            self._commit_asked = True
            self.insist(lambda: self.client.commit_transaction(CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.broken = text_of(error.args[0])
            return self._abort()
        return "committed"

    def before_commit(self) -> None:
        """Hook: adds to the transaction before its commit. Raises KafkaException."""

    def _abort(self) -> str:
        """Returns `aborted`. Raises KafkaException."""
        self.insist(lambda: self.client.abort_transaction(CALL_S))
        return "aborted"

    def insist(self, call: Call) -> None:
        """Retries until the call works. Raises KafkaException if it cannot work, or not in time."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            try:
                return call()
            except KafkaException as error:
                late = time.monotonic() > limit or self.stopping.is_set()
                if late or not error.args[0].retriable():
                    raise
            self.serve(0.05)

    def _init(self) -> None:
        self.insist(lambda: self.client.init_transactions(CALL_S))

    def _renew(self) -> None:
        """Replaces a client that is no longer usable. Raises KafkaException."""
        self.client.purge()
        limit = time.monotonic() + PURGE_S
        while len(self.client) and time.monotonic() < limit:
            self.serve(0.1)
        self.client = Producer({**self.settings, "on_delivery": self.listener()}, logger=quiet_logger())
        self._init()


if __name__ == "__main__":
    run_client(partial(main, TransactionalSender))
