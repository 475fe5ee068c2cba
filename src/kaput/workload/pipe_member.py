"""One member of a group that consumes, transforms and produces: `python -m kaput.workload.pipe_member
ORDER.json`.

As member.py, but that offsets are committed by the transactions that hold what was made of the records. A
transaction that is aborted takes its records back: the member goes on where the group stands.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.evidence.schemas import SEEK
from kaput.processes.lean import leave_out_pandas
from kaput.workload.garbage import collect_seldom
from kaput.workload.member import Member
from kaput.workload.order import PipeOrder, say
from kaput.workload.outputs import Outputs, reachable
from kaput.workload.serving import serve

_ASK_S = 10.0


class PipeMember(Member):
    """Reads as one member of one group, and makes a message of each record."""

    def __init__(self, order: PipeOrder) -> None:
        super().__init__(order)
        self._size = order.size
        self.outputs = Outputs(order)
        self.outputs.stopping = self.stopping

    def run(self) -> None:
        """Polls until told to stop, then leaves the group in good order."""
        if (why := reachable(self.outputs)) is not None:
            say("trouble", message=why)
            raise SystemExit(1)
        super().run()
        self.outputs.finish()

    def _handle(self, messages: list[Message], polled_ns: int) -> None:
        """So many at a time; what comes after an aborted transaction is fetched anew."""
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
        if not self.outputs.make(messages, positions, self.client.consumer_group_metadata()):
            return False
        for (topic, partition), offset in positions.items():
            self._event("committed", PartitionOffset(topic, partition, offset))
        self.events.flush()
        return True

    def go_back(self) -> None:
        """To where the group stands, which waits for transactions that are open. What was taken away from us
        meanwhile is no longer ours to read, and the next poll says so. That we are delivered records again is
        our own doing, and so on record before we do it.
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
    """Runs one order until told to stop."""
    leave_out_pandas()
    collect_seldom()
    serve(PipeMember(PipeOrder(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    main()
