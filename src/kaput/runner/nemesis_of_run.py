"""Creates the nemesis of a run: its own, unless it shares its cluster (trials/shared_faults.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kaput.evidence.recorder import Recorder
from kaput.faults.event_triggers import EventSource
from kaput.faults.members.member import Clients
from kaput.faults.nemesis import FaultRows, Nemesis, OnFault
from kaput.faults.witness import Witness
from kaput.runner.sites import Sites
from kaput.scenario.timeline import Step
from kaput.stores.running import RunningStores


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

    def heal_now(self) -> list[str]:
        """Heals every active fault early; returns their ids. Raises LabError."""

    def abort(self) -> None:
        """Injects no more faults; returns when all steps have ended."""


@dataclass(frozen=True)
class FaultsOfRun:
    """A run's timeline and what the nemesis acts on. `rows` and `frames` write tables of the run; `on_fault`
    is called when a step begins and ends, `witness` before it; `sources` report events that steps wait for.
    """

    steps: Sequence[Step]
    sites: Sites
    rows: FaultRows
    frames: Recorder
    on_fault: OnFault
    witness: Witness
    groups: Callable[[], Clients]
    stores: RunningStores
    sources: Sequence[EventSource]


NemesisOfRun = Callable[[FaultsOfRun], RunNemesis]


def nemesis_of_run(faults: FaultsOfRun) -> Nemesis:
    """A nemesis for the clusters of the run."""
    sites = faults.sites
    first = sites.first
    return Nemesis(
        faults.steps,
        sites.nodes,
        sites.network,
        first.cluster.broker_ids(),
        first.admin,
        first.topics,
        faults.rows,
        faults.on_fault,
        witness=faults.witness,
        groups=faults.groups,
        grow=first.cluster.grow,
        upgrade=sites.upgrade,
        commands=first.cluster.commands,
        store=faults.stores.target,
        parts=sites.parts(),
        frames=faults.frames,
        sources=faults.sources,
    )
