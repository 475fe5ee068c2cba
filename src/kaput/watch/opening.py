"""Creates the run folder of a watch, or reopens one whose process was killed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kaput.cluster.admin import Admin
from kaput.cluster.existing_cluster import ExistingCluster
from kaput.errors import UsageError
from kaput.evidence.folder import Manifest, RunFolder
from kaput.evidence.recording import Hold, hold_to_record
from kaput.evidence.unresolved import record_unresolved
from kaput.runner.cluster_facts import check_unused, collect_facts, with_cluster_facts
from kaput.runner.existing_cluster import ExistingClusters
from kaput.runner.folder_setup import open_folder
from kaput.scenario.loader import read_resolved
from kaput.scenario.model import Scenario
from kaput.watch.canary import scenario_of

NAME = "watch"
_PRODUCER = re.compile(r"^producer-(\d+)\b")
_SESSION = re.compile(r"^(?:watch|leaders)-(\d+)\.")
_MEMBER = re.compile(r"-m(\d+)\.")


class WatchFolder(NamedTuple):
    """The run folder of a watch that is being recorded. `first`: the numbers of the next producer and member;
    `session`: the number of this opening, unused so far; `again`: whether it was reopened.
    """

    folder: RunFolder
    manifest: Manifest
    hold: Hold
    scenario: Scenario
    provider: ExistingClusters
    first: tuple[int, int]
    session: int
    again: bool


def make_folder(cluster: ExistingCluster, runs: Path, rate: float) -> WatchFolder:
    """Creates a run folder. Raises UsageError, LabError if the cluster does not respond."""
    name = f"kaput-canary-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    scenario = scenario_of(name, f"{name}-reader", sorted(cluster.broker_endpoints), rate)
    with Admin(cluster) as admin:
        check_unused(scenario, admin.ids([name]), admin.every_group(), may_use=False)
        facts = collect_facts(cluster, admin)
    provider, scenario = ExistingClusters(cluster, facts), with_cluster_facts(scenario, facts)
    folder, manifest, hold = open_folder(runs, NAME, scenario, 0, provider.versions)
    return WatchFolder(folder, manifest, hold, scenario, provider, (0, 1), 0, again=False)


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
    with Admin(cluster) as admin:
        facts = collect_facts(cluster, admin)
    provider = ExistingClusters(cluster, facts)
    scenario = read_resolved(folder.scenario_path)
    producer, member, session = next_numbers(folder)
    return WatchFolder(folder, manifest, hold, scenario, provider, (producer, member), session, again=True)


def next_numbers(folder: RunFolder) -> tuple[int, int, int]:
    """The first unused numbers of producers, members and sessions.

    Independent of each other: a session may have been killed before a client had written anything.
    """
    producer = _unused(folder, _PRODUCER, "sends", first=0)
    member = _unused(folder, _MEMBER, "group_events", "deliveries", first=1)
    return producer, member, _unused(folder, _SESSION, "cluster_events", "samples", first=0)


def _unused(folder: RunFolder, name: re.Pattern[str], *tables: str, first: int) -> int:
    """The first number that no file of these tables has in its name."""
    paths = (path for table in tables for path in folder.table(table).glob("*"))
    return max((int(found[1]) + 1 for path in paths if (found := name.search(path.name))), default=first)
