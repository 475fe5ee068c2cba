"""Questions to a running cluster, each with a deadline, whoever of its nodes is dead, paused or cut off.

Brokers are asked all at once and the newest answer counts, because the one that a client library happens to
be connected to may be the one that is paused. Not here: what clients of the workload do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from kafka.protocol.admin import CreateTopicsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from kaput.cluster.asking import ANSWER_TIMEOUT_S, LATECOMERS_S, Asker
from kaput.cluster.wire import Endpoint, ask, error_name
from kaput.errors import LabError
from kaput.scenario.model import Topic

TopicPartition = tuple[str, int]

_LATEST = -1
_CONSUMER = -1
# Kafka's own debugging replica id: its answer is not cut off at the high watermark, as a consumer's is.
_DEBUGGER = -2


@dataclass(frozen=True)
class PartitionState:
    """A partition as the cluster sees it; leader None where there is none."""

    leader: int | None
    replicas: list[int]
    isr: list[int]


class Endpoints(Protocol):
    """Whom to ask: lab.Cluster, or anything that knows where its nodes listen."""

    @property
    def broker_endpoints(self) -> Mapping[int, Endpoint]:
        """By broker id."""

    @property
    def controller_endpoints(self) -> Mapping[int, Endpoint]:
        """By id of the voter."""


class Admin:
    """Asks one cluster. Every method raises LabError with a sentence when `timeout_s` has passed in vain."""

    def __init__(self, cluster: Endpoints, timeout_s: float = 15.0) -> None:
        self._cluster, self._timeout_s = cluster, timeout_s
        nodes = len(cluster.broker_endpoints) + len(cluster.controller_endpoints)
        self._asker = Asker(nodes, timeout_s)

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asker.close()

    def create_topics(self, topics: Sequence[Topic]) -> None:
        """Creates them; returns when every broker sees every partition with a leader and its full ISR."""
        if not topics:
            return
        names = {topic.name for topic in topics}
        wanted = [_creatable(topic) for topic in topics]
        request = CreateTopicsRequest(version=4, topics=wanted, timeout_ms=int(self._timeout_s * 1000))
        answer = self._asker.ask_any(
            self._cluster.broker_endpoints, lambda: request, "create topics", self._timeout_s
        )
        for result in answer.topics:
            if result.error_code:
                why = result.error_message or error_name(result.error_code)
                raise LabError(f"topic {result.name} cannot be created: {why}")
        self._asker.retry(
            lambda: self._all_in_sync(names), f"topics {', '.join(sorted(names))} to be in sync"
        )

    def partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        """Every partition of the topics: the newest that any broker knows."""
        names = sorted(set(topics))

        def look() -> dict[TopicPartition, PartitionState]:
            return _newest(self._views(names, LATECOMERS_S), names)

        return self._asker.retry(look, f"metadata of {', '.join(names)}")

    def controller_id(self) -> int:
        """The leader of the metadata quorum, as the quorum itself knows it."""
        question = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}

        def look() -> int:
            leaders = []
            asked = self._asker.ask_all(
                self._cluster.controller_endpoints, lambda: DescribeQuorumRequest(version=0, **question)
            )
            for answer in asked.values():
                # Only the leader answers without an error; one that was cut off has an older epoch.
                if answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0:
                    state = answer.topics[0].partitions[0]
                    leaders.append((state.leader_epoch, state.leader_id))
            if not leaders:
                raise LabError("no voter leads the metadata quorum")
            return int(max(leaders)[1])

        return self._asker.retry(look, "the controller")

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a consumer group."""

        def look() -> int:
            answer = self._asker.ask_any(
                self._cluster.broker_endpoints,
                lambda: FindCoordinatorRequest(version=2, key=group, key_type=0),
                f"the coordinator of {group}",
                ANSWER_TIMEOUT_S,
            )
            if answer.error_code:
                raise LabError(f"group {group} has no coordinator: {error_name(answer.error_code)}")
            return int(answer.node_id)

        return self._asker.retry(look, f"the coordinator of {group}")

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are left out."""

        def look() -> dict[TopicPartition, int]:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            answer = ask(
                endpoint, OffsetFetchRequest(version=5, group_id=group, topics=None), ANSWER_TIMEOUT_S
            )
            if answer.error_code:
                raise LabError(f"offsets of group {group}: {error_name(answer.error_code)}")
            found = [(topic.name, p) for topic in answer.topics for p in topic.partitions]
            return {
                (name, p.partition_index): p.committed_offset
                for name, p in found
                if not p.error_code and p.committed_offset >= 0
            }

        return self._asker.retry(look, f"the committed offsets of {group}")

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offset that consumers are shown."""
        return self._ends(list(places), _CONSUMER)

    def log_end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leader's own end, which may lie above the high watermark."""
        return self._ends(list(places), _DEBUGGER)

    def _ends(self, places: list[TopicPartition], replica_id: int) -> dict[TopicPartition, int]:
        if not places:
            return {}

        def look() -> dict[TopicPartition, int]:
            states = self.partitions({topic for topic, _ in places})
            by_leader: dict[int, list[TopicPartition]] = {}
            for place in places:
                leader = states[place].leader if place in states else None
                if leader is None:
                    raise LabError(f"{place[0]}/{place[1]} has no leader")
                by_leader.setdefault(leader, []).append(place)
            asked = [
                self._asker.submit(self._ends_of, leader, led, replica_id)
                for leader, led in by_leader.items()
            ]
            return {place: end for future in asked for place, end in future.result().items()}

        return self._asker.retry(look, "end offsets")

    def _ends_of(
        self, leader: int, places: list[TopicPartition], replica_id: int
    ) -> dict[TopicPartition, int]:
        by_topic: dict[str, list[dict[str, int]]] = {}
        for topic, partition in places:
            by_topic.setdefault(topic, []).append({"partition_index": partition, "timestamp": _LATEST})
        topics = [{"name": name, "partitions": wanted} for name, wanted in by_topic.items()]
        request = ListOffsetsRequest(version=1, replica_id=replica_id, topics=topics)
        answer = ask(self._cluster.broker_endpoints[leader], request, ANSWER_TIMEOUT_S)
        ends = {}
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    raise LabError(f"{topic.name}/{p.partition_index}: {error_name(p.error_code)}")
                ends[(topic.name, p.partition_index)] = p.offset
        return ends

    def _all_in_sync(self, names: set[str]) -> None:
        views = self._views(sorted(names), ANSWER_TIMEOUT_S)
        for broker in self._cluster.broker_endpoints:
            if broker not in views:
                raise LabError(f"broker {broker} did not answer")
            for (topic, p), state in _newest({broker: views[broker]}, sorted(names)).items():
                if state.leader is None or set(state.isr) != set(state.replicas):
                    raise LabError(f"{topic}/{p} has leader {state.leader} and ISR {state.isr}")

    def _views(self, names: list[str], latecomers_s: float) -> dict[int, Any]:
        return self._asker.ask_all(
            self._cluster.broker_endpoints,
            lambda: MetadataRequest(
                version=7, topics=[{"name": name} for name in names], allow_auto_topic_creation=False
            ),
            latecomers_s,
        )


