"""How a group member moves to another cluster: it leaves its group, and joins the one of the same name there.

It starts there wherever the group's offsets have been set. An unreachable cluster answers neither commits nor
the leave: both have a timeout. Not here: where the group should start (runner/group_positions.py), polling
and recording (member.py).
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
    """A member whose client can be closed, and opened on another cluster."""

    stopping: threading.Event

    @property
    def spec(self) -> MemberSpec: ...

    def leave(self, hold: Hold) -> dict[TopicPartition, int]:
        """Leaves its group; returns its next offsets."""

    def join(self, to: Destination) -> None:
        """Starts to join the group there."""


class MemberMove:
    """Carries out one member's instructions, which `instructions` receives."""

    def __init__(self, member: MovableMember) -> None:
        self._member, self.instructions = member, Instructions()
        self.held = False

    def follow(self) -> None:
        """Carries out pending instructions; returns when it may poll again, or is stopping."""
        while not self._member.stopping.is_set() and (self.instructions.waiting or self.held):
            match self.instructions.next(_TICK_S):
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
    """Commits what was processed, if asked to, and waits for the answer; then nothing is left to commit."""
    limit = time.monotonic() + hold.settle_s
    if hold.commit:
        with suppress(KafkaException):  # no deliveries while it waits
            client.pause([PartitionOffset(*place) for place in places])
        while commits.outstanding and time.monotonic() < limit:
            commits.now(wait=False)
            client.poll(_TICK_S)
    commits.forget_all()


def close_in_time(client: Any, limit_s: float) -> None:
    """Closes a client; abandons one that does not close in time."""
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(limit_s)


def start_offsets(client: Any, spec: MemberSpec, places: Sequence[PartitionOffset]) -> list[PartitionOffset]:
    """Where a member that was assigned these partitions starts: at the group's committed offsets, or by
    auto.offset.reset; an offset below 0 if the cluster does not answer.
    """
    try:
        found = client.committed(list(places), timeout=_ASK_S)
    except KafkaException:
        return [PartitionOffset(at.topic, at.partition) for at in places]
    return [at if at.offset >= 0 else _by_reset_policy(client, spec, at) for at in found]


def _by_reset_policy(client: Any, spec: MemberSpec, at: PartitionOffset) -> PartitionOffset:
    late = str(spec.config.get("auto.offset.reset", "earliest")).lower() in _AT_THE_END
    try:
        offsets = client.get_watermark_offsets(at, timeout=_ASK_S)
    except KafkaException:
        offsets = None
    offset = -1 if offsets is None else offsets[_HIGH if late else _LOW]
    return PartitionOffset(at.topic, at.partition, offset)
