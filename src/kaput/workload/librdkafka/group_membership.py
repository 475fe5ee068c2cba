"""Whether a member without partitions has joined its group.

librdkafka reports an empty assignment to members of classic groups, but not to those of type consumer. The
latter have a member epoch from the first heartbeat response on, which is in the client's group metadata. (The
admin client could ask the coordinator, but sometimes crashes the process: librdkafka issue 4605.)
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer

_MAGIC = b"CGMDv2:"  # then the epoch in native byte order, then strings
_SETTLED_S = 1.0


class GroupMembership:
    """The membership of one client of type consumer."""

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._since: float | None = None

    def settled(self) -> bool:
        """Whether it has been a member for a second: its first partitions are assigned by then."""
        if member_epoch(self._client.consumer_group_metadata()) <= 0:
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _SETTLED_S


def member_epoch(metadata: object) -> int:
    """The member's epoch; -1 if it has none, or the metadata has another format."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return -1
    return int.from_bytes(metadata[len(_MAGIC) : len(_MAGIC) + 4], sys.byteorder, signed=True)
