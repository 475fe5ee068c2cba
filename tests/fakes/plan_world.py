"""Clusters, mirrors and clients as a plan uses them, without a process: what they are asked to do is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaput.cluster.existing_cluster import ExistingCluster
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.runner.plan.world import PlanWorld
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Scenario
from kaput.workload.moving import Destination, Hold
from kaput.workload.supervision.supervisor import Moved


@dataclass
class FakeAdmin:
    """A cluster with one topic of two partitions, which grows with each look; or that does not answer."""

    committed_at: dict[TopicPartition, int] = field(default_factory=dict)
    end: int = 100

    def partitions(self, topics: Collection[str]) -> dict[TopicPartition, object]:
        return {TopicPartition(topic, number): object() for topic in topics for number in range(2)}

    def log_end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.end += 1
        return dict.fromkeys(places, self.end)

    def log_start_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first ones are gone."""
        return dict.fromkeys(places, 3)

    def stable_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 90)

    def committed(self, _group: str) -> dict[TopicPartition, int]:
        return self.committed_at


class FakeCluster(RunCluster):
    """`silent`: no broker answers."""

    silent = False

    def why_unreachable(self) -> str | None:
        """What it would be without a network."""
        return "10.77.0.1:9092: timed out" if self.silent else None


@dataclass
class FakeClients:
    """`told`: what they were asked to do, in order. `late`: these do not answer in time. `mute`: producers
    that are not acknowledged anything after a move.
    """

    told: list[tuple[Any, ...]] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    given_up: int = 0
    stops_after_s: float = 1
    mute: frozenset[int] = frozenset()
    looks: int = 0
    places: dict[object, str] = field(default_factory=dict)

    def hold_producers(self, numbers: Collection[int] | None = None, hold: Hold | None = None) -> Moved:
        """Each gives up as many messages."""
        self.told.append(("hold", sorted(numbers or ())))
        report = {"began_ns": 0, "at_ns": self.stops_after_s * 1e9, "next_seq": 5, "given_up": self.given_up}
        return Moved([report] * len(numbers or ()), self.late)

    def move_producers(self, to: Destination, numbers: Collection[int] | None = None) -> Moved:
        self.told.append(("move", sorted(numbers or ()), to.cluster))
        self.places.update(dict.fromkeys(numbers or (), to.cluster))
        moved: list[Mapping[str, Any]] = [{"producer": number, "acked": 10} for number in numbers or ()]
        return Moved(moved, self.late)

    def acked(self, producer: int) -> int:
        """Each look finds the next acknowledgement of the next producer; none of those that are `mute`."""
        self.looks += 1
        return 10 + (producer not in self.mute and self.looks > 2 * producer)

    def hold_groups(self, groups: Collection[str] | None = None, hold: Hold | None = None) -> Moved:
        """They had read ten of the first partition."""
        assert hold is not None
        self.told.append(("leave", sorted(groups or ()), hold.commit))
        return Moved([{"positions": [["orders", 0, 10]]}], [])

    def move_groups(self, to: Destination, groups: Collection[str] | None = None) -> Moved:
        """Two members tell where they begin; the first one that had a partition is right."""
        self.told.append(("join", sorted(groups or ()), to.cluster))
        self.places.update(dict.fromkeys(groups or (), to.cluster))
        began: list[Mapping[str, Any]] = [
            {"cluster": to.cluster, "at_ns": 2, "places": [["orders", 0, 9], ["orders", 1, 4]]},
            {"cluster": to.cluster, "at_ns": 1, "places": [["orders", 0, 7]]},
        ]
        return Moved([{}], self.late, began)

    def cluster_of_producer(self, number: int) -> str | None:
        return self.places.get(number)

    def cluster_of_group(self, group: str) -> str | None:
        return self.places.get(group)

    def count(self, name: str) -> int:
        return 0


@dataclass
class FakeMirrors:
    """`missing`: what it says that has not been copied."""

    scenario: Scenario
    told: list[tuple[Any, ...]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def mirror(self, name: str) -> Mirror:
        found = self.scenario.mirror(name)
        if found is None:
            raise LabError(f"there is no mirror {name}")
        return found

    def start(self, name: str) -> None:
        self.told.append(("start", name))

    def await_ready(self) -> None:
        """It is."""

    def stop(self, name: str, patience_s: float) -> None:
        if not name:
            raise LabError("there is no mirror")
        self.told.append(("stop", name, patience_s))

    def set_start_offsets(self, name: str, ends: Mapping[TopicPartition, int]) -> None:
        self.told.append(("begin", name, dict(ends)))

    def copied(self, name: str, wait_s: float) -> list[str]:
        return self.missing


def world_of(scenario: Scenario, folder: Path) -> tuple[PlanWorld, FakeClients, FakeMirrors]:
    clients, mirrors = FakeClients(), FakeMirrors(scenario)
    clusters = {name: FakeCluster(name, ExistingCluster(f"{name}:1"), scenario) for name in scenario.clusters}
    for cluster in clusters.values():
        cluster.admin = FakeAdmin()  # type: ignore[assignment]
    rows = Recorder(folder, "mirror", "plan")
    fakes: Any = (scenario, clusters, mirrors, clients, lambda: ["1-isolate"], rows)
    return PlanWorld(*fakes), clients, mirrors
