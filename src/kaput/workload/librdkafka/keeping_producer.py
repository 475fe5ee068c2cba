"""A producer that keeps messages in stores when Kafka does not take them: kaput.keep, as users have it.

Records one outcome per message, and a row in the table `kept` for each kept message.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer

from kaput.clients import keep
from kaput.clients.keep.producer import TIMEOUT_MS
from kaput.errors import AccountingError
from kaput.evidence.recorder import Recorder
from kaput.scenario.vocabulary import OUTCOMES
from kaput.workload.client_spec import ProducerSpec, run_client
from kaput.workload.counters import FIELDS
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.librdkafka.producer import Sender, main
from kaput.workload.moving import MoveTo

_CLOSE_S = 30.0
_MOVE_S = 1.0  # outcomes have already been waited for


class _Client(Producer):
    """Calls `recorded` when callbacks have run: kaput.keep runs them while it waits, and before it works on
    stores.
    """

    def __init__(self, settings: dict[str, Any], recorded: Callable[[], None]) -> None:
        super().__init__(settings, logger=quiet_logger())
        self._recorded = recorded

    def poll(self, timeout: float = -1) -> int:
        served = super().poll(timeout)
        self._recorded()
        return served

    def flush(self, timeout: float = -1) -> int:
        left = super().flush(timeout)
        self._recorded()
        return left


class KeepingSender(Sender):
    """Sends one producer's messages through a keep.Producer."""

    def __init__(self, spec: ProducerSpec) -> None:
        assert spec.on_failure is not None
        self._on_failure = spec.on_failure
        self._kept = Recorder(Path(spec.folder), "kept", spec.writer, spec.cluster)
        self._stores = {name: keep.open_store(url) for name, url in self._on_failure["stores"].items()}
        self._names = {store.name: name for name, store in self._stores.items()}
        self._counted = dict.fromkeys(("sent", *OUTCOMES), 0)  # of closed clients
        super().__init__(spec)

    def make_client(self, settings: dict[str, Any]) -> keep.Producer:
        on_failure = self._on_failure
        self._kafka: Producer
        return keep.Producer(
            settings,
            store=list(self._stores.values()),
            policy=on_failure["policy"],
            block_s=on_failure["block_for"] / 1000,
            ordered=on_failure["ordered"],
            spool_first=on_failure["spool_first"],
            resends=on_failure["resends"],
            queue=on_failure["queue"],
            client=self._create_kafka_client,
            on_failure=self._failed,
        )

    def _create_kafka_client(self, settings: dict[str, Any]) -> Producer:
        self._kafka = _Client(settings, self.reports.take)
        return self._kafka

    def connect(self, timeout_s: float = 30) -> None:
        self.authorization.describe_topic(self._kafka, self.spec.topic, timeout_s)

    def on_queue_full(self, seq: int, attempt_ns: int, error: BufferError) -> int:
        """The message is refused, after everything the policy allows was tried."""
        self.reports.row(seq, attempt_ns, "refused", None, str(error))
        return seq + 1

    def refused(self, seq: int, attempt_ns: int, error: KafkaException) -> None:
        self.reports.row(seq, attempt_ns, "refused", None, str(error.args[0]))

    def timeout_ms(self) -> int:
        """The client's timeout, times the number of sends."""
        once = int(self.spec.config.get("message.timeout.ms", TIMEOUT_MS))
        return once * (int(self._on_failure["resends"]) + 1)

    def end_client(self) -> int:
        """Keeps what has no outcome; returns how many messages that were. Raises AccountingError."""
        given_up = len(self.client)
        self._close_client(_MOVE_S)
        self.reports.flush()
        self._kept.flush()
        return given_up

    def begin_client(self, move: MoveTo) -> None:
        self._kept.cluster = move.to.cluster
        super().begin_client(move)

    def _close_client(self, patience_s: float) -> None:
        """Keeps what has no outcome. Raises AccountingError if kaput.keep counted anything else."""
        counts = self.client.close(patience_s)
        self.reports.take()
        for name in self._counted:
            self._counted[name] += getattr(counts, name)
        recorded = {name: self.counts[FIELDS.index(name)] for name in OUTCOMES}
        # Messages without any report become `unknown` when the evidence is sealed.
        recorded["unknown"] += self._counted["sent"] - sum(recorded.values())
        wanted = {name: self._counted[name] for name in OUTCOMES}
        if recorded != wanted:
            raise AccountingError(f"kaput.keep counted {wanted}, and its reports were {recorded}")

    def give_up(self) -> None:
        """Keeps what has no outcome. Raises AccountingError if kaput.keep counted anything else."""
        if not self.move.held:
            self._close_client(_CLOSE_S)
        self._kept.close()
        for store in self._stores.values():
            store.close()

    def serve(self, timeout_s: float) -> None:
        """See Sender; flushes both tables together."""
        super().serve(timeout_s)
        if not self.reports.pending:
            self._kept.flush()

    def _failed(self, record: keep.KeptMessage, store: str | None) -> None:
        assert record.value is not None
        seq, attempt_ns = self.reports.stamp(record.value)
        error = record.error or "no delivery report"
        if store is not None:
            self._kept.row(
                producer=self.spec.producer, seq=seq, store=self._names[store], error=record.error,
                tries=record.tries, in_doubt=record.in_doubt, at_ns=time.time_ns(),
            )  # fmt: skip
            self.reports.row(seq, attempt_ns, "kept", record.partition, error)
        else:
            outcome = "unknown" if record.in_doubt else "failed"
            self.reports.row(seq, attempt_ns, outcome, record.partition, error)


if __name__ == "__main__":
    run_client(partial(main, KeepingSender))
