"""Reads the description of a cluster: topics with their settings, ACLs, quotas, and group positions.

Read once from each cluster, for the pure comparisons (`*_rows.py`). Not here: records (reading.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from kaput.cluster.admin import Admin
from kaput.cluster.admin.client import check_access, hidden_resources
from kaput.cluster.admin.groups import OFFSETS
from kaput.cluster.admin.resources import AccessRule
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.cluster.kafka_cluster import ClusterAddress
from kaput.cluster.wire import AccessRefused
from kaput.core import TopicPartition
from kaput.errors import LabError

_T = TypeVar("_T")
Positions = Mapping[str, Mapping[TopicPartition, int]]  # by group
HIDDEN = "what is hidden"  # in `unknown`: Kafka leaves out what the user may not describe


@dataclass(frozen=True)
class TopicDescription:
    """A topic. `replicas`: of the partition with the fewest; `own`: settings that are not defaults."""

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def compacted(self) -> bool:
        """Whether the topic is compacted: Kafka removes records with a later one of the same key."""
        return "compact" in self.config.get("cleanup.policy", "delete")


@dataclass(frozen=True)
class ClusterDescription:
    """`rules`: the ACLs; None without an authorizer. `unknown`: what could not be read, and why."""

    topics: Mapping[str, TopicDescription]
    rules: frozenset[AccessRule] | None = None
    quotas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    groups: Positions = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def comparable(self, groups: Positions) -> Positions:
        """These groups of the source, without those that may be here and hidden from the user."""
        if not {"groups", HIDDEN} & self.unknown.keys():
            return groups
        return {group: positions for group, positions in groups.items() if group in self.groups}


class ClusterSurvey:
    """Reads from one cluster. Methods raise LabError if it does not answer."""

    def __init__(self, server: ClusterAddress, admin: Admin) -> None:
        self.server, self._admin = server, admin
        self._unknown: dict[str, str] = {}

    def topics(self) -> list[str]:
        """The names of all topics that the user may see."""
        return self._admin.topics()

    def check_rights(self) -> None:
        """Notes resources that Kafka hides from this user. Raises LabError if it hides everything."""
        rights, sees_topics = self._admin.cluster_rights(), bool(self._admin.topics())
        if hidden := hidden_resources(self.server.access.principal, rights, sees_topics):
            self._unknown[HIDDEN] = hidden

    def check_absent(self, topics: Iterable[str]) -> None:
        """Raises LabError if topics that are not listed may exist, hidden from the user."""
        self._admin.ids(topics)

    def describe(self, topics: Iterable[str]) -> ClusterDescription:
        names = sorted(topics)
        return ClusterDescription(
            self._topics(names),
            self._or_unknown("ACLs", self._admin.access_rules, None),
            self._or_unknown("quotas", self._admin.quotas, {}),
            self.groups(),
            self._unknown,
        )

    def bounds(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, int]]:
        """The start offset of each partition, and its end for read_committed readers."""
        names = sorted(topics)
        if not names:
            return {}
        places = list(self._admin.partitions(names))
        ends, starts = self._admin.stable_offsets(places), self._admin.log_start_offsets(places)
        return {place: (min(starts[place], ends[place]), ends[place]) for place in places}

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The current ends, for read_committed readers."""
        return self._admin.stable_offsets(places)

    def _topics(self, names: list[str]) -> dict[str, TopicDescription]:
        if not names:
            return {}
        settings = self._admin.topic_settings(names)
        if hidden := sorted(set(names) - set(settings)):
            self._unknown["configs"] = f"not allowed to describe the settings of {', '.join(hidden[:5])}"
        replicas: dict[str, list[int]] = {}
        for place, state in self._admin.partitions(names).items():
            replicas.setdefault(place.topic, []).append(len(state.replicas))
        return {
            name: TopicDescription(
                name,
                len(counts),
                min(counts),
                settings[name].every if name in settings else {},
                settings[name].own if name in settings else {},
            )
            for name, counts in replicas.items()
        }

    def groups(self) -> Positions:
        return self._or_unknown("groups", self._groups, {})

    def _groups(self) -> dict[str, Mapping[TopicPartition, int]]:
        if OFFSETS not in self._admin.topics():  # no group has ever committed
            return {}
        return {group: self._admin.committed(group) for group in self._admin.groups()}

    def _or_unknown(self, what: str, request: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return request()
        except AccessRefused as error:
            self._unknown[what] = str(error)
            return otherwise


@contextmanager
def cluster_survey(server: ClusterAddress) -> Iterator[ClusterSurvey]:
    """Connects to a cluster. Raises LabError if unreachable, UsageError for bad addresses or settings."""
    access = server.access
    cluster = ExistingCluster(server.servers, access)
    try:
        check_access(server.servers, access)
        cluster.refresh()
    except AccessRefused:
        raise
    except LabError as error:
        raise LabError(f"cluster {server.name}: {error}") from None
    with Admin(cluster) as admin:
        reader = ClusterSurvey(server, admin)
        reader.check_rights()
        yield reader
