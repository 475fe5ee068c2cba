"""The tables cluster_events and requests: what a cluster recorded, and kaput's starts and stops.

Clusters whose own logs cannot be read are polled. A change happened between two polls: its event has the time
of the poll that saw it, and `within_ns` is how much earlier it may have happened. An epoch that began and
ended between two polls has an event without a leader, because that leader is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.kafka_cluster import POLLING, ClusterEvent
from kaput.core import MS, TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.run_cluster import RunCluster
from kaput.runner.samplers import Sampler

POLL_S = 0.2
_NO_LEADER = -1


class Poller(Sampler):
    """Polls inside its `with` block, and once more when `events` is called."""

    def __init__(self, admin: Admin, topics: Sequence[str], every_s: float = POLL_S) -> None:
        self._admin, self._topics = admin, list(topics)
        self._looked_ns: int | None = None
        self._partitions: Mapping[TopicPartition, PartitionState] = {}
        self._brokers: frozenset[int] = frozenset()
        self._events: list[ClusterEvent] = []
        super().__init__("polling", every_s, at_once=True)

    def look(self) -> None:
        """Records changes since the last poll; nothing if no broker answers."""
        began = time.time_ns()
        try:
            brokers, partitions = self._admin.live(self._topics)
        except LabError:
            return
        at_ns = time.time_ns()
        within = at_ns - (began if self._looked_ns is None else self._looked_ns)
        self._events += partition_changes(self._partitions, partitions, at_ns, within)
        self._events += broker_changes(self._brokers, brokers, at_ns, within)
        self._partitions = {**self._partitions, **_not_stale(self._partitions, partitions)}
        self._brokers, self._looked_ns = brokers, began

    @property
    def leaders(self) -> Mapping[TopicPartition, int]:
        """The leader of each partition at the last poll; without leaderless partitions."""
        return {place: s.leader for place, s in self._partitions.items() if s.leader is not None}

    def events(self) -> list[ClusterEvent]:
        """All events since the last `take`; ends the polling."""
        self.stop()
        self.look()
        return self.take()

    def take(self) -> list[ClusterEvent]:
        """The events since the last call."""
        count = len(self._events)
        taken, self._events[:count] = self._events[:count], []
        return taken


def partition_changes(
    before: Mapping[TopicPartition, PartitionState],
    now: Mapping[TopicPartition, PartitionState],
    at_ns: int,
    within_ns: int,
) -> list[ClusterEvent]:
    """The changes of partitions between two polls, as events."""
    changes: list[ClusterEvent] = []
    for place, state in now.items():
        old = before.get(place)
        leader = _NO_LEADER if state.leader is None else state.leader
        epoch = state.leader_epoch
        if old is None or epoch > old.leader_epoch:
            next_epoch = epoch if old is None else old.leader_epoch + 1
            changes += [
                _event("leader", place, None, n, None, at_ns, within_ns) for n in range(next_epoch, epoch)
            ]
            changes.append(_event("leader", place, leader, epoch, state.isr, at_ns, within_ns))
        elif epoch == old.leader_epoch and state.leader != old.leader:
            changes.append(_event("leader", place, leader, epoch, state.isr, at_ns, within_ns))
        elif epoch == old.leader_epoch and set(state.isr) != set(old.isr):
            changes.append(_event("isr", place, leader, epoch, state.isr, at_ns, within_ns))
    return changes


def _event(
    kind: str,
    place: TopicPartition,
    leader: int | None,
    epoch: int,
    isr: Sequence[int] | None,
    at_ns: int,
    within_ns: int,
) -> ClusterEvent:
    known = None if isr is None else list(isr)
    return ClusterEvent(kind, None, *place, leader, epoch, known, at_ns, POLLING, None, within_ns)


def broker_changes(
    before: frozenset[int], now: frozenset[int], at_ns: int, within_ns: int
) -> list[ClusterEvent]:
    """Brokers that joined or left the cluster between two polls."""
    came = [("unfenced", broker) for broker in sorted(now - before)]
    gone = [("fenced", broker) for broker in sorted(before - now)]
    nothing = (None, None, None, None, None)
    return [ClusterEvent(kind, b, *nothing, at_ns, POLLING, None, within_ns) for kind, b in came + gone]


def _not_stale(
    before: Mapping[TopicPartition, PartitionState], now: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, PartitionState]:
    """The states that are not older than the known ones: lagging brokers may have answered."""
    return {
        place: state
        for place, state in now.items()
        if place not in before or state.leader_epoch >= before[place].leader_epoch
    }


def record_cluster_events(
    folder: Path,
    events: Iterable[ClusterEvent],
    lifecycle: Iterable[tuple[str, int, int]],
    cluster: str | None = None,
) -> None:
    """`folder`: of the run. `lifecycle`: (started or stopped, broker, at_ns). `cluster`: if several."""
    writer = "collect" if cluster is None else f"collect-{cluster}"
    with Recorder(folder, "cluster_events", writer, cluster) as table:
        for event in events:
            table.row(**event._asdict())
        for kind, broker, at_ns in lifecycle:
            table.row(kind=kind, broker=broker, at_ns=at_ns, source="kaput")


def record_requests(folder: Path, cluster: RunCluster) -> None:
    """Writes requests: what each broker logged about clients' requests. `folder`: of the run."""
    with Recorder(folder, "requests", cluster.writer("collect"), cluster.column) as table:
        for node in cluster.kafka.nodes.values():
            log = node.layout.requests
            # The last line may be torn: a broker may be killed while it writes.
            lines = log.read_text().split("\n")[:-1] if log.exists() else []
            for at_ms, api, version, client_id in (line.split("\t", 3) for line in lines):
                if cluster.has_client(client_id):
                    table.row(
                        broker=node.id, client_id=client_id, api=api, version=int(version),
                        at_ns=int(at_ms) * MS,
                    )  # fmt: skip
