"""A producer that is another program and sends in transactions.

Tells it where a transaction begins and, when the outcomes of all its messages are known, how to end it, so
that aborted messages are in the log too. As librdkafka/transactional_producer.py does.
"""

from __future__ import annotations

import time
from pathlib import Path

from kaput.evidence.recorder import Recorder
from kaput.scenario.transactions import Transactions
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES
from kaput.workload.client_spec import CommandProducerSpec
from kaput.workload.command.producer import CommandSender
from kaput.workload.command.program import Line, line_of


class TransactionalCommandSender(CommandSender):
    """Records each transaction when the program has reported its outcome."""

    def __init__(self, spec: CommandProducerSpec, stderr: Path) -> None:
        self._plan = Transactions.model_validate(spec.transactions)
        self._number = self._first = 0
        self._begin_ns: int | None = None  # of the open transaction
        self._broken: str | None = None  # why it can only be aborted
        self._end_requested = False
        self._ended: tuple[str, int, str | None] | None = (
            None  # (outcome, time in ns, error) as the program reported
        )
        writer = f"producer-{spec.producer}"
        self._transactions = Recorder(Path(spec.folder), "transactions", writer, spec.cluster)
        super().__init__(spec, stderr)

    def send(self, first: int, end: int) -> int:
        """As CommandSender.send, but not beyond the current transaction, which it ends when complete."""
        if self._begin_ns is None:
            self._first, self._begin_ns, self._broken = first, time.time_ns(), None
            self.program.write(line_of(begin=True))
        whole = self._first + self._plan.size
        seq = super().send(first, min(end, whole))
        if seq == whole or self._broken is not None:
            self._end(seq - 1)
        return seq

    def finish(self) -> None:
        """Ends the last transaction, and waits for every outcome. Raises ProgramError."""
        if self._begin_ns is not None and not self.stopping.is_set():
            self._end(self.counts[0] - 1)
        super().finish()

    def close(self) -> None:
        super().close()
        if self._begin_ns is not None:
            self._row(self.counts[0] - 1, "unknown", None, self._broken)
        self._transactions.close()

    def on_line(self, line: Line) -> str | None:
        """Handles one line of output, in the reader thread; returns a clause about what is wrong with it, or
        None.
        """
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
        """Tells the program to commit or abort, and records the outcome. `last`: the seq of its last message.
        Raises ProgramError.
        """
        self.program.await_lines(lambda: self.idle, self.while_waiting)
        commit = self._broken is None and not self._plan.aborts(self._number)
        self._ended, self._end_requested = None, True
        self.program.write(line_of(end="commit" if commit else "abort"))
        self.program.await_lines(lambda: self._ended is not None, self.while_waiting)
        if self._ended is not None:
            outcome, end_ns, error = self._ended
            self._row(last, outcome, end_ns, error or self._broken)

    def _row(self, last: int, outcome: str, end_ns: int | None, error: str | None) -> None:
        spec = self.spec
        self._transactions.row(
            spec.transactional_id, spec.producer, self._number, self._first, last, outcome, self._begin_ns,
            end_ns, error,
        )  # fmt: skip
        self._transactions.flush()  # so that a SIGKILL does not lose earlier outcomes
        self._begin_ns = None
        self._number += 1
