"""Creates the nemesis of a run: its own, unless it shares its cluster (trials/shared_faults.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kaput.evidence.recorder import Recorder
from kaput.faults.engine import OnFault, OnRecord, Witness, into
from kaput.faults.event_triggers import EventSource
from kaput.faults.fault import FrameLog
from kaput.faults.nemesis import Nemesis
from kaput.faults.resolving import Surroundings
from kaput.runner.run_cluster import RunClusters
from kaput.scenario.timeline import Step
from kaput.stores.running import RunningStores
from kaput.workload.supervision.supervisor import Supervisor


class RunNemesis(Protocol):
    """What experiment.py needs of a nemesis; see faults/nemesis.py."""

    @property
    def thresholds(self) -> list[int]:
        """The counts of attempts, over all producers, at which producers must signal."""

    def threshold(self, n: int) -> None:
        """Called at the N-th attempt."""

    def start(self) -> None:
        """Starts the timeline, after the warm-up."""

    def workload_over(self) -> None:
        """Called when every attempt is made."""

    def all_healed(self) -> bool:
        """Whether every step has ended."""

    def has_acted(self, step: str) -> bool:
        """Whether the effect of this step has begun."""

    def heal_now(self) -> list[str]:
        """Heals every active fault early; returns their ids. Raises LabError."""

    def abort(self) -> None:
        """Injects no more faults; returns when all steps have ended."""


@dataclass(frozen=True)
class FaultsOfRun:
    """A run's timeline and what the nemesis acts on. `rows` and `frames` write tables of the run; the
    others are as for faults/engine.py; `sources` report events that steps wait for.
    """

    steps: Sequence[Step]
    clusters: RunClusters
    rows: Recorder
    frames: Recorder
    on_fault: OnFault
    witness: Witness
    groups: Callable[[], Supervisor]
    stores: RunningStores
    sources: Sequence[EventSource]


NemesisOfRun = Callable[[FaultsOfRun], RunNemesis]


def nemesis_of_run(faults: FaultsOfRun, on_record: OnRecord | None = None) -> Nemesis:
    """A nemesis for the clusters of the run. `on_record`: instead of writing the run's table."""
    clusters, first = faults.clusters, faults.clusters.first
    brokers = first.kafka.broker_ids()
    surroundings = Surroundings(
        nodes=clusters.nodes,
        network=clusters.network,
        brokers=lambda: brokers,
        admin=first.admin,
        topics=first.topics,
        parts=clusters.parts(),
        groups=faults.groups,
        grow=first.kafka.grow,
        upgrade=clusters.upgrade,
        commands=first.commands,
        store=faults.stores.target,
        frames=FrameLog(faults.frames),
    )
    return Nemesis(
        faults.steps,
        surroundings,
        on_record=on_record or into(faults.rows),
        on_fault=faults.on_fault,
        witness=faults.witness,
        sources=faults.sources,
    )