def _creatable(topic: Topic) -> dict[str, Any]:
    assigned = [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(topic.assignment or [])]
    texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in topic.config.items()}
    return {
        "name": topic.name,
        # With an assignment Kafka counts for itself.
        "num_partitions": -1 if assigned else topic.partitions,
        "replication_factor": -1 if assigned else topic.replication_factor,
        "assignments": assigned,
        "configs": [{"name": key, "value": value} for key, value in texts.items()],
    }


def _newest(views: Mapping[int, Any], names: list[str]) -> dict[TopicPartition, PartitionState]:
    """Of each partition the view with the highest leader epoch; of equal ones the leader's own."""
    best: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
    for broker, view in views.items():
        for topic in view.topics:
            for p in topic.partitions:
                leader = p.leader_id if p.leader_id >= 0 else None
                age = (p.leader_epoch, leader == broker)
                place = (topic.name, p.partition_index)
                if place not in best or age > best[place][0]:
                    state = PartitionState(leader, list(p.replica_nodes), list(p.isr_nodes))
                    best[place] = (age, state)
    missing = set(names) - {topic for topic, _ in best}
    if missing:
        raise LabError(f"no broker knows the topic {', '.join(sorted(missing))}")
    return {place: state for place, (_, state) in sorted(best.items())}
