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

import numpy as np
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import NULL_INT, TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import (
    Acknowledgement,
    MemberSpec,
    ShareMemberSpec,
    client_settings,
    notify,
    run_client,
)
from kaput.workload.librdkafka.client_setup import (
    AuthorizationErrors,
    notify_ready,
    offset_of,
    partition_of,
    quiet_logger,
    tune_garbage_collection,
)
from kaput.workload.librdkafka.deliveries import DeliveryRecorder
from kaput.workload.librdkafka.member_process import Pace, run_member
from kaput.workload.payload import Codec

_CONFIRMED: Mapping[Acknowledgement, str] = {
    "accepting": "accepted",
    "releasing": "released",
    "rejecting": "rejected",
}


class ShareEvents:
    """The events of one member. Not thread-safe."""

    def __init__(self, recorder: Recorder, spec: MemberSpec) -> None:
        self._recorder, self._spec = recorder, spec
        self._unconfirmed: dict[
            TopicPartition, dict[int, Acknowledgement]
        ] = {}  # acknowledgements without an answer yet, by offset

    def acquired(self, messages: Iterable[Message], at_ns: int) -> None:
        """Records acquired messages with the delivery counts that Kafka sent."""
        for place, some in _by_place(messages).items():
            counts = [NULL_INT if (n := message.delivery_count()) is None else n for message in some]
            self._rows("acquired", place, list(map(offset_of, some)), at_ns, counts)

    def acknowledging(self, acknowledgements: Iterable[tuple[Message, Acknowledgement]], at_ns: int) -> None:
        """Records how messages will be acknowledged."""
        by_kind: dict[Acknowledgement, list[Message]] = {}
        for message, acknowledgement in acknowledgements:
            by_kind.setdefault(acknowledgement, []).append(message)
        for acknowledgement, messages in by_kind.items():
            for place, some in _by_place(messages).items():
                offsets = list(map(offset_of, some))
                self._unconfirmed.setdefault(place, {}).update(dict.fromkeys(offsets, acknowledgement))
                self._rows(acknowledgement, place, offsets, at_ns)

    def answered(
        self, offsets: Mapping[PartitionOffset, Iterable[int]], error: KafkaException | None, at_ns: int
    ) -> None:
        """Records an answer: a confirmation, or an error, after which the effect is unknown."""
        for at, some in offsets.items():
            place = TopicPartition(at.topic, at.partition)
            unconfirmed = self._unconfirmed.get(place, {})
            by_kind: dict[str, list[int]] = {}
            for offset in sorted(some):
                acknowledgement = unconfirmed.pop(offset, None)
                if acknowledgement is not None:
                    by_kind.setdefault("failed" if error else _CONFIRMED[acknowledgement], []).append(offset)
            for kind, answered_offsets in by_kind.items():
                self._rows(
                    kind, place, answered_offsets, at_ns, error=error.args[0].name() if error else None
                )

    def _rows(
        self,
        kind: str,
        place: TopicPartition,
        offsets: list[int],
        at_ns: int,
        counts: list[int] | None = None,
        error: str | None = None,
    ) -> None:
        self._recorder.batch(
            len(offsets),
            {
                "group": self._spec.group,
                "member": self._spec.member,
                "kind": kind,
                "topic": place[0],
                "partition": place[1],
                "offset": np.array(offsets, np.int64),
                "delivery_count": None if counts is None else np.array(counts, np.int32),
                "at_ns": at_ns,
                "error": error,
            },
        )


def _by_place(messages: Iterable[Message]) -> dict[TopicPartition, list[Message]]:
    by_place: dict[TopicPartition, list[Message]] = {}
    for message in messages:
        by_place.setdefault(partition_of(message), []).append(message)
    return by_place


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
        config = {**settings, "statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._on_statistics}
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
        """Whether there is an error; stops at authorization errors, which would be retried forever."""
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
            notify_ready(self._event("joined"))

    def _event(self, kind: str) -> int:
        """Records it, as of now; returns the time (ns)."""
        spec, now = self.spec, time.time_ns()
        self._group_events.row(group=spec.group, member=spec.member, kind=kind, at_ns=now)
        self._group_events.flush()
        return now


def main() -> None:
    tune_garbage_collection()
    run_member(ShareMember(ShareMemberSpec(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    run_client(main)
