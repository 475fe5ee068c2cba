"""Starts a run's samplers: leaders always, CPU time of its own nodes, last stable offsets with transactions,
lag with groups, and a watch for each mirror.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from kaput.cluster.mirrors.records import checkpoints_topic, offset_syncs_topic
from kaput.evidence.recorder import Recorder
from kaput.runner.cpu_sampler import CpuSampler
from kaput.runner.lag_sampler import LagSampler
from kaput.runner.leader_sampler import LeaderSampler
from kaput.runner.mirror_tails import TopicTail
from kaput.runner.mirror_watch import MirrorWatch, WatchedCluster
from kaput.runner.sampling import SAMPLE_S
from kaput.runner.sites import Site, Sites
from kaput.runner.stable_offset_sampler import StableSampler
from kaput.scenario.model import Scenario


def start_samplers(stack: ExitStack, sites: Sites, scenario: Scenario, folder: Path) -> None:
    """Starts the samplers of every cluster and mirror; `stack` stops them."""
    for site in sites:
        _sample_cluster(stack, site, folder, scenario.transactional)
    for mirror in scenario.mirrors:
        recorder = Recorder(folder, "mirror", f"watch-{mirror.from_}-{mirror.to}")
        source = _watched_cluster(stack, sites.of(mirror.from_), offset_syncs_topic(mirror.to))
        target = _watched_cluster(stack, sites.of(mirror.to), checkpoints_topic(mirror.from_))
        stack.enter_context(MirrorWatch(mirror, source, target, stack.enter_context(recorder)))


def _watched_cluster(stack: ExitStack, site: Site, topic: str) -> WatchedCluster:
    cluster = site.cluster
    admin = stack.enter_context(cluster.admin(SAMPLE_S))
    return WatchedCluster(admin, TopicTail(cluster.bootstrap_servers, cluster.access(), topic))


def _sample_cluster(stack: ExitStack, site: Site, folder: Path, transactional: bool) -> None:
    scenario = site.scenario
    # The run's own admin waits for answers; a sample does not.
    admin = stack.enter_context(site.cluster.admin(SAMPLE_S))

    def recorder(writer: str) -> Recorder:
        return stack.enter_context(Recorder(folder, "samples", site.writer(writer), site.column))

    if topics := [topic.name for topic in scenario.topics]:
        stack.enter_context(LeaderSampler(admin, topics, recorder("leaders")))
    if site.cluster.nodes:
        stack.enter_context(CpuSampler(site.cluster.nodes, recorder("cpu")))
    if transactional:
        stack.enter_context(StableSampler(admin, topics, recorder("stable")))
    # A share group has no committed offsets: records are acknowledged individually.
    reading = [group for group in scenario.workload.groups if group.type != "share"]
    if reading:
        groups = {group.id: list(group.topics) for group in reading}
        stack.enter_context(LagSampler(admin, groups, recorder("lag")))
