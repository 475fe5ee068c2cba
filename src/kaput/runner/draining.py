"""The drain of a run: mirrors and groups catch up, then every cluster's log is read to its end.

Runs after the last heal and the replay. Reading one cluster's log: workload/drain.py; whether a mirror has
caught up: mirrors/drain.py.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from kaput.cluster.kafka_cluster import CollectedEvents
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import GroupDrain, Manifest, MirrorEnd, RunFolder
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import whole_batches
from kaput.runner.mirrors.drain import await_mirrored, record_mirrored
from kaput.runner.progress import Progress
from kaput.runner.run_cluster import RunCluster, RunClusters
from kaput.scenario.groups import DEAD_LETTERS
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Group, Scenario, pipes
from kaput.workload.drain import DeadLetters, LogReader, await_groups, await_settled
from kaput.workload.supervision.supervisor import Supervisor

_DEAD_LETTERS_S = 15.0  # until a dead letter is written
_LEAST_S = 5.0  # partitions that did not settle still get some time: they are read as far as possible


class RunDrain:
    """One drain. After it, `events` (of each cluster), `mirrors`, `troubles`, `notes` and `last_mirrors`
    (those still running when it began) are its results.
    """

    def __init__(
        self,
        folder: RunFolder,
        manifest: Manifest,
        scenario: Scenario,
        clusters: RunClusters,
        supervisor: Supervisor,
    ) -> None:
        self._folder, self._run_id, self._scenario = folder, manifest.run_id, scenario
        self._clusters, self._supervisor = clusters, supervisor
        self._timeout_s = scenario.workload.drain.timeout / 1000
        self.events: list[tuple[RunCluster, CollectedEvents]] = []
        self.mirrors: list[MirrorEnd] = []
        self.last_mirrors: list[Mirror] = []
        self.troubles: list[str] = []
        self.notes: list[str] = []

    def run(self, progress: Progress) -> list[GroupDrain]:
        """Drains everything within the time limit, then stops all members."""
        limit = time.monotonic() + self._timeout_s
        drained = self._drain_pipes(limit)
        self._drain_mirrors(limit)
        for cluster in self._clusters:
            drained |= self._drain_cluster(cluster, drained, limit, progress)
        self._supervisor.stop_members()
        isolations = {group.id: group.isolation for group in self._scenario.workload.groups}
        return [GroupDrain(group=g, drained=done, isolation=isolations[g]) for g, done in drained.items()]

    def _drain_cluster(
        self, cluster: RunCluster, processed: dict[str, bool], limit: float, progress: Progress
    ) -> dict[str, bool]:
        """Reads the cluster's log; returns whether each of its groups has read everything."""
        transactional = self._scenario.transactional
        rest = await_settled(cluster.admin, self._existing_topics(cluster), _left_s(limit), transactional)
        self.troubles += [cluster.prefixed(text) for text in rest.unsettled]
        reader = LogReader(
            self._folder,
            self._run_id,
            cluster.kafka.bootstrap_servers,
            transactional,
            cluster.kafka.access(),
            starts=cluster.start_offsets(),
            cluster=cluster.column,
        )
        with ThreadPoolExecutor(max_workers=1) as pool:
            # While the log is read, most of which is waiting.
            events = pool.submit(cluster.events)
            began = time.monotonic()
            ends = dict.fromkeys(self._deleted(cluster), 0) | rest.ends
            unread = reader.read(ends, _left_s(limit), progress.drained)
            took_s = time.monotonic() - began
            readers = [group for group in self._groups_at(cluster) if group.id not in processed]
            drained = self._await_groups(cluster, readers, reader.readable_ends, _left_s(limit))
            # A group that was still reading may have lost its position to retention meanwhile.
            if readers and reader.is_outdated(_log_starts(cluster, rest.ends)):
                again_s = max(_left_s(limit), 2 * took_s)
                unread = reader.read(ends, again_s, progress.drained)
            self.troubles += [cluster.prefixed(text) for text in unread]
            self.notes += [cluster.prefixed(f"{text}.") for text in reader.removed()]
            for group in self._groups_at(cluster):
                if DEAD_LETTERS in group.group_config:
                    self.notes.append(cluster.prefixed(self._dead_letters(cluster, reader, group)))
            self.events.append((cluster, events.result()))
            self.troubles += events.result().troubles
        return drained

    def _groups_at(self, cluster: RunCluster) -> list[Group]:
        """The groups that finally read from that cluster: some may have been moved."""
        moved = self._supervisor.cluster_of_group
        groups = self._scenario.workload.groups
        return [group for group in groups if (moved(group.id) or group.cluster) == cluster.column]

    def _existing_topics(self, cluster: RunCluster) -> list[str]:
        """The run's topics that exist in that cluster: a mirror that never ran has created none, and a step
        may have deleted one.
        """
        made = [topic for topic in self._scenario.topics if topic.cluster == cluster.column]
        if deleted := {place.topic for place in self._deleted(cluster)}:
            made = [topic for topic in made if topic.name not in deleted]
        elif len(made) == len(cluster.topics):
            return cluster.topics
        known = set(cluster.admin.topics()) | {topic.name for topic in made}
        return [topic for topic in cluster.topics if topic in known]

    def _deleted(self, cluster: RunCluster) -> list[TopicPartition]:
        """The partitions of topics that steps delete for good: those that are not there have nothing."""
        deleted = self._scenario.deleted_topics(cluster.column)
        return [TopicPartition(topic.name, p) for topic in deleted for p in range(topic.partitions)]

    def _drain_mirrors(self, limit: float) -> None:
        """Waits for every running mirror, then stops them all, so that the logs no longer grow."""
        if not self._scenario.mirrors:
            return
        self.last_mirrors = running = self._clusters.mirrors.running()
        full = self._clusters.mirrors.drained - {mirror.name for mirror in running}
        with Recorder(self._folder.path, "mirror", "drain") as recorder:
            for mirror in running:
                source, target = self._clusters.of(mirror.from_), self._clusters.of(mirror.to)
                deleted = self._scenario.deleted_topics(mirror.from_)
                progress = await_mirrored(mirror, source, target, _left_s(limit) / 2, deleted)
                self.troubles += [each for each in progress if isinstance(each, str)]
                if record_mirrored(recorder, mirror, progress):
                    full.add(mirror.name)
        self._clusters.mirrors.finish()
        self.mirrors = [
            MirrorEnd.model_validate(
                {"mirror": each.name, "from": each.from_, "to": each.to, "drained": each.name in full}
            )
            for each in self._scenario.mirrors
        ]

    def _drain_pipes(self, limit: float) -> dict[str, bool]:
        """Whether each pipe has processed all its input; stops its members, so that they write no more."""
        drained: dict[str, bool] = {}
        for cluster in self._clusters:
            made = pipes(cluster.scenario)
            inputs = sorted({topic for group in made for topic in group.topics})
            ends = await_settled(cluster.admin, inputs, limit - time.monotonic()).ends if made else {}
            drained |= self._await_groups(cluster, made, partial(_same_ends, ends), _left_s(limit))
            self._supervisor.stop_members([group.id for group in made])
        return drained

    def _await_groups(
        self,
        cluster: RunCluster,
        groups: Sequence[Group],
        ends: Callable[[Group], dict[TopicPartition, int]],
        timeout_s: float,
    ) -> dict[str, bool]:
        """Whether each group has read everything; does not wait for a group without members."""
        left = [group for group in groups if self._supervisor.has_members(group.id)]
        self.troubles += [f"group {group.id} has no member left" for group in groups if group not in left]
        drained = await_groups(cluster.admin, left, ends, timeout_s)
        return {group.id: drained.get(group.id, False) for group in groups}

    def _dead_letters(self, cluster: RunCluster, reader: LogReader, group: Group) -> str:
        """What the dead-letter topic of a share group has, as a sentence. Brokers write to it some time after
        they have confirmed the rejection, and give up without an error if they cannot.
        """
        topic, limit = str(group.group_config[DEAD_LETTERS]), time.monotonic() + _DEAD_LETTERS_S
        rejected = _rejected(self._folder, group.id)
        letters: DeadLetters = Counter()
        while not rejected <= letters.keys() and time.monotonic() < limit:
            time.sleep(0.1)
            if topic in cluster.admin.topics():
                ends = cluster.admin.high_watermarks(cluster.admin.partitions([topic]))
                letters = reader.dead_letters(group.id, ends, _LEAST_S)
        there = len(rejected & letters.keys())
        text = (
            f"Group {group.id}: {topic} has {there:,} of the {len(rejected):,} records that members rejected"
        )
        if others := len(letters) - there:
            text += f", and of {others:,} more, delivered too often or rejected without a confirmation"
        twice = sum(count > 1 for count in letters.values())
        return text + (f"; {twice:,} are there more than once." if twice else ".")


def _rejected(folder: RunFolder, group: str) -> set[tuple[TopicPartition, int]]:
    """The records of which a broker confirmed that members of this group had rejected them."""
    found = set()
    for path in folder.table("share_events").glob("*.arrows"):
        for batch in whole_batches(TABLES["share_events"], path, []):
            rows = pa.Table.from_batches([batch]).filter(
                (pc.field("kind") == "rejected") & (pc.field("group") == group)
            )
            columns = (rows[name].to_pylist() for name in ("topic", "partition", "offset"))
            found |= {
                (TopicPartition(topic, number), offset)
                for topic, number, offset in zip(*columns, strict=True)
            }
    return found


def _same_ends(ends: dict[TopicPartition, int], _group: Group) -> dict[TopicPartition, int]:
    return ends


def _log_starts(cluster: RunCluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the logs begin now; none if a leader does not answer."""
    with suppress(LabError):
        return cluster.admin.log_start_offsets(places)
    return {}


def _left_s(limit: float) -> float:
    return max(_LEAST_S, limit - time.monotonic())
