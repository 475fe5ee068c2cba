"""Whether the coordinator counts in a member that owns nothing.

Of an empty assignment librdkafka tells members of classic groups, but not those of type consumer. Those have
an epoch from their first heartbeat that was answered on, which stands in the client's metadata of its group.
(Its admin client could ask the coordinator, but ends the process at times: librdkafka's issue 4605.)
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Consumer

_MAGIC = b"CGMDv2:"  # then the epoch, as the machine has its integers; what follows are texts
_SETTLED_S = 1.0


class Standing:
    """Looks at one client of type consumer, each time it is asked."""

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._since: float | None = None

    def idle(self) -> bool:
        """Whether it has been a member for a second: what it is to own at first is assigned by then."""
        if epoch_of(self._client.consumer_group_metadata()) <= 0:
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _SETTLED_S


def epoch_of(metadata: object) -> int:
    """The member's epoch; -1 where it has none, or the metadata has another form."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return -1
    return int.from_bytes(metadata[len(_MAGIC) : len(_MAGIC) + 4], sys.byteorder, signed=True)
