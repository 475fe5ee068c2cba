"""The drain of a run: mirrors and groups catch up, then every cluster's log is read to its end.

Runs after the last heal and the replay. Reading one cluster's log: workload/drain.py; whether a mirror has
caught up: mirror_drain.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kaput.cluster.events import Collected
from kaput.core import TopicPartition
from kaput.evidence.folder import GroupDrain, Manifest, MirrorEnd, RunFolder
from kaput.evidence.recorder import Recorder
from kaput.runner.mirror_drain import await_mirrored, record_mirrored
from kaput.runner.progress import Progress
from kaput.runner.sites import Site, Sites
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Group, Scenario
from kaput.scenario.pipes import pipes
from kaput.workload.drain import LogReader, await_groups, await_settled
from kaput.workload.supervision.supervisor import Supervisor

_LEAST_S = 5.0  # partitions that did not settle still get some time: they are read as far as possible


class Drain:
    """One drain. After it, `events` (of each cluster), `mirrors`, `troubles`, `notes` and `last_mirrors`
    (those still running when it began) are its results.
    """

    def __init__(
        self, folder: RunFolder, manifest: Manifest, scenario: Scenario, sites: Sites, supervisor: Supervisor
    ) -> None:
        self._folder, self._run_id, self._scenario = folder, manifest.run_id, scenario
        self._sites, self._supervisor = sites, supervisor
        self._timeout_s = scenario.workload.drain.timeout / 1000
        self.events: list[tuple[Site, Collected]] = []
        self.mirrors: list[MirrorEnd] = []
        self.last_mirrors: list[Mirror] = []
        self.troubles: list[str] = []
        self.notes: list[str] = []

    def run(self, progress: Progress) -> list[GroupDrain]:
        """Drains everything within the time limit, then stops all members."""
        limit = time.monotonic() + self._timeout_s
        drained = self._drain_pipes(limit)
        self._drain_mirrors(limit)
        for site in self._sites:
            drained |= self._drain_cluster(site, drained, limit, progress)
        self._supervisor.stop_members()
        isolations = {group.id: group.isolation for group in self._scenario.workload.groups}
        return [GroupDrain(group=g, drained=done, isolation=isolations[g]) for g, done in drained.items()]

    def _drain_cluster(
        self, site: Site, processed: dict[str, bool], limit: float, progress: Progress
    ) -> dict[str, bool]:
        """Reads the cluster's log; returns whether each of its groups has read everything."""
        transactional = self._scenario.transactional
        rest = await_settled(site.admin, self._existing_topics(site), _left_s(limit), transactional)
        self.troubles += [_prefixed(site, text) for text in rest.unsettled]
        reader = LogReader(
            self._folder,
            self._run_id,
            site.cluster.bootstrap_servers,
            transactional,
            site.cluster.access(),
            starts=site.cluster.start_offsets(),
            cluster=site.column,
        )
        with ThreadPoolExecutor(max_workers=1) as pool:
            # Kafka's dump tool is a separate process: it works while the log is read.
            events = pool.submit(site.cluster.events)
            unread = reader.read(rest.ends, _left_s(limit), progress.drained)
            self.troubles += [_prefixed(site, text) for text in unread]
            self.notes += [_prefixed(site, f"{text}.") for text in reader.removed()]
            readers = [group for group in self._groups_at(site) if group.id not in processed]
            drained = self._await_groups(site, readers, reader.readable_ends, _left_s(limit))
            self.events.append((site, events.result()))
            self.troubles += events.result().troubles
        return drained

    def _groups_at(self, site: Site) -> list[Group]:
        """The groups that finally read from that cluster: some may have been moved."""
        moved = self._supervisor.cluster_of_group
        groups = self._scenario.workload.groups
        return [group for group in groups if (moved(group.id) or group.cluster) == site.column]

    def _existing_topics(self, site: Site) -> list[str]:
        """The run's topics that exist in that cluster: a mirror that never ran has created none."""
        made = [topic for topic in self._scenario.topics if topic.cluster == site.column]
        if len(made) == len(site.topics):
            return site.topics
        known = set(site.admin.topics()) | {topic.name for topic in made}
        return [topic for topic in site.topics if topic in known]

    def _drain_mirrors(self, limit: float) -> None:
        """Waits for every running mirror, then stops them all, so that the logs no longer grow."""
        if not self._scenario.mirrors:
            return
        self.last_mirrors = running = self._sites.mirrors.running()
        full = self._sites.mirrors.drained - {mirror.name for mirror in running}
        with Recorder(self._folder.path, "mirror", "drain") as recorder:
            for mirror in running:
                source, target = self._sites.of(mirror.from_), self._sites.of(mirror.to)
                found = await_mirrored(mirror, source, target, _left_s(limit) / 2)
                self.troubles += [each for each in found if isinstance(each, str)]
                if record_mirrored(recorder, mirror, found):
                    full.add(mirror.name)
        self._sites.mirrors.finish()
        self.mirrors = [
            MirrorEnd.model_validate(
                {"mirror": each.name, "from": each.from_, "to": each.to, "drained": each.name in full}
            )
            for each in self._scenario.mirrors
        ]

    def _drain_pipes(self, limit: float) -> dict[str, bool]:
        """Returns whether each pipe has processed all its input; then stops its members, so that they write
        no more.
        """
        drained: dict[str, bool] = {}
        for site in self._sites:
            made = pipes(site.scenario)
            inputs = sorted({topic for group in made for topic in group.topics})
            ends = await_settled(site.admin, inputs, limit - time.monotonic()).ends if made else {}
            drained |= self._await_groups(site, made, partial(_same_ends, ends), _left_s(limit))
            self._supervisor.stop_members([group.id for group in made])
        return drained

    def _await_groups(
        self,
        site: Site,
        groups: Sequence[Group],
        ends: Callable[[Group], dict[TopicPartition, int]],
        timeout_s: float,
    ) -> dict[str, bool]:
        """Whether each group has read everything; does not wait for a group without members."""
        left = [group for group in groups if self._supervisor.has_members(group.id)]
        self.troubles += [f"group {group.id} has no member left" for group in groups if group not in left]
        drained = await_groups(site.admin, left, ends, timeout_s)
        return {group.id: drained.get(group.id, False) for group in groups}


def _same_ends(ends: dict[TopicPartition, int], _group: Group) -> dict[TopicPartition, int]:
    """The same end offsets for every group."""
    return ends


def _left_s(limit: float) -> float:
    return max(_LEAST_S, limit - time.monotonic())


def _prefixed(site: Site, text: str) -> str:
    """The text, prefixed with the cluster's name if there are several."""
    return text if site.column is None else f"{site.name}: {text}"
