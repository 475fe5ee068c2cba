"""Requests about consumer groups: their coordinators, offsets and settings.

Its place: the base of Admin, with what every request needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from kaput.cluster.admin import requests
from kaput.cluster.admin.broadcast import ANSWER_TIMEOUT_S, Broadcaster
from kaput.cluster.admin.ensemble import Ensemble
from kaput.cluster.wire import AccessRefused, ask, error_name, trouble
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.model import Config

if TYPE_CHECKING:
    from kaput.cluster.kafka_cluster import KafkaCluster

OFFSETS = "__consumer_offsets"
# REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_NOT_READY = frozenset({7, 14, 15, 16})


class GroupAdmin:
    """Requests about one cluster's groups. Every method raises LabError after `timeout_s`."""

    def __init__(self, cluster: KafkaCluster, timeout_s: float = 15.0) -> None:
        self._cluster, self._timeout_s = cluster, timeout_s
        zookeepers = cluster.zookeeper_endpoints
        nodes = sum(map(len, (cluster.broker_endpoints, cluster.controller_endpoints, zookeepers)))
        self._broadcaster = Broadcaster(nodes, timeout_s)
        self._ensemble = Ensemble(zookeepers, self._broadcaster)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._broadcaster.close()

    def _check(self, what: str, code: int, message: str | None = None) -> None:
        """Raises LabError if the answer has an error code; it names the user if authorization failed."""
        if not code:
            return
        error = trouble(what, code, message)
        if isinstance(error, AccessRefused):
            who = {endpoint.access.principal for endpoint in self._cluster.broker_endpoints.values()}
            error = trouble(f"{' or '.join(sorted(who))} is not authorized: {what}", code, message)
        raise error

    def _ask_any(self, make: Callable[[], Any], what: str) -> Any:
        return self._broadcaster.ask_any(self._cluster.broker_endpoints, make, what, self._timeout_s)[0]

    def groups(self) -> list[str]:
        """The ids of all groups that commit offsets; a coordinator that still loads them is waited for.
        Raises LabError if one does not answer.
        """

        def look() -> Mapping[int, Any]:
            brokers = self._cluster.broker_endpoints
            found = self._broadcaster.ask_all(brokers, requests.list_groups, ANSWER_TIMEOUT_S)
            for broker, answer in found.items():
                self._check(f"the groups of broker {broker}", answer.error_code)
            return found

        answers = self._broadcaster.retry(look, "all groups")
        if silent := {leader for leader in self._coordinators() if leader not in answers}:
            who = " and ".join(
                "no broker" if one < 0 else f"broker {one}, which does not answer," for one in sorted(silent)
            )
            raise LabError(f"cannot list all groups: {who} leads a partition of {OFFSETS}")
        # Share groups store offsets elsewhere; groups of Connect and others have none. A group that never had
        # a member, only offsets that a program committed, has no type.
        return sorted(
            {
                group.group_id
                for answer in answers.values()
                for group in answer.groups
                if group.protocol_type in ("consumer", "")
            }
        )

    def _coordinators(self) -> set[int]:
        """The leaders of the partitions that store groups; -1 for one without a leader."""
        answer, _ = self._broadcaster.ask_any(
            self._cluster.broker_endpoints,
            lambda: requests.metadata([OFFSETS]),
            f"the leaders of {OFFSETS}",
            ANSWER_TIMEOUT_S,
        )
        return {partition.leader_id for topic in answer.topics for partition in topic.partitions}

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a consumer group."""
        return self._coordinator(f"group {group}", lambda: requests.find_coordinator(group))

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a producer's transactions."""
        return self._coordinator(transactional_id, lambda: requests.find_coordinator(transactional_id, True))

    def _coordinator(self, whose: str, request: Callable[[], Any]) -> int:
        def look() -> int:
            answers = self._broadcaster.ask_all(self._cluster.broker_endpoints, request).values()
            named = Counter(answer.node_id for answer in answers if not answer.error_code)
            if not named:
                codes = {error_name(answer.error_code) for answer in answers} or {"no broker answered"}
                raise LabError(f"{whose} has no coordinator: {', '.join(sorted(codes))}")
            # A broker that was cut off may still name the old one.
            return int(named.most_common(1)[0][0])

        return self._broadcaster.retry(look, f"the coordinator of {whose}")

    def committed(
        self, group: str, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets in these partitions (None: in all)."""

        def look() -> dict[TopicPartition, int]:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            answer = ask(endpoint, requests.fetch_offsets(group, places), ANSWER_TIMEOUT_S)
            self._check(f"offsets of group {group}", answer.error_code)
            listed = [(topic.name, p) for topic in answer.topics for p in topic.partitions]
            return {
                TopicPartition(name, p.partition_index): p.committed_offset
                for name, p in listed
                if not p.error_code and p.committed_offset >= 0
            }

        return self._broadcaster.retry(look, f"the committed offsets of {group}")

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets for a group, which must have no members. An idle cluster creates __consumer_offsets
        or loads the group's partition of it at the first request: only that is waited for.
        """

        def attempt() -> list[tuple[str, Any]]:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            answer = ask(endpoint, requests.commit_offsets(group, offsets), ANSWER_TIMEOUT_S)
            answers = [(topic.name, p) for topic in answer.topics for p in topic.partitions]
            for _, p in answers:
                if p.error_code in _NOT_READY:
                    self._check("its coordinator is not ready", p.error_code)
            return answers

        for name, p in self._broadcaster.retry(attempt, f"offsets of {group} to be set") if offsets else ():
            self._check(f"offset of {group} in {name}/{p.partition_index} cannot be set", p.error_code)

    def set_group_config(self, group: str, config: Config) -> None:
        """Sets broker-side settings of a group. Raises LabError with Kafka's reason."""
        values = requests.config_values(config)
        answer = self._ask_any(
            lambda: requests.alter_configs(requests.GROUP, [group], values), f"configure group {group}"
        )
        for result in answer.responses:
            self._check(f"group {group} cannot be configured", result.error_code, result.error_message)

    def share_lags(self, group: str) -> dict[TopicPartition, int]:
        """How many records a share group has not settled yet, by partition that it has started to read."""

        def look() -> dict[TopicPartition, int]:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            (group_answer,) = ask(endpoint, requests.share_group_offsets(group), ANSWER_TIMEOUT_S).groups
            self._check(f"offsets of share group {group}", group_answer.error_code)
            every = [(topic.topic_name, p) for topic in group_answer.topics for p in topic.partitions]
            return {
                TopicPartition(name, p.partition_index): p.lag
                for name, p in every
                if not p.error_code and p.lag >= 0
            }

        return self._broadcaster.retry(look, f"the offsets of share group {group}")
