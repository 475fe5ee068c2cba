"""One member of a share group: `python -m kaput.workload.librdkafka.share_member SPEC.json`.

Polls, records its deliveries and how it will acknowledge them, and only then acknowledges: a SIGKILL at any
moment loses no delivery that may have been acknowledged. Reports `ready` once it has partitions, and `done`
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

from kaput.evidence.recorder import Recorder
from kaput.workload.client_main import run_client
from kaput.workload.client_spec import Acknowledgement, ShareMemberSpec, client_settings, notify
from kaput.workload.librdkafka.authorization import AuthorizationErrors
from kaput.workload.librdkafka.client_setup import notify_ready, quiet_logger, tune_garbage_collection
from kaput.workload.librdkafka.deliveries import DeliveryRecorder
from kaput.workload.librdkafka.member_process import run_member
from kaput.workload.librdkafka.pace import Pace
from kaput.workload.librdkafka.share_events import ShareEvents
from kaput.workload.payload.identity import Codec

POLL_S = 0.05
LEAVE_S = 10.0
_STATISTICS_MS = 200  # how often assignments are checked
_TYPES: Mapping[Acknowledgement, AcknowledgeType] = {
    "accepting": AcknowledgeType.ACCEPT,
    "releasing": AcknowledgeType.RELEASE,
    "rejecting": AcknowledgeType.REJECT,
}


class ShareMember:
    """Reads as one member of one share group, records its deliveries, and acknowledges them."""

    def __init__(self, spec: ShareMemberSpec) -> None:
        self.spec = spec
        folder = Path(spec.folder)
        self._recorders = [
            Recorder(folder, table, spec.writer, spec.cluster)
            for table in ("deliveries", "share_events", "group_events")
        ]
        deliveries, events, self._group_events = self._recorders
        self._deliveries = DeliveryRecorder(deliveries, spec, Codec(uuid.UUID(spec.run_id)))
        self._events = ShareEvents(events, spec)
        self.stopping = threading.Event()
        self.pace = Pace(spec.processing_ms)
        self._ready = False
        settings = client_settings(spec)
        self._authorization = AuthorizationErrors(settings)
        config = {
            **settings,
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": self._on_statistics,
        }
        self.client = ShareConsumer(config, logger=quiet_logger())
        self.client.set_acknowledgement_commit_callback(self._on_answer)

    def run(self) -> None:
        """Polls until stopped, then leaves the group."""
        self.client.subscribe(self.spec.topics)
        while not self.stopping.is_set():
            self.pace.settle()
            messages = self._poll()
            if messages:
                self.handle(messages, time.time_ns())
        self._leave()
        self._event("left")
        for recorder in self._recorders:
            recorder.close()

    def handle(self, messages: list[Message], at_ns: int) -> None:
        """Records messages just delivered, then processes and acknowledges them."""
        self._deliveries.take(messages, at_ns)
        self._deliveries.flush()
        self._events.acquired(messages, at_ns)
        self._report_ready()
        for _ in messages if self.pace.ms else ():
            self.pace.work()
        acknowledgements = [
            (message, self.spec.acknowledgement(message.offset(), message.delivery_count()))
            for message in messages
        ]
        self._events.acknowledging(acknowledgements, time.time_ns())
        if self.spec.explicit:
            self._acknowledge(acknowledgements)
        # Else the next poll accepts them.

    def _poll(self) -> list[Message]:
        try:
            return [message for message in self.client.poll(POLL_S) if not self._stop_at(message.error())]
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self._stop_at(error.args[0])
            time.sleep(POLL_S)  # a broker is down: the client tries another
            return []

    def _stop_at(self, error: KafkaError | None) -> bool:
        """Returns whether there is an error; stops at authorization errors, which the client would retry
        forever.
        """
        if error is None:
            return False
        refused = self._authorization.of_member(error, self.spec.group, self.spec.topics)
        if refused and not self.stopping.is_set():
            notify("trouble", message=refused)
            self.stopping.set()
        return True

    def _acknowledge(self, acknowledgements: Iterable[tuple[Message, Acknowledgement]]) -> None:
        for message, acknowledgement in acknowledgements:
            self.client.acknowledge(message, _TYPES[acknowledgement])
        self.client.commit_async()

    def _leave(self) -> None:
        try:
            self.client.commit_sync(LEAVE_S)
            self.client.close()
        except KafkaException:
            # Records not acknowledged now go to other members.
            return

    def _on_answer(
        self, offsets: Mapping[PartitionOffset, Iterable[int]], error: KafkaException | None
    ) -> None:
        self._events.answered(offsets, error, time.time_ns())

    def _on_statistics(self, text: str) -> None:
        if not self._ready and json.loads(text).get("cgrp", {}).get("assignment_size", 0) > 0:
            self._report_ready()

    def _report_ready(self) -> None:
        if not self._ready:
            self._ready = True
            self._event("joined")
            notify_ready()

    def _event(self, kind: str) -> None:
        self._group_events.row(self.spec.group, self.spec.member, kind, None, None, None, time.time_ns())
        self._group_events.flush()


def main() -> None:
    """Runs one member until SIGTERM or the end of stdin."""
    tune_garbage_collection()
    run_member(ShareMember(ShareMemberSpec(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    run_client(main)
