"""`kaput run --bootstrap-servers`: the ground of runs on a cluster that was there before; `kaput cleanup`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.run.run_cluster import ClusterProvider
    from kaput.scenario.model import Scenario


@dataclass(frozen=True)
class Existing:
    """Which cluster. `command_config`: how clients are let in; `use_topics`: whether topics that are there
    may be written to.
    """

    servers: str
    command_config: Path | None = None
    use_topics: bool = False

    def ground_for(self, scenario: Scenario) -> tuple[ClusterProvider, Scenario]:
        """Where to run it, and how it reads there. Raises UsageError, and LabError where nobody answers."""
        from kaput.cluster.access import OPEN, Access
        from kaput.cluster.existing import ExistingCluster
        from kaput.cluster.existing_admin import ExistingAdmin
        from kaput.operate.rights import knock
        from kaput.run.cluster_facts import check_unused, collect_facts, with_cluster_facts
        from kaput.run.existing_cluster import ExistingClusterProvider

        access = Access.read(self.command_config) if self.command_config else OPEN
        knock(self.servers, access)
        cluster = ExistingCluster(self.servers, access)
        cluster.refresh()
        with ExistingAdmin(cluster) as admin:
            topics = admin.ids(topic.name for topic in scenario.topics)
            kept = check_unused(scenario, topics, admin.every_group(), self.use_topics)
            found = collect_facts(cluster, admin)
            true = with_cluster_facts(scenario, found, kept)
        return ExistingClusterProvider(cluster, found, kept), true


def cleanup_command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="The folder of a run with --bootstrap-servers.")
    ],
) -> int:
    """Undo what a run that was killed has left in a cluster: heals what it broke, deletes what it made.

    Nothing is deleted but the very topics and groups that the run made. Exit status 4: something is left.

    Example: kaput cleanup runs/20261122T171500-my-scenario-0b6f2a
    """
    from contextlib import nullcontext

    from kaput.errors import LabError
    from kaput.evidence.recording import hold_alone, left_behind
    from kaput.run.cleanup import clean_up_folder

    # Whoever records still needs what there is.
    with hold_alone(run, "kaput cleanup") if left_behind(run) else nullcontext():
        said = clean_up_folder(run)
    for text in said:
        typer.echo(text, err=True)
    if not said:
        typer.echo("nothing of it is left")
    return LabError.exit_status if said else 0
