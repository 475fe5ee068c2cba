"""What a member that is another program was handed, assigned and has committed, as rows of the evidence.

Told by whoever listens to the program (command_member.py, java_member.py), in the order in which it happened.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from kaput.core import TopicPartition
from kaput.evidence.identity import Codec
from kaput.evidence.recorder import Recorder
from kaput.workload.order import MemberOrder, say


class MemberRecord:
    """The record of one member. Safe across threads."""

    def __init__(self, order: MemberOrder) -> None:
        self._order = order
        folder = Path(order.folder)
        self._deliveries = Recorder(folder, "deliveries", order.writer)
        self._events = Recorder(folder, "group_events", order.writer)
        self._codec = Codec(uuid.UUID(order.run_id))
        self._recording = threading.Lock()
        self._assigned: set[TopicPartition] = set()

    def joined(self, at_ns: int) -> None:
        """It has its place in the group, with partitions or without."""
        self.event("joined", at_ns)
        if not self._assigned:
            self.event("assigned", at_ns)

    def changed(self, kind: str, places: Sequence[TopicPartition], at_ns: int) -> None:
        """Partitions were `assigned` to it, `revoked` or `lost`; tells kaput what it has now."""
        for place in places:
            if kind == "assigned":
                self._assigned.add(place)
            else:
                self._assigned.discard(place)
            self.event(kind, at_ns, *place)
        say("owns", partitions=sorted(self._assigned), at_ns=at_ns)

    def delivered(self, topic: str, partition: int, offset: int, payload: bytes | None, at_ns: int) -> None:
        """It was handed this record."""
        intact, identity = self._codec.decode(payload)
        who = (None, None) if identity is None else identity[:2]
        row = (self._order.group, self._order.member, topic, partition, offset, *who, intact, at_ns)
        with self._recording:
            self._deliveries.row(*row)

    def event(
        self,
        kind: str,
        at_ns: int,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        """One row of group_events."""
        with self._recording:
            self._events.row(self._order.group, self._order.member, kind, topic, partition, offset, at_ns)

    def flush(self) -> None:
        """All of it is the operating system's after this."""
        with self._recording:
            # Deliveries first: what is committed has been recorded.
            self._deliveries.flush()
            self._events.flush()

    def close(self, left: bool) -> None:
        """Nothing more comes. `left`: it left its group in good order."""
        if left:
            self.event("left", time.time_ns())
        with self._recording:
            self._deliveries.close()
            self._events.close()
