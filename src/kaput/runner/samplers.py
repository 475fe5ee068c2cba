"""Which samplers a run has: leaders always, stable offsets with transactions, lag with groups."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from kaput.evidence.recorder import Recorder
from kaput.runner.lag_sampler import LagSampler
from kaput.runner.leader_sampler import LeaderSampler
from kaput.runner.run_cluster import RunCluster
from kaput.runner.sampling import SAMPLE_S
from kaput.runner.stable_offset_sampler import StableSampler
from kaput.scenario.model import Scenario


def start_samplers(stack: ExitStack, cluster: RunCluster, scenario: Scenario, folder: Path) -> None:
    """Starts them; `stack` stops them."""
    # The run's own admin waits for answers; a sample does not.
    admin = stack.enter_context(cluster.admin(SAMPLE_S))

    def recorder(writer: str) -> Recorder:
        return stack.enter_context(Recorder(folder, "samples", writer))

    if topics := [topic.name for topic in scenario.topics]:
        stack.enter_context(LeaderSampler(admin, topics, recorder("leaders")))
    if scenario.transactional:
        stack.enter_context(StableSampler(admin, topics, recorder("stable")))
    # A share group has no committed offsets: its records are acknowledged one by one.
    reading = [group for group in scenario.workload.groups if group.type != "share"]
    if reading:
        groups = {group.id: list(group.topics) for group in reading}
        stack.enter_context(LagSampler(admin, groups, recorder("lag")))
