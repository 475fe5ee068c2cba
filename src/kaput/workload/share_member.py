"""One member of a share group, a process of its own: `python -m kaput.workload.share_member ORDER.json`.

Polls, records what it was handed and what it is going to ask for, and only then asks: a SIGKILL at any moment
loses no delivery that may have been acknowledged. Says `ready` once partitions are assigned to it, and `done`
at its end. Members of other groups: member.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import (
    AcknowledgeType,
    KafkaError,
    KafkaException,
    Message,
    ShareConsumer,
)
from confluent_kafka import (
    TopicPartition as PartitionOffset,
)

from kaput.evidence.identity import Codec
from kaput.evidence.recorder import Recorder
from kaput.processes.lean import leave_out_pandas
from kaput.workload.deliveries import Deliveries
from kaput.workload.garbage import collect_seldom
from kaput.workload.order import Ask, ShareMemberOrder, say, settings_of
from kaput.workload.pace import Pace
from kaput.workload.quiet import quiet_logger
from kaput.workload.refusals import Refusals
from kaput.workload.serving import serve
from kaput.workload.share_events import ShareEvents

POLL_S = 0.05
LEAVE_S = 10.0
_STATISTICS_MS = 200  # how soon an assignment is noticed
_TYPES: Mapping[Ask, AcknowledgeType] = {
    "accepting": AcknowledgeType.ACCEPT,
    "releasing": AcknowledgeType.RELEASE,
    "rejecting": AcknowledgeType.REJECT,
}


class ShareMember:
    """Reads as one member of one share group, records what it was handed, and acknowledges it."""

    def __init__(self, order: ShareMemberOrder) -> None:
        self.order = order
        folder = Path(order.folder)
        self._recorders = [
            Recorder(folder, table, order.writer) for table in ("deliveries", "share_events", "group_events")
        ]
        deliveries, events, self._group_events = self._recorders
        self._deliveries = Deliveries(deliveries, order, Codec(uuid.UUID(order.run_id)))
        self._events = ShareEvents(events, order)
        self.stopping = threading.Event()
        self.pace = Pace(order.processing_ms)
        self._ready = False
        settings = settings_of(order)
        self._refusals = Refusals(settings)
        config = {
            **settings,
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": self._on_statistics,
        }
        self.client = ShareConsumer(config, logger=quiet_logger())
        self.client.set_acknowledgement_commit_callback(self._on_answer)

    def run(self) -> None:
        """Polls until told to stop, then leaves the group in good order."""
        self.client.subscribe(self.order.topics)
        while not self.stopping.is_set():
            self.pace.settle()
            messages = self._poll()
            if messages:
                self.handed(messages, time.time_ns())
        self._leave()
        self._event("left")
        for recorder in self._recorders:
            recorder.close()

    def handed(self, messages: list[Message], at_ns: int) -> None:
        """Takes down messages that were handed to us just now, works on them, and acknowledges them."""
        self._deliveries.take(messages, at_ns)
        self._deliveries.flush()
        self._events.acquired(messages, at_ns)
        self._say_ready()
        for _ in messages if self.pace.ms else ():
            self.pace.work()
        asks = [(message, self.order.ask(message.offset(), message.delivery_count())) for message in messages]
        self._events.asking(asks, time.time_ns())
        if self.order.explicit:
            self._acknowledge(asks)
        # Else the next poll accepts them.

    def _poll(self) -> list[Message]:
        try:
            return [message for message in self.client.poll(POLL_S) if not self._stop_at(message.error())]
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self._stop_at(error.args[0])
            time.sleep(POLL_S)  # a broker is away: the client looks for another one
            return []

    def _stop_at(self, error: KafkaError | None) -> bool:
        """Whether there is one; who is refused would ask again for ever."""
        if error is None:
            return False
        refused = self._refusals.of_member(error, self.order.group, self.order.topics)
        if refused and not self.stopping.is_set():
            say("trouble", message=refused)
            self.stopping.set()
        return True

    def _acknowledge(self, asks: Iterable[tuple[Message, Ask]]) -> None:
        for message, ask in asks:
            self.client.acknowledge(message, _TYPES[ask])
        self.client.commit_async()

    def _leave(self) -> None:
        try:
            self.client.commit_sync(LEAVE_S)
            self.client.close()
        except KafkaException:
            # What is not acknowledged now is handed out again: others will read it.
            return

    def _on_answer(
        self, offsets: Mapping[PartitionOffset, Iterable[int]], error: KafkaException | None
    ) -> None:
        self._events.answered(offsets, error, time.time_ns())

    def _on_statistics(self, text: str) -> None:
        if not self._ready and json.loads(text).get("cgrp", {}).get("assignment_size", 0) > 0:
            self._say_ready()

    def _say_ready(self) -> None:
        if not self._ready:
            self._ready = True
            self._event("joined")
            say("ready")

    def _event(self, kind: str) -> None:
        self._group_events.row(self.order.group, self.order.member, kind, None, None, None, time.time_ns())
        self._group_events.flush()


def main() -> None:
    """Runs one order until told to stop."""
    leave_out_pandas()
    collect_seldom()
    serve(ShareMember(ShareMemberOrder(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    main()
