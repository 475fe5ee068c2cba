"""What the steps of a plan act on: the clusters, mirrors, clients and faults of a run.

Created by plan_of_run.py, used by plan_steps.py. Not here: when steps begin, and their rows (plan.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin, requests
from kaput.cluster.existing import addresses
from kaput.cluster.node import Node
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.scenario.checks.plan import movable
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario
from kaput.scenario.several import source_and_target
from kaput.workload.moving import Destination, Hold
from kaput.workload.supervision.supervisor import Moved

_ANSWER_S = 1.0
_POLL_S = 0.1


class PlanMirrors(Protocol):
    """The mirrors of a run, by name (`dc1->dc2`)."""

    def mirror(self, name: str) -> Mirror:
        """The scenario's mirror. Raises LabError if there is no mirror of that name."""

    def start(self, name: str) -> None:
        """Raises LabError."""

    def await_ready(self) -> None:
        """Waits until every started mirror mirrors. Raises LabError."""

    def stop(self, name: str, patience_s: float) -> None:
        """Stops it for good; kills it after the timeout. Raises LabError."""

    def set_start_offsets(self, name: str, ends: Mapping[TopicPartition, int]) -> None:
        """Before its first start: copies from these offsets of the source on."""

    def copied(self, name: str, wait_s: float) -> list[str]:
        """Waits until the target has everything the source has now; sentences about what is missing."""


class PlanClients(Protocol):
    """The clients of a run: the supervisor."""

    def hold_producers(self, numbers: Collection[int] | None = None, hold: Hold | None = None) -> Moved: ...

    def move_producers(self, to: Destination, numbers: Collection[int] | None = None) -> Moved: ...

    def hold_groups(self, groups: Collection[str] | None = None, hold: Hold | None = None) -> Moved: ...

    def move_groups(self, to: Destination, groups: Collection[str] | None = None) -> Moved: ...

    def cluster_of_producer(self, number: int) -> str | None: ...

    def cluster_of_group(self, group: str) -> str | None: ...

    def count(self, name: str) -> int: ...


@dataclass(frozen=True)
class PlanCluster:
    """One of the clusters."""

    name: str
    bootstrap_servers: str
    admin: Admin
    access: Access
    nodes: Mapping[int, Node]

    @property
    def destination(self) -> Destination:
        """For clients that move there."""
        path = self.access.path
        return Destination(self.name, self.bootstrap_servers, None if path is None else str(path))

    def answers(self) -> bool:
        """Whether any broker answers a client."""
        return self.why_unreachable() is None

    def why_unreachable(self) -> str | None:
        """Why the last broker that was tried did not answer; None if one did."""
        why = "it has no brokers"
        for address in addresses(self.bootstrap_servers):
            try:
                ask(Endpoint(*address, self.access), requests.metadata(), _ANSWER_S)
            except Unanswered as error:
                why = str(error)
            else:
                return None
        return why


@dataclass
class PlanWorld:
    """Everything steps act on. `heal` ends active faults and returns their ids; `aborted` is set when the run
    ends early.
    """

    scenario: Scenario
    clusters: Mapping[str, PlanCluster]
    mirrors: PlanMirrors
    clients: PlanClients
    heal: Callable[[], Sequence[str]]
    rows: Recorder  # of the table `mirror`
    aborted: threading.Event = field(default_factory=threading.Event)
    held: set[int] = field(default_factory=set)  # producers that are stopped
    # By cluster, its end offsets when clients first moved there.
    switched_at: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def cluster(self, name: str | None) -> PlanCluster:
        """The cluster of that name; if None, the one that the plan moves clients from. Raises LabError."""
        source, _ = source_and_target(self.scenario) or (next(iter(self.clusters)), None)
        found = self.clusters.get(name or source)
        if found is None:
            raise LabError(f"there is no cluster {name}")
        return found

    def producers_at(
        self, cluster: str | None = None, *, but: str | None = None, among: Collection[int] | None = None
    ) -> list[int]:
        """The movable producers that send to that cluster, or to any but one."""
        found = []
        for number, block in enumerate(self.scenario.producer_specs()):
            now = self.clients.cluster_of_producer(number) or block.cluster
            asked = among is None or number in among
            if asked and movable(block) is None and now != but and cluster in (None, now):
                found.append(number)
        return found

    def producer_place(self, number: int) -> str:
        """The cluster a producer sends to, or sent to last."""
        block = self.scenario.producer_specs()[number]
        return self.clients.cluster_of_producer(number) or block.cluster or next(iter(self.clusters))

    def group_place(self, group: str) -> str:
        """The cluster a group reads from."""
        block = self.scenario.group(group)
        here = block.cluster if block is not None else None
        return self.clients.cluster_of_group(group) or here or next(iter(self.clusters))

    def ends(self, cluster: str) -> dict[TopicPartition, int]:
        """The end offsets of the cluster's partitions. Raises LabError if it does not answer."""
        admin = self.cluster(cluster).admin
        return admin.log_end_offsets(list(admin.partitions(self.scenario.topic_names(cluster))))

    def note_switch(self, cluster: str) -> None:
        """Records that cluster's end offsets, the first time clients move to it."""
        if cluster not in self.switched_at:
            self.switched_at[cluster] = self.ends(cluster)

    def wait(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Waits for the condition; returns whether it came true before the timeout or the run's end."""
        limit = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() >= limit or self.aborted.wait(_POLL_S):
                return False
        return True
