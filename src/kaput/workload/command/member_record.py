"""Records the deliveries, assignments and commits of a member that is another program.

Called by command/member.py and java/member.py in the order of events.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import MemberSpec, notify
from kaput.workload.payload.identity import Codec


class MemberRecord:
    """Records one member. Thread-safe."""

    def __init__(self, spec: MemberSpec) -> None:
        self._spec = spec
        folder = Path(spec.folder)
        self._deliveries = Recorder(folder, "deliveries", spec.writer, spec.cluster)
        self._events = Recorder(folder, "group_events", spec.writer, spec.cluster)
        self._codec = Codec(uuid.UUID(spec.run_id))
        self._recording = threading.Lock()
        self._assigned: set[TopicPartition] = set()

    def joined(self, at_ns: int) -> None:
        """Called when it has joined its group, with or without partitions."""
        self.event("joined", at_ns)
        if not self._assigned:
            self.event("assigned", at_ns)

    def changed(self, kind: str, places: Sequence[TopicPartition], at_ns: int) -> None:
        """Called when partitions were `assigned`, `revoked` or `lost`; reports what it owns now."""
        for place in places:
            if kind == "assigned":
                self._assigned.add(place)
            else:
                self._assigned.discard(place)
            self.event(kind, at_ns, *place)
        notify("owns", partitions=sorted(self._assigned), at_ns=at_ns)

    def delivered(self, topic: str, partition: int, offset: int, payload: bytes | None, at_ns: int) -> None:
        """Called when this record was delivered."""
        intact, identity = self._codec.decode(payload)
        who = (None, None) if identity is None else identity[:2]
        row = (self._spec.group, self._spec.member, topic, partition, offset, *who, intact, at_ns)
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
        """Writes one row of group_events."""
        with self._recording:
            self._events.row(self._spec.group, self._spec.member, kind, topic, partition, offset, at_ns)

    def moved(self, cluster: str) -> None:
        """From now on rows are about that cluster."""
        with self._recording:
            self._deliveries.flush()
            self._events.flush()
            self._deliveries.cluster = self._events.cluster = cluster

    def flush(self) -> None:
        """Flushes everything recorded so far to the operating system."""
        with self._recording:
            # Deliveries first, so that they are recorded before their commits.
            self._deliveries.flush()
            self._events.flush()

    def close(self, left: bool) -> None:
        """Ends the recording. `left`: it left its group cleanly."""
        if left:
            self.event("left", time.time_ns())
        with self._recording:
            self._deliveries.close()
            self._events.close()
