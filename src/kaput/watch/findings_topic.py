"""What a watch finds, as records of a topic: JSON as `kaput watch --json` prints it, every 10 s and at the
end.

The key is the run folder's name. A cluster that is away does not hold the watch up: records wait in the
client, and are dropped after its message.timeout.ms.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Producer

from kaput.cluster.access import Access
from kaput.workload.librdkafka.client_setup import quiet_logger

_EVERY_S = 10.0
_FLUSH_S = 10.0
_LARGE = ("durations", "fates", "group_fates")  # without what is large, or in the run folder


class FindingsTopic:
    """Writes to `topic` inside its `with` block. `run`: the run folder's name."""

    def __init__(self, servers: str, access: Access, topic: str, run: str) -> None:
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, **access.librdkafka()}
        self._client = Producer(settings, logger=quiet_logger())
        self._topic, self._run = topic, run
        self._written_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.flush(_FLUSH_S)

    def due(self) -> bool:
        """Whether it is time for another record."""
        self._client.poll(0)
        return time.monotonic() - self._written_s >= _EVERY_S

    def write(self, status: Mapping[str, Any], *, final: bool = False) -> None:
        """One record. What finds no room in the client's queue is left out."""
        self._written_s = time.monotonic()
        found = {name: value for name, value in status.items() if name not in _LARGE}
        try:
            self._client.produce(self._topic, json.dumps({**found, "final": final}), self._run)
        except BufferError:
            return
