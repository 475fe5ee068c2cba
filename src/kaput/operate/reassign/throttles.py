"""Kafka's replication throttles: a rate for each broker, and the replicas of each topic that it applies to.

Only replicas that are being copied are throttled: a follower that lags a little would be throttled too if
others use up the rate, and writes with acks=all wait for it. (A leader never throttles in-sync replicas.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kaput.cluster.admin.reassignments import Configs, ReassignmentAdmin
from kaput.operate.reassign.moves import Move

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def copying(moves: Iterable[Move]) -> list[Move]:
    """The moves that copy data; others need no throttle."""
    return [move for move in moves if move.adding]


def read_settings(cluster: ReassignmentAdmin, moves: Sequence[Move]) -> tuple[Configs, Configs]:
    """The throttle settings of brokers and topics, to restore later."""
    brokers = sorted({str(broker) for move in copying(moves) for broker in (*move.before, *move.after)})
    topics = sorted({move.topic for move in copying(moves)})
    alive = {str(broker) for broker in cluster.view().racks}
    return (
        cluster.configs("broker", [broker for broker in brokers if broker in alive], RATES),
        cluster.configs("topic", topics, REPLICAS),
    )


def set_rate(cluster: ReassignmentAdmin, rate: int, brokers: Configs) -> None:
    """Limits copying to `rate` bytes per second from and to each broker, for all copies together."""
    alive = {str(broker) for broker in cluster.view().racks}
    cluster.configure("broker", {name: dict.fromkeys(RATES, str(rate)) for name in brokers if name in alive})


class ThrottledReplicas:
    """Applies the throttles to the replicas of active moves, and updates them when that set changes."""

    def __init__(self, cluster: ReassignmentAdmin, before: Configs) -> None:
        self._cluster, self._before = cluster, before
        self._set: dict[str, Mapping[str, str | None]] = {}  # what was set; empty after a restart

    def update(self, active: Sequence[Move], existing: Collection[str]) -> None:
        """Throttles only these moves from now on; `existing`: topics that exist."""
        wanted: dict[str, Mapping[str, str | None]] = {**self._before, **_replicas(copying(active))}
        changed = {
            topic: config
            for topic, config in wanted.items()
            if topic in existing and self._set.get(topic) != config
        }
        self._cluster.configure("topic", changed)
        self._set |= changed


def restore_settings(cluster: ReassignmentAdmin, brokers: Configs, topics: Configs) -> None:
    """Restores all settings; a broker that is down keeps its throttle until it is back."""
    alive = {str(broker) for broker in cluster.view().racks}
    cluster.configure("broker", {name: config for name, config in brokers.items() if name in alive})
    existing = {topic for topic, _ in cluster.view().partitions}
    cluster.configure("topic", {name: config for name, config in topics.items() if name in existing})


def unreachable_brokers(cluster: ReassignmentAdmin, brokers: Configs) -> list[str]:
    """Brokers that are down, and so cannot be configured now."""
    alive = {str(broker) for broker in cluster.view().racks}
    return sorted(set(brokers) - alive)


def differences(cluster: ReassignmentAdmin, brokers: Configs, topics: Configs) -> list[str]:
    """Sentences about settings that differ from before."""
    view = cluster.view()
    alive = {str(broker) for broker in view.racks}
    existing = {topic for topic, _ in view.partitions}
    now_brokers = cluster.configs("broker", [name for name in brokers if name in alive], RATES)
    now_topics = cluster.configs("topic", [name for name in topics if name in existing], REPLICAS)
    return [
        f"{kind} {name}: {key}={value}"
        for kind, now, before in (("broker", now_brokers, brokers), ("topic", now_topics, topics))
        for name, config in now.items()
        for key, value in config.items()
        if value != before[name].get(key)
    ]


def _replicas(moves: Iterable[Move]) -> dict[str, dict[str, str | None]]:
    """The settings by topic: replicas to read from, and replicas to write."""
    read: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for move in moves:
        read.setdefault(move.topic, []).extend(f"{move.partition}:{broker}" for broker in move.before)
        written.setdefault(move.topic, []).extend(f"{move.partition}:{broker}" for broker in move.adding)
    return {
        topic: dict(zip(REPLICAS, (",".join(read[topic]), ",".join(written[topic])), strict=True))
        for topic in read
    }
