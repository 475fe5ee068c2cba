"""Records what a share group member acquires, how it acknowledges, and the answers, in share_events.

Rows are flushed as they are recorded. Not here: polling and acknowledging (share_member.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import NULL_INT, TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import Acknowledgement, MemberSpec

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
            self._rows("acquired", place, [_offset(message) for message in some], at_ns, counts)

    def acknowledging(self, acknowledgements: Iterable[tuple[Message, Acknowledgement]], at_ns: int) -> None:
        """Records how messages will be acknowledged."""
        by_kind: dict[Acknowledgement, list[Message]] = {}
        for message, acknowledgement in acknowledgements:
            by_kind.setdefault(acknowledgement, []).append(message)
        for acknowledgement, messages in by_kind.items():
            for place, some in _by_place(messages).items():
                offsets = [_offset(message) for message in some]
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
            for kind, found in by_kind.items():
                self._rows(kind, place, found, at_ns, error=error.args[0].name() if error else None)

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
    found: dict[TopicPartition, list[Message]] = {}
    for message in messages:
        topic, partition = message.topic(), message.partition()
        assert topic is not None and partition is not None
        found.setdefault(TopicPartition(topic, partition), []).append(message)
    return found


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
