"""A group member that consumes, transforms and produces: `python -m kaput.workload.librdkafka.pipe_member
SPEC.json`.

Like member.py, except that offsets are committed in the transactions that hold the output. After an aborted
transaction the member continues at its group's committed offsets.

The output, a message for each record, is recorded like a producer's: attempts and outcomes, the transactions,
and which record each message came from; all before the transaction is committed, so that a SIGKILL loses
nothing that is in the log.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import SEEK
from kaput.workload.client_spec import PipeMemberSpec, ProducerSpec, run_client
from kaput.workload.counters import Counters
from kaput.workload.librdkafka.client_setup import committed_offsets, tune_garbage_collection
from kaput.workload.librdkafka.member import GroupMember
from kaput.workload.librdkafka.member_process import run_member
from kaput.workload.librdkafka.producer import Sender, connect_or_exit
from kaput.workload.librdkafka.transactional_producer import CALL_S, PATIENCE_S, STOPPED, TransactionalSender


class PipeOutputs(TransactionalSender):
    """The producer in one member's process."""

    def __init__(self, spec: PipeMemberSpec) -> None:
        made = ProducerSpec(**spec.outputs)
        # Separate from the run's counters: output of pipes does not count as progress of the load.
        Counters(Path(made.counters), made.producers, create=True)
        super().__init__(made)
        self._group, self._member = spec.group, spec.member
        self._rows = Recorder(Path(spec.folder), "outputs", spec.writer, spec.cluster)
        self._done: tuple[list[PartitionOffset], Any] = ([], None)

    def send_outputs(
        self,
        inputs: list[Message],
        positions: Mapping[TopicPartition, int],
        metadata: Any,
        work: Callable[[Message], None] | None = None,
    ) -> bool:
        """Sends a message for each input in one transaction with the offsets; returns whether it was
        committed. `positions`: each partition's next offset, in the end; `metadata`: the consumer's group
        metadata; `work`: done on each input before its message is sent, while the transaction is open.
        """
        first = seq = worked = self.counts[0]
        end = first + len(inputs)
        self.begin(first)
        while seq < end and not self.broken and not self.stopping.is_set():
            if work is not None and seq == worked:
                work(inputs[seq - first])
                worked += 1
            seq = Sender.send(self, seq, end if work is None else worked)
            self.counts[0] = seq
        self._done = [PartitionOffset(t, p, offset) for (t, p), offset in positions.items()], metadata
        if seq < end and self.broken is None:
            self.broken = STOPPED  # must not commit offsets of records without a message
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
        self._rows.row(
            group=self._group, member=self._member, producer=self.spec.producer, seq=seq,
            topic=message.topic(), partition=message.partition(), offset=message.offset(),
        )  # fmt: skip


class PipeMember(GroupMember):
    """Reads as one member of one group, and sends a message for each record."""

    def __init__(self, spec: PipeMemberSpec) -> None:
        super().__init__(spec)
        self._size = spec.size
        self.outputs = PipeOutputs(spec)
        self.outputs.stopping = self.stopping

    def run(self) -> None:
        connect_or_exit(self.outputs)
        super().run()
        self.outputs.finish()

    def _handle(self, messages: list[Message], polled_ns: int) -> None:
        """One transaction at a time; after an aborted one the rest is fetched again. Each part is handed over
        when the transaction before it is over.
        """
        for at in range(0, len(messages), self._size):
            part = messages[at : at + self._size]
            handed_ns = max(polled_ns + at, time.time_ns()) if at else polled_ns
            if self.stopping.is_set() or not self._processed(part, handed_ns):
                self.go_back()
                return

    def _processed(self, messages: list[Message], polled_ns: int) -> bool:
        positions: dict[TopicPartition, int] = {}
        times = count(polled_ns)

        def work(message: Message) -> None:
            self.pace.work(self.outputs.serve_for)
            positions.update(self.deliveries.take([message], next(times)))
            self._flush()

        slow = bool(self.pace.ms)
        if not slow:
            positions.update(self.deliveries.take(messages, polled_ns))
            self._flush()
        group = self.client.consumer_group_metadata()
        if not self.outputs.send_outputs(messages, positions, group, work if slow else None):
            return False
        for (topic, partition), offset in positions.items():
            self._event("committed", PartitionOffset(topic, partition, offset))
        self.events.flush()
        return True

    def go_back(self) -> None:
        """Seeks to the group's committed offsets; fetching them waits for open transactions. The next poll
        reports partitions revoked meanwhile. Records each seek first: it makes Kafka deliver records again; a
        partition that is not fetched refuses it, and begins there all the same. Raises KafkaException if the
        offsets cannot be learned: to go on would leave records out.
        """
        for at in self._committed():
            self._event(SEEK, at)
            self.events.flush()
            with suppress(KafkaException):
                self.client.seek(
                    PartitionOffset(at.topic, at.partition, at.offset if at.offset >= 0 else OFFSET_BEGINNING)
                )

    def _committed(self) -> list[PartitionOffset]:
        """The committed offset of each of its partitions; none if it has to stop. Raises KafkaException."""
        owned = [PartitionOffset(topic, partition) for topic, partition in sorted(self._assigned)]
        limit = time.monotonic() + PATIENCE_S
        while not self.stopping.is_set():
            try:
                return committed_offsets(self.client, owned, CALL_S)
            except KafkaException as error:
                self._stop_at(error.args[0])
                if time.monotonic() > limit:
                    raise
            self.outputs.serve_for(0.1)
        return []


def main() -> None:
    tune_garbage_collection()
    run_member(PipeMember(PipeMemberSpec(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    run_client(main)
