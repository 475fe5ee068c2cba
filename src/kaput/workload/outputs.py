"""What a pipe makes of the records that it is handed: a message of each, and their offsets, in a transaction.

Recorded are the attempts and outcomes of a producer, the transactions, and of which record each message was
made: all of that before the transaction is committed, so that a SIGKILL loses nothing that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.counters import Counters
from kaput.workload.order import PipeOrder, ProducerOrder
from kaput.workload.producer import Sender
from kaput.workload.refusals import RefusedError
from kaput.workload.transactional_producer import CALL_S, TransactionalSender


class Outputs(TransactionalSender):
    """The producer of one member's process; `made` of the inputs of one transaction at a time."""

    def __init__(self, order: PipeOrder) -> None:
        made = ProducerOrder(**order.outputs)
        # The run's own counters are of the load, which ends; what a pipe makes is nobody's progress.
        Counters(Path(made.counters), made.producers, create=True)
        super().__init__(made)
        self._of = (order.group, order.member)
        self._rows = Recorder(Path(order.folder), "outputs", order.writer)
        self._done: tuple[list[PartitionOffset], Any] = ([], None)

    def make(self, inputs: list[Message], positions: Mapping[TopicPartition, int], metadata: Any) -> bool:
        """One message of each input, in one transaction with the offsets; whether it was committed.

        `positions`: where each partition goes on; `metadata`: the consumer's, of its group.
        """
        first = seq = self.counts[0]
        end = first + len(inputs)
        self._done = [PartitionOffset(t, p, offset) for (t, p), offset in positions.items()], metadata
        self.begin(first)
        while seq < end and not self.broken and not self.stopping.is_set():
            seq = Sender.send(self, seq, end)
            self.counts[0] = seq
        if seq < end and self.broken is None:
            self.broken = "told to stop"  # offsets of records without a message must not be committed
        for number, message in enumerate(inputs[: seq - first], first):
            self._note(number, message)
        self._rows.flush()
        return self.end(seq - 1) == "committed"

    def before_commit(self) -> None:
        """The offsets are a part of the transaction. Raises KafkaException."""
        offsets, metadata = self._done
        self.insist(lambda: self.client.send_offsets_to_transaction(offsets, metadata, CALL_S))

    def finish(self) -> None:
        """As that of a producer. Raises nothing: what is open is aborted for it."""
        super().finish()
        self._rows.close()

    def _note(self, seq: int, message: Message) -> None:
        place = (message.topic(), message.partition(), message.offset())
        self._rows.row(*self._of, self.order.producer, seq, *place)


def reachable(outputs: Outputs) -> str | None:
    """Connects; why that is not possible."""
    try:
        outputs.connect()
    except RefusedError as error:
        return str(error)
    except KafkaException as error:
        return f"cannot reach the cluster: {error.args[0]}"
    return None
