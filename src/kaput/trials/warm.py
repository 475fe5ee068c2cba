"""Warm clusters, which stay up between experiments as long as they are as good as new.

Before it is used again, topics and groups are deleted and the cluster is checked; if anything is left, is not
healed, or cannot be checked, a new cluster replaces it. A run uses it alone or together with other runs.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kaput.cluster.admin import resources
from kaput.cluster.distribution import Distribution
from kaput.cluster.kafka_cluster import METADATA_SNAPSHOT, ClusterEvent, CollectedEvents
from kaput.cluster.own_cluster import OwnCluster
from kaput.core import MS
from kaput.errors import Interrupted, LabError
from kaput.evidence.folder import RunFolder
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.runner.progress import Progress
from kaput.runner.run_cluster import RunCluster, settings_of
from kaput.scenario.model import Scenario

_MOST_USES = 60  # since each use reads its metadata log from the beginning
_TIDY_S = 10.0


# Loses records of topics: the run's own topics are deleted, and internal ones are checked.
_LOSES_RECORDS = "power-loss"


def lasting_faults(scenario: Scenario) -> list[str]:
    """Faults of a scenario that change a cluster for good."""
    # With combined controllers the metadata may have lost records, too.
    harmless = () if scenario.cluster.controllers == "combined" else (_LOSES_RECORDS,)
    return [step.fault for step in scenario.faults if step.kind.traces and step.fault not in harmless]


class WarmCluster:
    """Runs until `close`; its first use warms it up. `spoiled`: why it cannot be used again."""

    def __init__(
        self,
        scenario: Scenario,
        distribution: Distribution,
        successors: Sequence[Distribution],
        java: Java,
        runs: Path,
        note: Callable[[str], None],
    ) -> None:
        self.spoiled: str | None = None
        self.taken = True  # by a caller of WarmClusters
        self.uses = 0
        self._in_use = False
        self._left: Sequence[Scenario] = ()  # by the last use, to be deleted
        self._logged: dict[int, int] = {}
        self.versions: Mapping[str, str | None] = {"kafka": distribution.version, "java": java.text}
        self._scenario, self._note = scenario, note
        self._stack = ExitStack()
        try:
            owner = self._stack.enter_context(Owner())
            folder = owner.own_path(Path(tempfile.mkdtemp(prefix=".cluster-", dir=runs)))
            own = owner, scenario.cluster, distribution, java, folder, note
            self.kafka = self._stack.enter_context(OwnCluster(*own, successors=successors))
            self.admin = self._stack.enter_context(self.kafka.admin(_TIDY_S))
            self._settings = self._own_settings()
        except BaseException:
            self.close()
            raise

    def new_files(self) -> Iterator[tuple[str, bytes]]:
        """(path, content) of each node's settings, and of its log lines of this use (the first: since its
        start)."""
        for number, node in self.kafka.nodes.items():
            with node.log.open("rb") as log:
                log.seek(self._logged.get(number, 0))
                text = log.read()
            self._logged[number] = self._logged.get(number, 0) + len(text)
            yield f"{number}/{node.log.name}", text
            yield f"{number}/{node.layout.properties.name}", node.layout.properties.read_bytes()

    def has_settings_of(self, scenario: Scenario) -> bool:
        return scenario.cluster == self._scenario.cluster and scenario.upgrades() == self._scenario.upgrades()

    def is_as_new(self) -> bool:
        """Whether it can be used again; deletes what the last use left."""
        if self.spoiled is not None or self._in_use or self.uses >= _MOST_USES:
            return False
        try:
            self.kafka.wait_ready(_TIDY_S)
            self._delete()
            self.spoiled = self._leftovers()
        except LabError as error:
            self.spoil(str(error).splitlines()[0])
        return self.spoiled is None

    def begin(self) -> None:
        """Marks it as in use until `end`; without that call it is not used again. What the nodes logged while
        they recovered from the use before belongs to no use.
        """
        self._in_use = True
        if self.uses:
            self._logged = {number: node.log.stat().st_size for number, node in self.kafka.nodes.items()}

    def end(self, scenarios: Sequence[Scenario]) -> None:
        self.uses, self._in_use, self._left = self.uses + 1, False, scenarios
        if changed := [fault for each in scenarios for fault in lasting_faults(each)]:
            self.spoil(f"{min(changed)} has changed it")

    def spoil(self, why: str) -> None:
        """Marks the cluster as not usable again."""
        self.spoiled = self.spoiled or why

    def close(self) -> None:
        self._stack.close()

    def _delete(self) -> None:
        """Deletes the topics and groups of the last use."""
        groups = [group for each in self._left for group in each.workload.groups]
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda group: self.admin.delete_group(group.id, settings_of(group)), groups))
        topics = {topic.name for each in self._left for topic in each.topics}
        self.admin.delete_topics(self.admin.ids(topics))
        self.admin.await_gone(topics)

    def _leftovers(self) -> str | None:
        """A sentence about what a use left behind; None if the cluster is as good as new."""
        topics = self.admin.topics()
        if left := [topic for topic in topics if not topic.startswith("__")]:
            return f"topic {left[0]} is left"
        if groups := self.admin.every_group():
            return f"group {min(groups)} is left"
        if transactions := self.admin.open_transactions():
            return f"a transaction of {min(transactions)} is open"
        if topics:
            self.admin.await_in_sync(topics)
        if self.kafka.troubles():
            return self.kafka.troubles()[0]
        if self._own_settings() != self._settings:
            return "broker settings are not those it started with"
        return None

    def _own_settings(self) -> object:
        """Non-default settings of brokers, and levels of the features that the scenario sets."""
        settings = {broker: dict(own.own) for broker, own in self.admin.broker_settings().items()}
        if len(settings) != len(self.kafka.broker_ids()):
            raise LabError("not every broker returned its settings")
        first = next(iter(self.kafka.broker_endpoints.values()))
        wanted = [name for name, level in self._scenario.cluster.features.items() if level]
        return settings, {name: resources.level(first, name) for name in wanted}


class WarmClusters:
    """Keeps warm clusters, as many as were in use at the same time. A context manager."""

    def __init__(
        self,
        runs: Path,
        java: Java,
        distributions: Callable[[str], Distribution],
        note: Callable[[str], None],
    ) -> None:
        self._runs, self._java, self._distributions, self._note = runs, java, distributions, note
        self._kept: set[WarmCluster] = set()
        self._closed = False
        self._lock, self._starting = threading.Lock(), threading.Lock()

    @contextmanager
    def cluster(self, scenario: Scenario, stop: threading.Event) -> Iterator[WarmCluster]:
        """A cluster that only this block uses: a free one with the scenario's settings if it is as good as
        new, else a new one. If no free one has these settings, all free ones end. Raises LabError, and
        Interrupted if a new one would start after `stop` is set or all are closed.
        """
        with self._lock:
            free = [each for each in self._kept if not each.taken]
            taken = [each for each in free if each.has_settings_of(scenario)][:1] or free
            for each in taken:
                each.taken = True
        if not (taken and taken[0].has_settings_of(scenario) and taken[0].is_as_new()):
            if spoiled := [each.spoiled for each in taken if each.spoiled is not None]:
                self._note(f"starting another cluster: {spoiled[0]}")
            self._end(taken)
            taken = [self._new(scenario, stop)]
        try:
            yield taken[0]
        finally:
            taken[0].taken = False

    def has_free(self, scenario: Scenario) -> bool:
        """Whether one with the scenario's settings is up that no block uses."""
        with self._lock:
            return any(not each.taken and each.has_settings_of(scenario) for each in self._kept)

    def end_free(self) -> None:
        """Stops those that no block uses."""
        with self._lock:
            free = [each for each in self._kept if not each.taken]
            for each in free:
                each.taken = True
        self._end(free)

    def _new(self, scenario: Scenario, stop: threading.Event) -> WarmCluster:
        self._runs.mkdir(parents=True, exist_ok=True)
        kafka, *successors = map(self._distributions, (scenario.cluster.kafka, *scenario.upgrades()))
        with self._starting:  # one after the other: each start takes all cores
            if self._closed or stop.is_set():
                raise Interrupted("the trials are being stopped")
            new = WarmCluster(scenario, kafka, successors, self._java, self._runs, self._note)
        with self._lock:
            if not self._closed:
                self._kept.add(new)
                return new
        new.close()
        raise Interrupted("the trials are being stopped")

    def _end(self, clusters: Iterable[WarmCluster]) -> None:
        for cluster in clusters:
            cluster.close()
            with self._lock:
                self._kept.discard(cluster)

    def close(self) -> None:
        """Stops all clusters; no other one starts."""
        with self._lock:
            self._closed, kept = True, [*self._kept]
        self._end(kept)

    def __enter__(self) -> WarmClusters:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
        """All events recorded so far; one read serves runs that ask at about the same time."""
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
        return [self]

    def __enter__(self) -> SharedRunCluster:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing: the cluster stays up, and the runs of a batch are cleaned up together."""

    def has_client(self, client_id: str) -> bool:
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
    """Events of these topics, others from `since_ns` on, preceded by the state at that time."""
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
