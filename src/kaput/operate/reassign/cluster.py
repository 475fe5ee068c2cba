"""What a reassignment asks of a cluster and tells it, with a limit for each answer.

Its place: applying.py decides what is asked and told; a double of this stands in tests/fakes/reassigned.py.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from kaput.cluster.access import Access
from kaput.core import TopicPartition as Place
from kaput.errors import LabError
from kaput.operate.authorization import check_access, hidden_resources

with warnings.catch_warnings():  # see cluster/protocol.py
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import TopicPartition
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient
    from kafka.errors import (
        AuthorizationError,
        KafkaError,
        NoReassignmentInProgressError,
        SaslAuthenticationFailedError,
    )

TIMEOUT_S = 30.0
_AGAIN_S = 60.0  # for how long what failed is tried again
_PAUSE_S = 0.5
_T = TypeVar("_T")
Kind = Literal["broker", "topic"]
Configs = Mapping[str, Mapping[str, str | None]]  # by name; None: none of its own


@dataclass(frozen=True)
class State:
    """A partition now; `leader` None where there is none."""

    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True)
class View:
    """A cluster now: the brokers that are there with their racks, and every partition."""

    cluster_id: str
    racks: Mapping[int, str | None]
    partitions: Mapping[Place, State]


class Cluster(Protocol):
    """Every method raises LabError when there is no answer for long enough, or a refusal."""

    def view(self) -> View:
        """How it stands."""

    def ongoing(self) -> Mapping[Place, tuple[int, ...]]:
        """Partitions that are being reassigned, with the replicas that they are to have."""

    def sizes(self, places: Iterable[Place]) -> Mapping[tuple[Place, int], int]:
        """Bytes of each replica, by partition and broker, of the brokers that answer."""

    def reassign(self, wanted: Mapping[Place, Sequence[int]]) -> Mapping[Place, str]:
        """Tells the controller; what it has against single partitions."""

    def configs(
        self, kind: Kind, names: Iterable[str], keys: Sequence[str]
    ) -> dict[str, dict[str, str | None]]:
        """What was set for each itself, and not its default."""

    def configure(self, kind: Kind, configs: Configs) -> None:
        """Sets, or with None deletes."""

    def elect(self, places: Iterable[Place]) -> None:
        """Has the preferred leaders lead, where they can."""


@contextmanager
def connected(servers: str, access: Access) -> Iterator[Connection]:
    """A cluster to work with. Raises LabError."""
    check_access(servers, access)
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=servers.split(","),
            request_timeout_ms=int(TIMEOUT_S * 1000),
            **access.kafka_python(),
        )
    except (KafkaError, OSError, ValueError) as error:
        raise LabError(f"{servers} cannot be reached: {_said(error)}") from None
    try:
        yield Connection(admin, access.principal)
    finally:
        admin.close()


class Connection:
    """The real one."""

    def __init__(self, admin: Any, principal: str = "User:ANONYMOUS") -> None:
        self._admin, self._principal = admin, principal
        self._there: list[int] = []  # brokers, at the last view

    def view(self) -> View:
        cluster = self._again("how the cluster stands", self._admin.describe_cluster)
        topics = self._again("the topics", self._admin.describe_topics)
        hidden_resources(self._principal, cluster.get("authorized_operations"), bool(topics))
        self._there = sorted(b["broker_id"] for b in cluster["brokers"] if not b.get("is_fenced"))
        return View(
            cluster["cluster_id"],
            {b["broker_id"]: b["rack"] for b in cluster["brokers"] if not b.get("is_fenced")},
            {
                Place(topic["name"], p["partition_index"]): State(
                    tuple(p["replica_nodes"]),
                    p["leader_id"] if p["leader_id"] >= 0 else None,
                    tuple(p["isr_nodes"]),
                )
                for topic in topics
                if not topic["error_code"]
                for p in topic["partitions"]
            },
        )

    def ongoing(self) -> Mapping[Place, tuple[int, ...]]:
        found = self._again("what is being reassigned", self._admin.list_partition_reassignments)
        return {
            # Kafka lists what is to be removed behind what is to stay.
            Place(p.topic, p.partition): tuple(
                b for b in each["replicas"] if b not in each["removing_replicas"]
            )
            for p, each in found.items()
        }

    def sizes(self, places: Iterable[Place]) -> Mapping[tuple[Place, int], int]:
        wanted: dict[str, list[int]] = {}
        for topic, partition in places:
            wanted.setdefault(topic, []).append(partition)
        if not wanted:
            return {}
        told = []
        for broker in self._there:
            # One that has just died has no sizes; the next view is without it.
            with suppress(KafkaError, OSError):
                told += self._admin.describe_log_dirs(wanted, brokers=[broker])
        return {
            (Place(topic["name"], p["partition_index"]), broker["broker"]): p["partition_size"]
            for broker in told
            for folder in broker["log_dirs"]
            for topic in folder["topics"]
            for p in topic["partitions"]
            if not p["is_future_key"]
        }

    def reassign(self, wanted: Mapping[Place, Sequence[int]]) -> Mapping[Place, str]:
        asked = {TopicPartition(*place): list(replicas) for place, replicas in wanted.items()}
        answers = self._again("to reassign", lambda: self._admin.alter_partition_reassignments(asked))
        return {
            Place(p.topic, p.partition): error.__name__
            for p, error in answers.items()
            if error is not None and error is not NoReassignmentInProgressError
        }

    def configs(
        self, kind: Kind, names: Iterable[str], keys: Sequence[str]
    ) -> dict[str, dict[str, str | None]]:
        wanted = [ConfigResource(_KINDS[kind], name, dict.fromkeys(keys)) for name in names]
        if not wanted:
            return {}
        told = self._again(
            f"settings of {kind}s", lambda: self._admin.describe_configs(wanted, config_filter="all")
        )
        return {
            str(name): {key: _own(config.get(key)) for key in keys}
            for name, config in told.get(kind, {}).items()
        }

    def configure(self, kind: Kind, configs: Configs) -> None:
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
        told = self._again(
            f"to configure {kind}s",
            lambda: self._admin.alter_configs(wanted, raise_on_unknown=False, incremental=True),
        )
        wrong = [f"{kind} {name}: {said}" for name, said in told.get(kind, {}).items() if said != "OK"]
        if wrong:
            raise LabError(
                f"settings were refused: {wrong[0]}" + (f" ({len(wrong)} in all)" * (len(wrong) > 1))
            )

    def elect(self, places: Iterable[Place]) -> None:
        wanted: dict[str, list[int]] = {}
        for topic, partition in places:
            wanted.setdefault(topic, []).append(partition)
        # A preferred leader that is not in sync yet is no failure: Kafka itself has it elected later.
        self._again("to elect", lambda: self._admin.elect_leaders(0, wanted, raise_errors=False))

    def _again(self, what: str, ask: Callable[[], _T]) -> _T:
        """The answer; whoever is just being restarted gets some time. Never asks again who refused."""
        limit = time.monotonic() + _AGAIN_S
        while True:
            try:
                return ask()
            except (AuthorizationError, SaslAuthenticationFailedError) as error:
                raise LabError(f"{what}: refused: {_said(error)}") from None
            except (KafkaError, OSError, RuntimeError) as error:
                if time.monotonic() > limit:
                    raise LabError(f"{what}: no answer for {_AGAIN_S:.0f} s: {_said(error)}") from None
                time.sleep(_PAUSE_S)


_KINDS: dict[Kind, Any] = {"broker": ConfigResourceType.BROKER, "topic": ConfigResourceType.TOPIC}
_OF_ITS_OWN = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")


def _own(told: Mapping[str, Any] | None) -> str | None:
    if told is None or told["config_source"] not in _OF_ITS_OWN or told["value"] is None:
        return None
    return str(told["value"]).lower() if isinstance(told["value"], bool) else str(told["value"])


def _said(error: Exception) -> str:
    """In a line, without the request and its secrets."""
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
