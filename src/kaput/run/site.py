"""Where a run takes place: a cluster of kaput's own (at_home.py), or one that was there (existing.py).

Its place: experiment.py plays a scenario on a site, and knows no more of it than this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution
from kaput.cluster.events import Collected
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.evidence.folder import RunFolder
from kaput.faults.commands import Commands
from kaput.processes.ownership import Owner
from kaput.run.progress import Progress
from kaput.scenario.model import Scenario
from kaput.scenario.vocabulary import CLIENT_USER


class Site(AbstractContextManager[object], Protocol):
    """A cluster that can be used from entering to leaving its block."""

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The processes that are kaput's own; none where the cluster was there before."""

    @property
    def network(self) -> Network:
        """Between them."""

    @property
    def bootstrap_servers(self) -> str:
        """For clients."""

    @property
    def distribution(self) -> Distribution | None:
        """Its jars, which Java clients may have as well; None where they are not known."""

    @property
    def commands(self) -> Commands | None:
        """Who runs those of the scenario, where there may be any."""

    def access(self, user: str = CLIENT_USER) -> Access:
        """How a user of that name is let in."""

    def broker_ids(self) -> list[int]:
        """Of every broker at the beginning."""

    def admin(self, timeout_s: float = 15.0) -> Admin:
        """One more to ask with, to be entered and left."""

    def prepare(self, admin: Admin, scenario: Scenario) -> Scenario:
        """Makes what the scenario needs there; the scenario as it is true from then on. Raises LabError."""

    def watch(self, stack: ExitStack, topics: Sequence[str]) -> None:
        """What is to be observed from now on until `events`, if that is all there will be to tell of."""

    def starts(self) -> Mapping[TopicPartition, int]:
        """From which offset on partitions hold what this run wrote, where that is not 0."""

    def grow(self, count: int) -> list[int]:
        """So many more brokers; their ids. Raises LabError."""

    def upgrade(self, node: int, version: str) -> None:
        """A node is of that version from its next start on. Raises LabError."""

    def revive(self, timeout_s: float) -> None:
        """Everybody is up again, also those that nobody has hit. Raises LabError in the end."""

    def events(self) -> Collected:
        """What happened to leaders, in-sync replicas and brokers."""

    def leave(self) -> None:
        """Every client has ended, and the block was left: what was made for the run is unmade."""

    def lifecycle(self) -> list[tuple[str, int, int]]:
        """(started or stopped, node id, at_ns) of processes that are kaput's own."""

    def troubles(self) -> list[str]:
        """Sentences about nodes that died on their own."""


class Ground(Protocol):
    """What a site is made of. `versions` are the manifest's, `mode` is kraft or zookeeper."""

    @property
    def versions(self) -> Mapping[str, str | None]:
        """Of Kafka, and of what it runs on."""

    def site(self, owner: Owner, scenario: Scenario, folder: RunFolder, progress: Progress) -> Site:
        """A site for one run."""
