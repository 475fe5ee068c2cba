"""Admin requests to a running cluster, each with a deadline, even if nodes are dead, paused or cut off.

All brokers are asked at once and the newest answer counts, because the broker that a client library is
connected to may be paused. Not here: clients of the workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kaput.cluster.admin import requests, resources
from kaput.cluster.admin.broadcast import ANSWER_TIMEOUT_S
from kaput.cluster.admin.resources import ResourceAdmin
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.model import Topic

_ELECTION_NOT_NEEDED = 84  # it leads already
_UNKNOWN_TOPIC, _INVALID_PARTITIONS = 3, 37


@dataclass(frozen=True)
class PartitionState:
    """A partition; `leader` is None if there is none. Epochs count from 0."""

    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    leader_epoch: int = -1


def newest(views: Mapping[int, Any], names: list[str]) -> dict[TopicPartition, PartitionState]:
    """For each partition, the state with the highest leader epoch; among equals, the leader's own."""
    best: dict[TopicPartition, tuple[tuple[int, bool], PartitionState]] = {}
    for broker, view in views.items():
        for topic in view.topics:
            for p in topic.partitions:
                leader = p.leader_id if p.leader_id >= 0 else None
                age = (p.leader_epoch, leader == broker)
                place = TopicPartition(topic.name, p.partition_index)
                if place not in best or age > best[place][0]:
                    state = PartitionState(leader, list(p.replica_nodes), list(p.isr_nodes), p.leader_epoch)
                    best[place] = (age, state)
    missing = set(names) - {topic for topic, _ in best}
    if missing:
        raise LabError(f"no broker knows topic {', '.join(sorted(missing))}")
    return {place: state for place, (_, state) in sorted(best.items())}


_Request = Callable[[Sequence[TopicPartition]], Any]


