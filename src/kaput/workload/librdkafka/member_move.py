"""How a member of a group moves to another cluster: it leaves its group here, and joins the one of the same
name there, which begins wherever it has been put by then.

A cluster that is out of reach does not answer to commits, nor to the leave: both are waited for a while.
Not here: where the group is to begin (runner/group_positions.py), polling and recording (member.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.workload.client_spec import MemberSpec, notify
from kaput.workload.librdkafka.commits import CommitRecorder
from kaput.workload.moving import Destination, Hold, Instructions, Move

_TICK_S = 0.02
_ASK_S = 10.0
_LOW, _HIGH = 0, 1
_AT_THE_END = ("latest", "end", "largest")


class MovableMember(Protocol):
    """A member whose client can be closed, and opened elsewhere."""

    stopping: threading.Event

    @property
    def spec(self) -> MemberSpec: ...

    def leave(self, hold: Hold) -> dict[TopicPartition, int]:
        """Leaves its group; where it would have read on."""

    def join(self, to: Destination) -> None:
        """Joins the group there, soon."""


class MemberMove:
    """Does what one member is told; `told` gets it."""

    def __init__(self, member: MovableMember) -> None:
        self._member, self.told = member, Instructions()
        self.held = False

    def follow(self) -> None:
        """Does what it was told; returns when it may poll again, or was told to end."""
        while not self._member.stopping.is_set() and (self.told.waiting or self.held):
            match self.told.next(_TICK_S):
                case Hold() as hold:
                    self._hold(hold)
                case Move() as move:
                    if not self.held:
                        self._hold(Hold())
                    self._member.join(move.to)
                    self.held = False

    def _hold(self, hold: Hold) -> None:
        began_ns = time.time_ns()
        positions = self._member.leave(hold)
        self.held = True
        places = [[*place, offset] for place, offset in sorted(positions.items())]
        notify("held", began_ns=began_ns, at_ns=time.time_ns(), positions=places)


def settle_commits(
    client: Any, commits: CommitRecorder, hold: Hold, places: Collection[TopicPartition]
) -> None:
    """Commits what was processed, if it is to, and waits for the answer; afterwards nothing is left to
    commit.
    """
    limit = time.monotonic() + hold.settle_s
    if hold.commit:
        with suppress(KafkaException):  # nothing is delivered while it waits
            client.pause([PartitionOffset(*place) for place in places])
        while commits.outstanding and time.monotonic() < limit:
            commits.now(wait=False)
            client.poll(_TICK_S)
    commits.forget_all()


def close_in_time(client: Any, limit_s: float) -> None:
    """Closes a client; one that cannot within the time is left to itself."""
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(limit_s)


def beginnings(client: Any, spec: MemberSpec, places: Sequence[PartitionOffset]) -> list[PartitionOffset]:
    """Where a member begins that was assigned these partitions: at the group's offsets, or where its settings
    say; an offset below 0 where the cluster does not say.
    """
    try:
        found = client.committed(list(places), timeout=_ASK_S)
    except KafkaException:
        return [PartitionOffset(at.topic, at.partition) for at in places]
    return [at if at.offset >= 0 else _by_reset(client, spec, at) for at in found]


def _by_reset(client: Any, spec: MemberSpec, at: PartitionOffset) -> PartitionOffset:
    late = str(spec.config.get("auto.offset.reset", "earliest")).lower() in _AT_THE_END
    try:
        offsets = client.get_watermark_offsets(at, timeout=_ASK_S)
    except KafkaException:
        offsets = None
    offset = -1 if offsets is None else offsets[_HIGH if late else _LOW]
    return PartitionOffset(at.topic, at.partition, offset)
