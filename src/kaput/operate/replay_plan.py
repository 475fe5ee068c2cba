"""The plan of a replay, and its checks before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaput.cluster.admin.groups import OFFSETS
from kaput.errors import UsageError

_INTERNAL = frozenset(
    {OFFSETS, "__transaction_state", "__share_group_state", "__cluster_metadata", "@metadata"}
)
# Settings that exactly-once copying depends on.
_FIXED = frozenset(
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
class TopicCopy:
    """What to copy, between topics of one cluster. `rate`: messages per second, None: no limit.

    `id`: the name to resume it by; `config`: settings for both clients.
    """

    servers: str
    source: str
    target: str
    id: str
    rate: float | None = None
    config: Mapping[str, Any] | None = None


def check(wanted: TopicCopy) -> None:
    """Raises UsageError for a replay that cannot work."""
    if wanted.source == wanted.target:
        raise UsageError("a topic cannot be replayed into itself: it would never end")
    if wanted.target in _INTERNAL:
        raise UsageError(f"{wanted.target} is internal to Kafka; only brokers may write to it")
    if taken := sorted(_FIXED & (wanted.config or {}).keys()):
        raise UsageError(f"--config {taken[0]}: a replay sets this itself")
