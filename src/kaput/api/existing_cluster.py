"""Runs on the user's own cluster, which kaput neither starts nor stops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaput.runner.run_cluster import ClusterProvider
    from kaput.scenario.model import Scenario


@dataclass(frozen=True)
class ExistingClusterOptions:
    """The user's cluster. `command_config`: the client properties file; `use_topics`: whether existing topics
    may be written to.
    """

    servers: str
    command_config: Path | None = None
    use_topics: bool = False

    def provider_for(self, scenario: Scenario) -> tuple[ClusterProvider, Scenario]:
        """The provider of this cluster for a run, and the scenario with the cluster's facts filled in.

        Raises UsageError, and LabError if the cluster does not respond.
        """
        from kaput.cluster.access import OPEN, Access
        from kaput.cluster.admin import Admin
        from kaput.cluster.admin.client import check_access
        from kaput.cluster.existing_cluster import ExistingCluster
        from kaput.runner.cluster_facts import check_unused, collect_facts, with_cluster_facts
        from kaput.runner.existing_cluster import ExistingClusters

        access = Access.read(self.command_config) if self.command_config else OPEN
        check_access(self.servers, access)
        cluster = ExistingCluster(self.servers, access)
        cluster.refresh()
        with Admin(cluster) as admin:
            topics = admin.ids(topic.name for topic in scenario.topics)
            kept = check_unused(scenario, topics, admin.every_group(), self.use_topics)
            found = collect_facts(cluster, admin)
            true = with_cluster_facts(scenario, found, kept)
        return ExistingClusters(cluster, found, kept), true
