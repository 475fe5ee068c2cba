"""Creates the run folder of a watch, or reopens one whose process was killed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kaput.cluster.admin.existing import ExistingAdmin
from kaput.cluster.existing import ExistingCluster
from kaput.errors import UsageError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.recording import Hold, hold_to_record
from kaput.evidence.unresolved import record_unresolved
from kaput.runner.cluster_facts import check_unused, collect_facts, with_cluster_facts
from kaput.runner.existing_cluster import ExistingClusterProvider
from kaput.runner.folder_setup import open_folder
from kaput.scenario.loader import read_resolved
from kaput.scenario.model import Scenario
from kaput.watch.canary import scenario_of

NAME = "watch"
_PRODUCER = re.compile(r"producer-(\d+)\b")
_MEMBER = re.compile(r"-m(\d+)\.")


class WatchFolder(NamedTuple):
    """The run folder of a watch that is being recorded. `first`: the numbers of the next producer and member;
    `again`: whether it was reopened.
    """

    folder: RunFolder
    manifest: Manifest
    hold: Hold
    scenario: Scenario
    provider: ExistingClusterProvider
    first: tuple[int, int]
    again: bool


def make_folder(cluster: ExistingCluster, runs: Path, rate: float) -> WatchFolder:
    """Creates a run folder. Raises UsageError, LabError if the cluster does not respond."""
    name = f"kaput-canary-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    scenario = scenario_of(name, f"{name}-reader", sorted(cluster.broker_endpoints), rate)
    with ExistingAdmin(cluster) as admin:
        check_unused(scenario, admin.ids([name]), admin.every_group(), may_use=False)
        facts = collect_facts(cluster, admin)
    provider, scenario = ExistingClusterProvider(cluster, facts), with_cluster_facts(scenario, facts)
    folder, manifest, hold = open_folder(runs, NAME, scenario, 0, provider.versions)
    return WatchFolder(folder, manifest, hold, scenario, provider, (0, 1), again=False)


def reopen_folder(cluster: ExistingCluster, path: Path, note: Callable[[str], Any]) -> WatchFolder:
    """Reopens the run folder of a killed watch. Messages in flight are recorded with unknown outcome.

    Raises UsageError, LabError if the cluster does not respond.
    """
    folder = RunFolder(path.resolve())
    manifest = folder.read_manifest()
    if manifest.scenario != NAME or not (path / NAME).is_dir():
        raise UsageError(f"{path}: not the run folder of a watch")
    if manifest.state != "recording":
        raise UsageError(f"{path}: this watch has ended; start another one")
    hold = hold_to_record(folder.path, "kaput watch")
    unknown = record_unresolved(folder)
    if unknown:
        note(f"{unknown:,} messages were in flight when the watch was killed: their outcome is unknown")
    with ExistingAdmin(cluster) as admin:
        facts = collect_facts(cluster, admin)
    provider = ExistingClusterProvider(cluster, facts)
    scenario = read_resolved(folder.scenario_path)
    return WatchFolder(folder, manifest, hold, scenario, provider, _next_numbers(folder), again=True)


def _next_numbers(folder: RunFolder) -> tuple[int, int]:
    """The first unused numbers of producers and members."""
    sends = (_PRODUCER.match(path.name) for path in folder.table("sends").iterdir())
    members = (_MEMBER.search(path.name) for path in folder.table("group_events").iterdir())
    first = max((int(found[1]) for found in sends if found), default=-1) + 1
    return first, max((int(found[1]) for found in members if found), default=0) + 1
