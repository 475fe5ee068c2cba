"""The requests of a reassignment to a cluster, with a time limit for each.

Its place: applying.py decides what to request; tests/fakes/reassigned.py has a double.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from kaput.cluster.access import Access
from kaput.cluster.admin.client import admin_client, hidden_resources, one_line
from kaput.cluster.admin.cluster_admin import PartitionState
from kaput.core import TopicPartition, setting_text
from kaput.errors import LabError

with warnings.catch_warnings():  # see cluster/protocol.py
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import TopicPartition as KafkaTopicPartition
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
    from kafka.errors import (
        AuthorizationError,
        KafkaError,
        NoReassignmentInProgressError,
        SaslAuthenticationFailedError,
    )

_RETRY_TIMEOUT_S = 60.0
_T = TypeVar("_T")
Kind = Literal["broker", "topic"]
Configs = Mapping[str, Mapping[str, str | None]]  # by name; None: unset


@dataclass(frozen=True)
class ClusterView:
    """A cluster: the brokers that are up with their racks, and every partition."""

    cluster_id: str
    racks: Mapping[int, str | None]
    partitions: Mapping[TopicPartition, PartitionState]


@contextmanager
def reassignment_client(servers: str, access: Access) -> Iterator[ReassignmentClient]:
    """A connection to a cluster. Raises LabError."""
    with admin_client(servers, access) as admin:
        yield ReassignmentClient(admin, access.principal)


class ReassignmentClient:
    """Every method raises LabError if requests are refused, or not answered within the time limit."""

    def __init__(self, admin: Any, principal: str = "User:ANONYMOUS") -> None:
        self._admin, self._principal = admin, principal
        self._alive: list[int] = []  # brokers, at the last view

    def view(self) -> ClusterView:
        cluster = self._retry("the state of the cluster", self._admin.describe_cluster)
        topics = self._retry("the topics", self._admin.describe_topics)
        hidden_resources(self._principal, cluster.get("authorized_operations"), bool(topics))
        self._alive = sorted(b["broker_id"] for b in cluster["brokers"] if not b.get("is_fenced"))
        return ClusterView(
            cluster["cluster_id"],
            {b["broker_id"]: b["rack"] for b in cluster["brokers"] if not b.get("is_fenced")},
            {
                TopicPartition(topic["name"], p["partition_index"]): PartitionState(
                    p["leader_id"] if p["leader_id"] >= 0 else None,
                    tuple(p["replica_nodes"]),
                    tuple(p["isr_nodes"]),
                )
                for topic in topics
                if not topic["error_code"]
                for p in topic["partitions"]
            },
        )

    def ongoing(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Partitions being reassigned, with their target replicas."""
        moving = self._retry("active reassignments", self._admin.list_partition_reassignments)
        return {
            # Kafka lists replicas being removed after those that stay.
            TopicPartition(p.topic, p.partition): tuple(
                b for b in each["replicas"] if b not in each["removing_replicas"]
            )
            for p, each in moving.items()
        }

    def sizes(self, places: Iterable[TopicPartition]) -> Mapping[tuple[TopicPartition, int], int]:
        """Bytes of each replica, by partition and broker, on the brokers that answer."""
        wanted: dict[str, list[int]] = {}
        for topic, partition in places:
            wanted.setdefault(topic, []).append(partition)
        if not wanted:
            return {}
        answer = []
        for broker in self._alive:
            # A broker that just died gives no sizes; the next view does not list it.
            with suppress(KafkaError, OSError):
                answer += self._admin.describe_log_dirs(wanted, brokers=[broker])
        return {
            (TopicPartition(topic["name"], p["partition_index"]), broker["broker"]): p["partition_size"]
            for broker in answer
            for folder in broker["log_dirs"]
            for topic in folder["topics"]
            for p in topic["partitions"]
            if not p["is_future_key"]
        }

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> Mapping[TopicPartition, str]:
        """Requests the reassignment; returns the controller's errors by partition."""
        asked = {KafkaTopicPartition(*place): list(replicas) for place, replicas in wanted.items()}
        answers = self._retry("the reassignment", lambda: self._admin.alter_partition_reassignments(asked))
        return {
            TopicPartition(p.topic, p.partition): error.__name__
            for p, error in answers.items()
            if error is not None and error is not NoReassignmentInProgressError
        }

    def configs(
        self, kind: Kind, names: Iterable[str], keys: Sequence[str]
    ) -> dict[str, dict[str, str | None]]:
        """Settings of the resources themselves, without defaults."""
        wanted = [ConfigResource(_KINDS[kind], name, dict.fromkeys(keys)) for name in names]
        if not wanted:
            return {}
        answer = self._retry(
            f"settings of {kind}s", lambda: self._admin.describe_configs(wanted, config_filter="all")
        )
        return {
            str(name): {key: _own_value(config.get(key)) for key in keys}
            for name, config in answer.get(kind, {}).items()
        }

    def configure(self, kind: Kind, configs: Configs) -> None:
        """Sets or, with None, deletes settings."""
        wanted = [
            ConfigResource(
                _KINDS[kind],
                name,
                {
                    key: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
                    for key, value in config.items()
                },
            )
            for name, config in configs.items()
        ]
        if not wanted:
            return
        answer = self._retry(
            f"changed settings of {kind}s",
            lambda: self._admin.alter_configs(wanted, raise_on_unknown=False, incremental=True),
        )
        wrong = [
            f"{kind} {name}: {result}" for name, result in answer.get(kind, {}).items() if result != "OK"
        ]
        if wrong:
            raise LabError(
                f"settings were refused: {wrong[0]}" + (f" ({len(wrong)} in all)" * (len(wrong) > 1))
            )

    def elect(self, places: Iterable[TopicPartition]) -> None:
        """Elects preferred leaders that are in sync."""
        wanted: dict[str, list[int]] = {}
        for topic, partition in places:
            wanted.setdefault(topic, []).append(partition)
        # A preferred leader that is not in sync yet is no failure: Kafka elects it later.
        self._retry("the leader election", lambda: self._admin.elect_leaders(0, wanted, raise_errors=False))

    def _retry(self, what: str, ask: Callable[[], _T]) -> _T:
        """Returns the answer. Retries for brokers that are restarting, but not if access is refused."""
        limit = time.monotonic() + _RETRY_TIMEOUT_S
        while True:
            try:
                return ask()
            except (AuthorizationError, SaslAuthenticationFailedError) as error:
                raise LabError(f"{what}: refused: {one_line(error)}") from None
            except (KafkaError, OSError, RuntimeError) as error:
                if time.monotonic() > limit:
                    raise LabError(
                        f"{what}: no answer for {_RETRY_TIMEOUT_S:.0f} s: {one_line(error)}"
                    ) from None
                time.sleep(0.5)


_KINDS: dict[Kind, Any] = {"broker": ConfigResourceType.BROKER, "topic": ConfigResourceType.TOPIC}
_OWN_SOURCES = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")


def _own_value(answer: Mapping[str, Any] | None) -> str | None:
    if answer is None or answer["config_source"] not in _OWN_SOURCES or answer["value"] is None:
        return None
    return setting_text(answer["value"])
