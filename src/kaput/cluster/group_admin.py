"""Questions about groups to a running cluster: their coordinators, offsets and settings.

Its place: the half of admin.Admin that knows of groups, and how it asks at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from kaput.cluster import requests
from kaput.cluster.broadcast import ANSWER_TIMEOUT_S, Broadcaster
from kaput.cluster.wire import Endpoint, Refused, ask, error_name, trouble
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.scenario.model import Config

OFFSETS = "__consumer_offsets"


class Endpoints(Protocol):
    """Whom to ask: lab.Cluster, or anything that knows where its nodes listen."""

    @property
    def broker_endpoints(self) -> Mapping[int, Endpoint]:
        """By broker id."""

    @property
    def controller_endpoints(self) -> Mapping[int, Endpoint]:
        """By id of the voter; empty in ZooKeeper mode."""

    @property
    def zookeeper_endpoints(self) -> Mapping[int, Endpoint]:
        """By id of the ZooKeeper node; empty in KRaft mode."""


class GroupAdmin:
    """Asks one cluster about groups. Every method raises LabError when `timeout_s` has passed in vain."""

    def __init__(self, cluster: Endpoints, timeout_s: float = 15.0) -> None:
        self._cluster, self._timeout_s = cluster, timeout_s
        self._zookeepers = cluster.zookeeper_endpoints
        nodes = sum(map(len, (cluster.broker_endpoints, cluster.controller_endpoints, self._zookeepers)))
        self._asker = Broadcaster(nodes, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asker.close()

    def _trouble(self, what: str, code: int, said: str | None = None) -> LabError:
        """The exception for an answer with that error code; where it is a matter of rights it says whose."""
        error = trouble(what, code, said)
        if not isinstance(error, Refused):
            return error
        who = {endpoint.access.principal for endpoint in self._cluster.broker_endpoints.values()}
        return trouble(f"{' or '.join(sorted(who))} has no right: {what}", code, said)

    def groups(self) -> list[str]:
        """The ids of all groups that commit offsets, each as its coordinator knows it.

        Raises LabError at once where a coordinator does not tell: its groups would be left out.
        """
        brokers = self._cluster.broker_endpoints
        answers = self._asker.ask_all(brokers, requests.list_groups, ANSWER_TIMEOUT_S)
        for broker, answer in answers.items():
            if answer.error_code:
                raise self._trouble(f"the groups of broker {broker}", answer.error_code)
        if silent := {leader for leader in self._coordinators() if leader not in answers}:
            who = " and ".join("nobody" if one < 0 else f"broker {one}, silent," for one in sorted(silent))
            raise LabError(f"not all groups are known: {who} leads a partition of {OFFSETS}")
        # A share group's offsets are its own; a group of Connect or of others has none. One of which nobody
        # was ever a member, whose offsets a program has committed by itself, has no type.
        return sorted(
            {
                group.group_id
                for answer in answers.values()
                for group in answer.groups
                if group.protocol_type in ("consumer", "")
            }
        )

    def _coordinators(self) -> set[int]:
        """Who leads the partitions in which groups are kept; -1 where one has no leader."""
        told = self._asker.ask_any(
            self._cluster.broker_endpoints,
            lambda: requests.metadata([OFFSETS]),
            f"who leads {OFFSETS}",
            ANSWER_TIMEOUT_S,
        )
        return {partition.leader_id for topic in told.topics for partition in topic.partitions}

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a consumer group."""
        return self._coordinator(f"group {group}", lambda: requests.find_coordinator(group))

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates a producer's transactions."""
        return self._coordinator(
            transactional_id, lambda: requests.find_transaction_coordinator(transactional_id)
        )

    def _coordinator(self, whose: str, request: Callable[[], Any]) -> int:
        def look() -> int:
            answers = self._asker.ask_all(self._cluster.broker_endpoints, request).values()
            said = Counter(answer.node_id for answer in answers if not answer.error_code)
            if not said:
                codes = {error_name(answer.error_code) for answer in answers} or {"no broker answered"}
                raise LabError(f"{whose} has no coordinator: {', '.join(sorted(codes))}")
            # One that was cut off may still name the old one.
            return int(said.most_common(1)[0][0])

        return self._asker.retry(look, f"the coordinator of {whose}")

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are left out."""

        def look() -> dict[TopicPartition, int]:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            answer = ask(endpoint, requests.fetch_offsets(group), ANSWER_TIMEOUT_S)
            if answer.error_code:
                raise self._trouble(f"offsets of group {group}", answer.error_code)
            found = [(topic.name, p) for topic in answer.topics for p in topic.partitions]
            return {
                TopicPartition(name, p.partition_index): p.committed_offset
                for name, p in found
                if not p.error_code and p.committed_offset >= 0
            }

        return self._asker.retry(look, f"the committed offsets of {group}")

    def set_group_config(self, group: str, config: Config) -> None:
        """Settings of a group at the brokers. Raises LabError with what Kafka has against them."""
        answer = self._asker.ask_any(
            self._cluster.broker_endpoints,
            lambda: requests.set_group_config(group, config),
            f"configure group {group}",
            self._timeout_s,
        )
        for result in answer.responses:
            if result.error_code:
                what = f"group {group} cannot be configured"
                raise self._trouble(what, result.error_code, result.error_message)

    def share_lags(self, group: str) -> dict[TopicPartition, int]:
        """For each partition of a share group, how many records are neither accepted, rejected nor given up.

        Partitions of which the group does not know it, since it has not begun there, are left out.
        """

        def look() -> dict[TopicPartition, int]:
            endpoint = self._cluster.broker_endpoints[self.coordinator(group)]
            (found,) = ask(endpoint, requests.share_group_offsets(group), ANSWER_TIMEOUT_S).groups
            if found.error_code:
                raise self._trouble(f"offsets of share group {group}", found.error_code)
            every = [(topic.topic_name, p) for topic in found.topics for p in topic.partitions]
            return {
                TopicPartition(name, p.partition_index): p.lag
                for name, p in every
                if not p.error_code and p.lag >= 0
            }

        return self._asker.retry(look, f"the offsets of share group {group}")
