"""Kafka's replication throttles: a rate for each broker, and the replicas of each topic that it applies to.

Only replicas that are being copied are throttled. A leader never throttles a replica that is in sync, but a
follower may as soon as it lags a little, while others use up the rate; and writes with acks=all wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kaput.cluster.admin.reassignments import Configs, ReassignmentAdmin
from kaput.operate.reassign.moves import Move

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def copying(moves: Iterable[Move]) -> list[Move]:
    """The moves that copy anything; others need no throttle."""
    return [move for move in moves if move.adding]


def settings_before(cluster: ReassignmentAdmin, moves: Sequence[Move]) -> tuple[Configs, Configs]:
    """The throttle settings of brokers and topics, to restore later."""
    brokers = sorted({str(broker) for move in copying(moves) for broker in (*move.before, *move.after)})
    topics = sorted({move.topic for move in copying(moves)})
    there = {str(broker) for broker in cluster.view().racks}
    return (
        cluster.configs("broker", [broker for broker in brokers if broker in there], RATES),
        cluster.configs("topic", topics, REPLICAS),
    )


def put_on(cluster: ReassignmentAdmin, rate: int, brokers: Configs) -> None:
    """Limits all copies together to `rate` bytes per second from and to each broker."""
    there = {str(broker) for broker in cluster.view().racks}
    cluster.configure("broker", {name: dict.fromkeys(RATES, str(rate)) for name in brokers if name in there})


class ThrottledReplicas:
    """The replicas that the throttles apply to: those of the active moves. Updated when that changes."""

    def __init__(self, cluster: ReassignmentAdmin, before: Configs) -> None:
        self._cluster, self._before = cluster, before
        self._set: dict[str, Mapping[str, str | None]] = {}  # not known after a restart

    def update(self, going: Sequence[Move], living: Collection[str]) -> None:
        """From now on only these; `living`: topics that exist."""
        wanted: dict[str, Mapping[str, str | None]] = {**self._before, **_replicas(copying(going))}
        changed = {
            topic: config
            for topic, config in wanted.items()
            if topic in living and self._set.get(topic) != config
        }
        self._cluster.configure("topic", changed)
        self._set |= changed


def take_off(cluster: ReassignmentAdmin, brokers: Configs, topics: Configs) -> None:
    """Restores all settings; a broker that is down keeps its throttle until it is back."""
    there = {str(broker) for broker in cluster.view().racks}
    cluster.configure("broker", {name: config for name, config in brokers.items() if name in there})
    living = {topic for topic, _ in cluster.view().partitions}
    cluster.configure("topic", {name: config for name, config in topics.items() if name in living})


def down(cluster: ReassignmentAdmin, brokers: Configs) -> list[str]:
    """Brokers that cannot be configured now."""
    there = {str(broker) for broker in cluster.view().racks}
    return sorted(set(brokers) - there)


def left(cluster: ReassignmentAdmin, brokers: Configs, topics: Configs) -> list[str]:
    """Sentences about settings that differ from before."""
    view = cluster.view()
    there = {str(broker) for broker in view.racks}
    living = {topic for topic, _ in view.partitions}
    now_brokers = cluster.configs("broker", [name for name in brokers if name in there], RATES)
    now_topics = cluster.configs("topic", [name for name in topics if name in living], REPLICAS)
    return [
        f"{kind} {name}: {key}={value}"
        for kind, now, before in (("broker", now_brokers, brokers), ("topic", now_topics, topics))
        for name, config in now.items()
        for key, value in config.items()
        if value != before[name].get(key)
    ]


def _replicas(moves: Iterable[Move]) -> dict[str, dict[str, str | None]]:
    """By topic: the replicas that are read, and those that are written."""
    read: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for move in moves:
        read.setdefault(move.topic, []).extend(f"{move.partition}:{broker}" for broker in move.before)
        written.setdefault(move.topic, []).extend(f"{move.partition}:{broker}" for broker in move.adding)
    return {
        topic: dict(zip(REPLICAS, (",".join(read[topic]), ",".join(written[topic])), strict=True))
        for topic in read
    }
