"""A producer that sends in transactions, a process of its own: as producer.py, which says what it does.

Each transaction's messages are all sent, and their outcomes known, before it is committed, or aborted on
purpose: so what is aborted is in the log, too. What the client gives up (another producer of its id has taken
over, as after a pause beyond the timeout) is unknown, and a new client goes on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from kaput.evidence.recorder import Recorder
from kaput.processes.lean import leave_out_pandas
from kaput.scenario.transactions import Transactions
from kaput.workload.order import ProducerOrder
from kaput.workload.producer import PURGE_S, Sender, run
from kaput.workload.quiet import quiet_logger

CALL_S = 5.0  # how long a call to the coordinator may block: between two, callbacks are served
_PATIENCE_S = 180.0  # how long one is tried again


Call = Callable[[], None]


class TransactionalSender(Sender):
    """Records each transaction when its outcome is known."""

    def __init__(self, order: ProducerOrder) -> None:
        super().__init__(order)
        assert order.transactions is not None
        self._plan = Transactions.model_validate(order.transactions)
        self._id = str(order.config["transactional.id"])
        self._transactions = Recorder(Path(order.folder), "transactions", f"producer-{order.producer}")
        self._number = self._first = 0
        self._begin_ns: int | None = None  # of the transaction that is open
        self.broken: str | None = None  # why it can only be aborted

    def connect(self, timeout_s: float = 30) -> None:
        """Fetches metadata; the coordinator ends what an earlier client left. Raises as there."""
        super().connect(timeout_s)
        try:
            self._init()
        except KafkaException as error:
            self.refusals.check(error.args[0], "Write", f"transactional id {self._id}")
            raise

    def send(self, start: int, end: int) -> int:
        """As Sender.send, no further than the transaction reaches, which is ended where it does."""
        if self._begin_ns is None:
            self.begin(start)
        whole = self._first + self._plan.size
        seq = super().send(start, min(end, whole))
        if seq == whole or self.broken is not None:
            self.end(seq - 1)
        return seq

    def refused(self, seq: int, attempt_ns: int, error: KafkaException) -> None:
        """The transaction is lost with it."""
        super().refused(seq, attempt_ns, error)
        self.broken = _said(error)

    def poll(self, timeout_s: float) -> None:
        """As Sender.poll. A fatal error, which it raises once, is met again at the next call that matters."""
        with suppress(KafkaException):
            super().poll(timeout_s)

    def finish(self) -> None:
        """Ends the last transaction, and waits for every outcome."""
        if self._begin_ns is not None and not self.stopping.is_set():
            self.end(self.counts[0] - 1)
        super().finish()
        self._transactions.close()

    def begin(self, seq: int) -> None:
        """A transaction, whose first message is that."""
        self._first, self._begin_ns, self.broken = seq, time.time_ns(), None
        try:
            self.client.begin_transaction()
        except KafkaException as error:
            self.broken = _said(error)

    def end(self, last: int) -> str:
        """Commits or aborts, whatever it takes, records which, and says it. `last`: the seq of its last
        message.
        """
        outcome = "unknown"
        try:
            self._settle()
            if self.broken is None and not self._plan.aborts(self._number):
                outcome = self._commit()
            else:
                outcome = self._abort()
        except KafkaException as error:
            self.broken = _said(error)
            self._renew()
        assert self._begin_ns is not None
        self._transactions.row(
            self._id, self.order.producer, self._number, self._first, last, outcome, self._begin_ns,
            time.time_ns(), self.broken,
        )  # fmt: skip
        self._transactions.flush()  # a SIGKILL must not take the outcomes of those before along
        self._begin_ns = None
        self._number += 1
        return outcome

    def _settle(self) -> None:
        """Waits for the outcome of everything that was sent: the client gives up by itself."""
        while len(self.client) and not self.stopping.is_set():
            self.serve(0.02)

    def _commit(self) -> str:
        """`committed`; `aborted` where the client says that it cannot be. Raises KafkaException."""
        try:
            self.before_commit()
            self.insist(lambda: self.client.commit_transaction(CALL_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.broken = _said(error)
            return self._abort()
        return "committed"

    def before_commit(self) -> None:
        """What else is a part of the transaction. Raises KafkaException."""

    def _abort(self) -> str:
        """`aborted`. Raises KafkaException."""
        self.insist(lambda: self.client.abort_transaction(CALL_S))
        return "aborted"

    def insist(self, call: Call) -> None:
        """Calls until it has worked. Raises KafkaException where that does not help, or not in time."""
        limit = time.monotonic() + _PATIENCE_S
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
        """Another client in the place of one that is of no use any more. Raises KafkaException."""
        self.client.purge()
        limit = time.monotonic() + PURGE_S
        while len(self.client) and time.monotonic() < limit:
            self.serve(0.1)
        self.client = Producer({**self.settings, "on_delivery": self.listener()}, logger=quiet_logger())
        self._init()


def _said(error: KafkaException) -> str:
    return f"{error.args[0].name()}: {error.args[0].str()}"


def main() -> None:
    """Runs one order to its end."""
    leave_out_pandas()
    run(TransactionalSender(ProducerOrder(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    main()