class Admin(ResourceAdmin):
    """Requests to one cluster. Every method raises LabError after `timeout_s`."""

    def create_topics(self, topics: Sequence[Topic], *, in_sync: bool = True) -> None:
        """Creates them; returns when every broker sees every partition with a leader and its full ISR, or
        unless `in_sync`, when every broker that answers knows them: a dead broker may have replicas.
        """
        if not topics:
            return
        names = {topic.name for topic in topics}
        answer, lost = self._ask_controller(
            lambda: requests.create_topics(topics, self._timeout_s), "create topics"
        )
        self._check_topics(answer.topics, "cannot be created", resources.TOPIC_EXISTS if lost else 0)
        if in_sync:
            self.await_in_sync(names)
        else:
            self._broadcaster.retry(lambda: self._check_known(names), f"topics {', '.join(sorted(names))}")

    def await_in_sync(self, topics: Iterable[str]) -> None:
        """Waits until every broker sees every partition with a leader and its full ISR."""
        names = set(topics)
        self._broadcaster.retry(
            lambda: self._check_in_sync(names), f"topics {', '.join(sorted(names))} to be in sync"
        )

    def live(self, topics: Sequence[str]) -> tuple[frozenset[int], dict[TopicPartition, PartitionState]]:
        """The ids of live brokers, and the partitions of these topics, from brokers that answer at once."""
        views = self._views(lambda: requests.metadata(topics))
        listed = Counter(broker.node_id for view in views.values() for broker in view.brokers)
        # A broker that is cut off still lists the brokers that it knew.
        alive = frozenset(broker for broker, times in listed.items() if 2 * times > len(views))
        return alive, newest(views, list(topics))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; returns when no broker knows it any more. A client may have another one of its
        name created at once (auto.create.topics.enable).
        """
        before = self.topic_id(name)
        answer, _ = self._ask_controller(
            lambda: requests.delete_topic(name, self._timeout_s), f"delete topic {name}"
        )
        # It was there just now: a broker, too, sends a request again whose answer it has lost.
        self._check_topics(answer.responses, "cannot be deleted", _UNKNOWN_TOPIC)

        def gone() -> None:
            views = self._views(requests.topics_with_ids).values()
            if before in {topic.topic_id for view in views for topic in view.topics}:
                raise LabError(f"a broker still has topic {name}")

        self._broadcaster.retry(gone, f"topic {name} to be deleted")

    def await_gone(self, topics: Iterable[str]) -> None:
        """Waits until no broker knows any of these topics."""
        names = set(topics)

        def gone() -> None:
            if left := names & set(self.topics()):
                raise LabError(f"a broker still has topic {min(left)}")

        self._broadcaster.retry(gone, f"topics {', '.join(sorted(names))} to be deleted")

    def add_partitions(
        self, topic: str, count: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Increases partitions to `count`. `assignments`: of the new ones; None: Kafka's. Raises LabError."""
        answer, lost = self._ask_controller(
            lambda: requests.create_partitions(topic, count, self._timeout_s, assignments),
            f"add partitions to {topic}",
        )
        did = _INVALID_PARTITIONS if lost else 0
        self._check_topics(answer.results, f"cannot have {count} partitions", did)

    def _check_topics(self, results: Iterable[Any], refused: str, did: int) -> None:
        """Raises LabError for a topic that was refused. `did`: the code that means that an earlier try, whose
        answer was lost, did it.
        """
        for result in results:
            if result.error_code != did:
                what = f"topic {result.name} {refused}"
                self._check(what, result.error_code, getattr(result, "error_message", None))

    def delete_records(self, starts: Mapping[TopicPartition, int]) -> None:
        """Deletes records below these offsets on every replica, up to the high watermark. Raises LabError."""
        for leader, led in self._by_leader(list(starts)).items():
            mine = {place: starts[place] for place in led}
            endpoint = self._cluster.broker_endpoints[leader]
            answer = ask(endpoint, requests.delete_records(mine, self._timeout_s), self._timeout_s)
            for name, p in ((topic.name, p) for topic in answer.topics for p in topic.partitions):
                self._check(f"records of {name}/{p.partition_index} cannot be deleted", p.error_code)

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Reassigns partitions; returns when the controller has accepted. Raises LabError."""
        answer, _ = self._ask_controller(
            lambda: requests.alter_reassignments(wanted, self._timeout_s), "reassign partitions"
        )
        self._check("partitions cannot be reassigned", answer.error_code, answer.error_message)
        for name, p in ((topic.name, p) for topic in answer.responses for p in topic.partitions):
            self._check(f"{name}/{p.partition_index} cannot be reassigned", p.error_code, p.error_message)

    def elect_preferred(self, places: Sequence[TopicPartition]) -> None:
        """Makes the preferred replica of each partition its leader. Raises LabError if one cannot be."""
        answer, _ = self._ask_controller(
            lambda: requests.elect_preferred(places, self._timeout_s), "elect preferred leaders"
        )
        self._check("preferred leaders cannot be elected", answer.error_code)
        elected = [(each.topic, p) for each in answer.replica_election_results for p in each.partition_result]
        for name, p in elected:
            if p.error_code != _ELECTION_NOT_NEEDED:
                what = f"the preferred leader of {name}/{p.partition_id} cannot be elected"
                self._check(what, p.error_code, p.error_message)

    def feature_levels(self) -> dict[str, int]:
        """The active levels, without features at level 0. Raises LabError."""

        def look() -> dict[str, int]:
            return resources.levels(next(iter(self._cluster.broker_endpoints.values())))

        return self._broadcaster.retry(look, "levels of features")

    def raise_feature(self, name: str) -> tuple[int, int]:
        """Raises a feature as far as all nodes support it; returns both levels. Raises LabError."""
        brokers = self._cluster.broker_endpoints
        nodes = [*brokers.values(), *self._cluster.controller_endpoints.values()]

        def raised() -> int:
            highest, now = resources.common_level(nodes, name), resources.level(nodes[0], name)
            if now < highest:
                resources.raise_level(nodes[0], name, highest)
                # Brokers learn of the change a moment later.
                raise LabError(f"{name} is still {now}, not {highest}")
            return now

        before = self._broadcaster.retry(lambda: resources.level(nodes[0], name), f"the level of {name}")
        return before, self._broadcaster.retry(raised, f"{name} to be raised")

    def _ask_controller(self, make: Callable[[], Any], what: str) -> tuple[Any, bool]:
        return self._broadcaster.ask_any(self._controller_proxies(), make, what, self._timeout_s)

    def _controller_proxies(self) -> Mapping[int, Endpoint]:
        """The brokers that forward to the controller: in ZooKeeper mode only the controller."""
        brokers = self._cluster.broker_endpoints
        if not self._ensemble:
            return brokers
        controller = self.controller_id()
        return {controller: brokers[controller]}

    def partitions(self, topics: Iterable[str]) -> dict[TopicPartition, PartitionState]:
        """Every partition of the topics, in the newest state that a broker knows."""
        names = sorted(set(topics))
        return self._broadcaster.retry(
            lambda: newest(self._views(lambda: requests.metadata(names)), names),
            f"metadata of {', '.join(names)}",
        )

    def topics(self) -> list[str]:
        """The names of all topics that any broker knows, including internal ones."""

        def look() -> list[str]:
            views = self._views(requests.topics_with_ids).values()
            return sorted({topic.name for view in views for topic in view.topics})

        return self._broadcaster.retry(look, "the topics")

    def controller_id(self) -> int:
        """The leader of the metadata quorum, from the quorum itself; in ZooKeeper mode from ZooKeeper."""
        look = self._ensemble.controller_id if self._ensemble else self._quorum_leader
        return self._broadcaster.retry(look, "the controller")

    def zookeepers(self) -> list[int]:
        """The ZooKeeper nodes. Raises LabError in KRaft mode."""
        return self._ensemble.ids()

    def answers(self, node: int) -> bool:
        """Whether this node answers a request right now."""
        try:
            if node in self._ensemble:
                self._ensemble.ask(node)
            elif node in self._cluster.broker_endpoints:
                ask(self._cluster.broker_endpoints[node], requests.metadata(), ANSWER_TIMEOUT_S)
            else:
                endpoint = self._cluster.controller_endpoints[node]
                ask(endpoint, requests.describe_quorum(), ANSWER_TIMEOUT_S)
        except Unanswered:
            return False
        return True

    def log_dirs(self, broker: int) -> dict[str, bool]:
        """This broker's log directories, and whether each has failed; none if it does not answer."""
        try:
            answer = ask(self._cluster.broker_endpoints[broker], requests.log_dirs(), ANSWER_TIMEOUT_S)
        except Unanswered:
            return {}
        return {each.log_dir: bool(each.error_code) for each in answer.results}

    def reaches_quorum(self) -> bool:
        """Whether any node answers, or refuses, a request that brokers forward to the leader of the metadata
        quorum; in ZooKeeper mode they have no such request, and this is true.
        """
        known = self._broadcaster.ask_all(self._cluster.broker_endpoints, requests.api_versions)
        if not any(
            key.api_key == requests.DESCRIBE_QUORUM for each in known.values() for key in each.api_keys
        ):
            return True
        return bool(self._broadcaster.ask_all(self._cluster.controller_endpoints, requests.describe_quorum))

    def in_kraft_mode(self) -> bool:
        """Whether a metadata quorum answers."""
        try:
            self._quorum_leader()
        except LabError:
            return False
        return True

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets that consumers see."""
        return self._leader_offsets(list(places), requests.watermarks)

    def stable_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets that read_committed consumers see: the last stable offsets."""
        return self._leader_offsets(list(places), requests.stable_offsets)

    def log_end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The leaders' log ends, which may be above the high watermark."""
        return self._leader_offsets(list(places), requests.log_ends)

    def log_start_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._leader_offsets(list(places), requests.log_starts)

    def offsets_at(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offset of a record with that time or a later one; -1 where there is none."""
        return self._leader_offsets(list(places), requests.offsets_at(time_ms))

    def reachable_log_ends(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """The log ends of all partitions of the topics whose leaders answer right now."""
        return self._reachable_offsets(topics, requests.log_ends)

    def reachable_stable_offsets(self, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, int]]:
        """(last stable offset, high watermark) of all partitions whose leaders answer right now. The
        watermark is read first: records between the two were held back by open transactions.
        """
        watermarks = self._reachable_offsets(topics, requests.watermarks)
        stable = self._reachable_offsets(topics, requests.stable_offsets)
        return {place: (stable[place], watermarks[place]) for place in sorted(stable.keys() & watermarks)}

    def _reachable_offsets(self, topics: Sequence[str], request: _Request) -> dict[TopicPartition, int]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for place, state in self.partitions(topics).items():
            if state.leader is not None and state.leader in self._cluster.broker_endpoints:
                by_leader.setdefault(state.leader, []).append(place)
        asked = [
            self._broadcaster.submit(self._offsets_from, leader, led, request)
            for leader, led in by_leader.items()
        ]
        ends: dict[TopicPartition, int] = {}
        for future in asked:
            with suppress(LabError):
                ends |= future.result()
        return ends

    def _quorum_leader(self) -> int:
        leaders = []
        asked = self._broadcaster.ask_all(self._cluster.controller_endpoints, requests.describe_quorum)
        for answer in asked.values():
            # Only a leader answers without an error; one that was cut off has an older epoch.
            if answer.error_code == 0 and answer.topics[0].partitions[0].error_code == 0:
                state = answer.topics[0].partitions[0]
                leaders.append((state.leader_epoch, state.leader_id))
        if not leaders:
            raise LabError("the metadata quorum has no leader")
        return int(max(leaders)[1])

    def _leader_offsets(self, places: list[TopicPartition], request: _Request) -> dict[TopicPartition, int]:
        if not places:
            return {}

        def look() -> dict[TopicPartition, int]:
            asked = [
                self._broadcaster.submit(self._offsets_from, leader, led, request)
                for leader, led in self._by_leader(places).items()
            ]
            return {place: end for future in asked for place, end in future.result().items()}

        return self._broadcaster.retry(look, "end offsets")

    def _by_leader(self, places: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by leader. Raises LabError if one has no leader."""
        states = self.partitions({topic for topic, _ in places})
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in places:
            leader = states[place].leader if place in states else None
            if leader is None:
                raise LabError(f"{place} has no leader")
            by_leader.setdefault(leader, []).append(place)
        return by_leader

    def _offsets_from(
        self, leader: int, places: list[TopicPartition], request: _Request
    ) -> dict[TopicPartition, int]:
        answer = ask(self._cluster.broker_endpoints[leader], request(places), ANSWER_TIMEOUT_S)
        ends = {}
        for topic in answer.topics:
            for p in topic.partitions:
                self._check(f"{topic.name}/{p.partition_index}", p.error_code)
                ends[TopicPartition(topic.name, p.partition_index)] = p.offset
        return ends

    def _check_in_sync(self, names: set[str]) -> None:
        brokers = self._cluster.broker_endpoints
        views = self._broadcaster.ask_all(brokers, lambda: requests.metadata(sorted(names)), ANSWER_TIMEOUT_S)
        for broker in brokers:
            if broker not in views:
                raise LabError(f"broker {broker} did not answer")
            for (topic, p), state in newest({broker: views[broker]}, sorted(names)).items():
                if state.leader is None or set(state.isr) != set(state.replicas):
                    raise LabError(f"{topic}/{p} has leader {state.leader} and ISR {state.isr}")

    def _check_known(self, names: set[str]) -> None:
        views = self._views(lambda: requests.metadata(sorted(names))).values()
        for topic in (topic for view in views for topic in view.topics):
            self._check(f"topic {topic.name} cannot be described", topic.error_code)

    def _views(self, request: Callable[[], Any]) -> dict[int, Any]:
        """The answers of brokers that answer at once. Raises LabError if none does."""
        views = self._broadcaster.ask_all(self._cluster.broker_endpoints, request)
        if not views:
            raise LabError("no broker answered")
        return views
