"""The output of a pipe: a message for each record, in one transaction with the records' offsets.

Records attempts and outcomes like a producer, the transactions, and which record each message came from: all
before the transaction is committed, so that a SIGKILL loses nothing that is in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import PipeMemberSpec, ProducerSpec
from kaput.workload.counters import Counters
from kaput.workload.librdkafka.authorization import NotAuthorizedError
from kaput.workload.librdkafka.producer import Sender
from kaput.workload.librdkafka.transactional_producer import CALL_S, TransactionalSender


class PipeOutputs(TransactionalSender):
    """The producer in one member's process."""

    def __init__(self, spec: PipeMemberSpec) -> None:
        made = ProducerSpec(**spec.outputs)
        # Separate from the run's counters: output of pipes does not count as progress of the load.
        Counters(Path(made.counters), made.producers, create=True)
        super().__init__(made)
        self._of = (spec.group, spec.member)
        self._rows = Recorder(Path(spec.folder), "outputs", spec.writer, spec.cluster)
        self._done: tuple[list[PartitionOffset], Any] = ([], None)

    def send_outputs(
        self, inputs: list[Message], positions: Mapping[TopicPartition, int], metadata: Any
    ) -> bool:
        """Sends a message for each input in one transaction with the offsets; returns whether it was
        committed.

        `positions`: each partition's next offset; `metadata`: the consumer's group metadata.
        """
        first = seq = self.counts[0]
        end = first + len(inputs)
        self._done = [PartitionOffset(t, p, offset) for (t, p), offset in positions.items()], metadata
        self.begin(first)
        while seq < end and not self.broken and not self.stopping.is_set():
            seq = Sender.send(self, seq, end)
            self.counts[0] = seq
        if seq < end and self.broken is None:
            self.broken = "told to stop"  # must not commit offsets of records without a message
        for number, message in enumerate(inputs[: seq - first], first):
            self._note(number, message)
        self._rows.flush()
        return self.end(seq - 1) == "committed"

    def before_commit(self) -> None:
        """Adds the offsets to the transaction. Raises KafkaException."""
        offsets, metadata = self._done
        self.insist(lambda: self.client.send_offsets_to_transaction(offsets, metadata, CALL_S))

    def finish(self) -> None:
        """Like a producer's. Does not raise: the coordinator aborts an open transaction."""
        super().finish()
        self._rows.close()

    def _note(self, seq: int, message: Message) -> None:
        place = (message.topic(), message.partition(), message.offset())
        self._rows.row(*self._of, self.spec.producer, seq, *place)


def connect_error(outputs: PipeOutputs) -> str | None:
    """Connects; returns a sentence if that fails, else None."""
    try:
        outputs.connect()
    except NotAuthorizedError as error:
        return str(error)
    except KafkaException as error:
        return f"cannot reach the cluster: {error.args[0]}"
    return None
