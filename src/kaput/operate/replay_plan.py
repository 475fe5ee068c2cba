"""What a replay is to copy, and what it may not be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaput.cluster.group_admin import OFFSETS
from kaput.errors import UsageError

_KAFKAS_OWN = frozenset(
    {OFFSETS, "__transaction_state", "__share_group_state", "__cluster_metadata", "@metadata"}
)
# Settings on which it rests that each record is copied once.
_ITS_OWN = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "group.id",
        "enable.auto.commit",
        "auto.commit.enable",
        "auto.offset.reset",
        "isolation.level",
        "enable.partition.eof",
        "transactional.id",
        "partitioner",
    }
)


@dataclass(frozen=True)
class Replay:
    """What to copy: from a topic to a topic, of the same cluster. `rate`: messages a second, None: no limit.

    id: what a replay is known by, when it is started again; config: settings of both clients.
    """

    servers: str
    source: str
    target: str
    id: str
    rate: float | None = None
    config: Mapping[str, Any] | None = None


def check(wanted: Replay) -> None:
    """Raises UsageError for what no replay can be."""
    if wanted.source == wanted.target:
        raise UsageError("a topic cannot be replayed into itself: it would never end")
    if wanted.target in _KAFKAS_OWN:
        raise UsageError(f"{wanted.target}: is Kafka's own; what is written there must come from its brokers")
    if taken := sorted(_ITS_OWN & (wanted.config or {}).keys()):
        raise UsageError(f"--config {taken[0]}: is not yours to choose, a replay has its own")
