"""A group member that consumes, transforms and produces: `python -m kaput.workload.librdkafka.pipe_member
SPEC.json`.

Like member.py, except that offsets are committed in the transactions that hold the output. After an aborted
transaction the member continues at its group's committed offsets.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.evidence.schemas import SEEK
from kaput.workload.client_main import run_client
from kaput.workload.client_spec import PipeMemberSpec, notify
from kaput.workload.librdkafka.client_setup import tune_garbage_collection
from kaput.workload.librdkafka.member import GroupMember
from kaput.workload.librdkafka.member_process import run_member
from kaput.workload.librdkafka.pipe_outputs import PipeOutputs, connect_error

_ASK_S = 10.0


class PipeMember(GroupMember):
    """Reads as one member of one group, and sends a message for each record."""

    def __init__(self, spec: PipeMemberSpec) -> None:
        super().__init__(spec)
        self._size = spec.size
        self.outputs = PipeOutputs(spec)
        self.outputs.stopping = self.stopping

    def run(self) -> None:
        """Polls until stopped, then leaves the group."""
        if (why := connect_error(self.outputs)) is not None:
            notify("trouble", message=why)
            raise SystemExit(1)
        super().run()
        self.outputs.finish()

    def _handle(self, messages: list[Message], polled_ns: int) -> None:
        """One transaction at a time; after an aborted one the rest is fetched again."""
        for at in range(0, len(messages), self._size):
            part = messages[at : at + self._size]
            if self.stopping.is_set() or not self._processed(part, polled_ns + at):
                self.go_back()
                return

    def _processed(self, messages: list[Message], polled_ns: int) -> bool:
        if self.pace.ms:
            for _ in messages:
                self.pace.work()
        positions = self.deliveries.take(messages, polled_ns)
        self._flush()
        if not self.outputs.send_outputs(messages, positions, self.client.consumer_group_metadata()):
            return False
        for (topic, partition), offset in positions.items():
            self._event("committed", PartitionOffset(topic, partition, offset))
        self.events.flush()
        return True

    def go_back(self) -> None:
        """Seeks to the group's committed offsets; fetching them waits for open transactions.

        The next poll reports partitions revoked meanwhile. Records each seek first: it makes Kafka deliver
        records again.
        """
        owned = [PartitionOffset(topic, partition) for topic, partition in sorted(self._assigned)]
        with suppress(KafkaException):
            for at in self.client.committed(owned, timeout=_ASK_S):
                self._event(SEEK, at)
                self.events.flush()
                self.client.seek(
                    PartitionOffset(at.topic, at.partition, at.offset if at.offset >= 0 else OFFSET_BEGINNING)
                )


def main() -> None:
    """Runs one member until SIGTERM or the end of stdin."""
    tune_garbage_collection()
    run_member(PipeMember(PipeMemberSpec(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    run_client(main)
