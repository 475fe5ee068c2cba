"""Warm clusters, which stay up between experiments as long as they are as good as new.

Before it is used again, topics and groups are deleted and the cluster is checked; if anything is left, is not
healed, or cannot be checked, a new cluster replaces it. Not here: its use by a run (shared_cluster.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from kaput.cluster.admin import features
from kaput.cluster.distribution import Distribution
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import LabError
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.runner.run_cluster import settings_of
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
    """A cluster that runs until `close`; its first use warms it up. `spoiled`: why it cannot be used again;
    None if it can.
    """

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

    def fits(self, scenario: Scenario) -> bool:
        """Whether it has the scenario's cluster settings, is as good as new, and is not in use."""
        same = scenario.cluster == self._scenario.cluster and scenario.upgrades() == self._scenario.upgrades()
        if not same or self.spoiled is not None or self._in_use or self.uses >= _MOST_USES:
            return False
        try:
            self.kafka.wait_ready(_TIDY_S)
            self._delete()
            self.spoiled = self._leftovers()
        except LabError as error:
            self.spoil(str(error).splitlines()[0])
        return self.spoiled is None

    def begin(self) -> None:
        """Marks it as in use until `end`; without that call it is not used again.

        What the nodes logged while they recovered from the use before belongs to no use.
        """
        self._in_use = True
        if self.uses:
            self._logged = {number: node.log.stat().st_size for number, node in self.kafka.nodes.items()}

    def end(self, scenarios: Sequence[Scenario]) -> None:
        """Ends a use by these scenarios."""
        self.uses, self._in_use, self._left = self.uses + 1, False, scenarios
        if changed := [fault for each in scenarios for fault in lasting_faults(each)]:
            self.spoil(f"{min(changed)} has changed it")

    def spoil(self, why: str) -> None:
        """Marks the cluster as not usable again."""
        self.spoiled = self.spoiled or why

    def close(self) -> None:
        """Stops the cluster."""
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
        return settings, {name: features.level(first, name) for name in wanted}


class WarmClusters:
    """Keeps one warm cluster. A context manager."""

    def __init__(
        self,
        runs: Path,
        java: Java,
        distributions: Callable[[str], Distribution],
        note: Callable[[str], None],
    ) -> None:
        self._runs, self._java, self._distributions, self._note = runs, java, distributions, note
        self._kept: WarmCluster | None = None

    def cluster(self, scenario: Scenario) -> WarmCluster:
        """A cluster for this scenario: the kept one if it fits, else a new one. Raises LabError."""
        if self._kept is not None and self._kept.fits(scenario):
            return self._kept
        if self._kept is not None and self._kept.spoiled is not None:
            self._note(f"starting another cluster: {self._kept.spoiled}")
        self.close()
        self._runs.mkdir(parents=True, exist_ok=True)
        successors = [self._distributions(version) for version in scenario.upgrades()]
        self._kept = WarmCluster(
            scenario,
            self._distributions(scenario.cluster.kafka),
            successors,
            self._java,
            self._runs,
            self._note,
        )
        return self._kept

    def close(self) -> None:
        """Stops the kept cluster, if there is one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def __enter__(self) -> WarmClusters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
