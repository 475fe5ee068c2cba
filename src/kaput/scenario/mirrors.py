"""The block of a mirror between clusters of a scenario, with its checks.

The processes of mirrors: cluster/mirrors/. Checks against clusters, topics and groups: checks/clusters.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kaput.scenario.block import Block, Found
from kaput.scenario.values import Config, DurationMs

FIRST_MIRROR_ID = 9001  # node ids of mirror processes
MirrorName = str  # dc1->dc2

# MirrorMaker's settings that keys of the scenario decide.
_RESERVED = {
    "clusters": "from",
    "topics": "topics",
    "groups": "groups",
    "replication.policy.class": "policy",
    "sync.group.offsets.interval.seconds": "offset-sync",
    "sync.group.offsets.enabled": "groups",
    "emit.checkpoints.interval.seconds": "checkpoints",
    "refresh.topics.interval.seconds": "refresh",
    "refresh.groups.interval.seconds": "refresh",
    "exactly.once.source.support": "exactly-once",
    "emit.heartbeats.enabled": "heartbeats",
}
_WHOLE_SECONDS = ("offset_sync", "checkpoints", "refresh")


class Mirror(Block):
    """A process that copies topics of one cluster to another one, and the positions of groups with them."""

    from_: str = Field(alias="from")
    """The cluster whose topics are copied: the source."""
    to: str
    """The cluster that gets the copies: the target."""
    engine: Literal["mirrormaker2"] = "mirrormaker2"
    """What copies: Kafka's MirrorMaker 2."""
    topics: Annotated[list[str], Field(min_length=1)]
    """The topics of the source to copy."""
    groups: list[str] = []
    """The groups whose positions are translated; of no others."""
    policy: Literal["identity", "default"] = "identity"
    """How copies are named: as in the source (`identity`), or after it, as `dc1.orders` (`default`)."""
    offset_sync: DurationMs = 1_000
    """How often translated positions are committed in the target (sync.group.offsets.interval)."""
    checkpoints: DurationMs = 1_000
    """How often positions are translated (emit.checkpoints.interval)."""
    refresh: DurationMs = 1_000
    """How often the mirror looks for new topics, partitions and groups."""
    exactly_once: bool = False
    """Whether copies are written in transactions, so that a restart copies nothing twice."""
    heartbeats: bool = False
    """Whether heartbeats are written into both clusters."""
    start: Literal["at-once", "by-plan"] = "at-once"
    """Whether it runs from the start, or a step of the plan starts it."""
    config: Config = {}
    """MirrorMaker's settings for this direction, in its own names."""

    @property
    def name(self) -> MirrorName:
        """`dc1->dc2`"""
        return f"{self.from_}->{self.to}"

    def copy_of(self, topic: str) -> str:
        """The name of the copy of a topic in the target."""
        return topic if self.policy == "identity" else f"{self.from_}.{topic}"

    def rules(self) -> Found:
        if self.from_ == self.to:
            yield ("to",), "a cluster cannot be mirrored to itself; write another one"
        for name in _WHOLE_SECONDS:
            if getattr(self, name) % 1000:
                yield (name.replace("_", "-"),), "MirrorMaker counts whole seconds; write for example 1s"
        for index, topic in enumerate(self.topics):
            if topic in self.topics[:index]:
                yield ("topics", index), f"{topic} is listed twice"
        for name in self.config:
            if name in _RESERVED:
                yield ("config", name), f"kaput sets this itself; use the key {_RESERVED[name]}"
