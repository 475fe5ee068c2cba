"""A run's use of a warm cluster, alone or together with other runs.

The cluster neither starts nor ends with a run. The evidence of a run has no earlier events, only the state of
the cluster when the run began. Not here: whether a cluster can be used again (warm.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kaput.cluster.events import METADATA_SNAPSHOT, ClusterEvent, CollectedEvents
from kaput.cluster.own_cluster import OwnCluster
from kaput.core import MS
from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import Owner
from kaput.runner.progress import Progress
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.model import Scenario

_GATHER_S = 0.2  # runs that end at about the same time share one read of the events


class ClusterUse:
    """One use of a cluster by one or several runs: what happened to the cluster since it began."""

    def __init__(self, kafka: OwnCluster) -> None:
        self.kafka = kafka
        self.since_ns = time.time_ns() // MS * MS  # the metadata log counts milliseconds
        self._troubles = len(kafka.troubles())
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._collected = CollectedEvents([], [])

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down. Raises LabError."""
        with self._lock:
            self.kafka.restart_all(timeout_s)

    def events(self) -> CollectedEvents:
        """All events that the cluster recorded so far; one read serves runs that ask at about the same
        time.
        """
        asked = time.monotonic()
        with self._lock:
            if self._asked_at < asked:
                time.sleep(_GATHER_S)
                self._asked_at = time.monotonic()
                self._collected = self.kafka.events()
            return self._collected

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Starts and stops of nodes during this use."""
        return [event for event in self.kafka.lifecycle if event[2] >= self.since_ns]

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own during this use."""
        return self.kafka.troubles()[self._troubles :]


class SharedRunCluster(RunCluster):
    """One run's use of a cluster that stays up, and its own provider. `number`: of the run among those that
    share the cluster, of which the first one warms up a new cluster, and the others wait for it; `alone`: no
    other run uses it at the time, so all faults are the run's own.
    """

    stays_up = True
    mirror_maker = None

    def __init__(
        self,
        number: int,
        use: ClusterUse,
        tag: str,
        scenario: Scenario,
        versions: Mapping[str, str | None],
        *,
        new: bool,
        alone: bool,
    ) -> None:
        super().__init__("", use.kafka, scenario)
        self.number, self.use, self.tag, self.versions, self.alone = number, use, tag, versions, alone
        self.warm = number > 0 or not new
        self.misses: list[str] = []  # reasons why a shared fault did not hit this run's target
        self._own_topics = frozenset(topic.name for topic in scenario.topics)
        self._members = [f"kaput-{group.id}-member-" for group in scenario.workload.groups]

    def run_clusters(
        self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress
    ) -> Sequence[SharedRunCluster]:
        """This cluster."""
        return [self]

    def __enter__(self) -> SharedRunCluster:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing: the cluster stays up, and the runs of a batch are cleaned up together."""

    def has_client(self, client_id: str) -> bool:
        """Whether the client is one of the run's producers or members."""
        return client_id.endswith(f"@{self.tag}") or any(map(client_id.startswith, self._members))

    def restart_all(self, timeout_s: float) -> None:
        """Starts every node that is down. Raises LabError."""
        self.use.restart_all(timeout_s)

    def events(self) -> CollectedEvents:
        """The events of the run: of its own topics, of internal topics and of brokers."""
        every, troubles = self.use.events()
        return CollectedEvents(list(since(every, self.use.since_ns, self._own_topics)), troubles)

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """Starts and stops of nodes during the run."""
        return self.use.lifecycle()

    def troubles(self) -> list[str]:
        """Nodes that died on their own, and faults that missed."""
        return self.use.troubles() + self.misses


def since(events: Iterable[ClusterEvent], since_ns: int, topics: frozenset[str]) -> Iterator[ClusterEvent]:
    """All events of these topics, and the events of internal topics and brokers from `since_ns` on, preceded
    by their state at that time.
    """
    before: dict[tuple[str | int | None, int | None], ClusterEvent] = {}
    after = []
    for event in events:
        if event.topic is not None and not event.topic.startswith("__"):
            if event.topic in topics:
                after.append(event)
        elif event.at_ns >= since_ns:
            after.append(event)
        else:
            before[event.topic or event.broker, event.partition] = event
    for event in before.values():
        kind = event.kind if event.topic is None else "leader"
        yield event._replace(kind=kind, at_ns=since_ns, source=METADATA_SNAPSHOT)
    yield from after
