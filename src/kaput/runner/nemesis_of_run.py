"""What plays the faults of a run: its own nemesis, unless it shares its cluster (trials/shared_faults.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kaput.evidence.recorder import Recorder
from kaput.faults.members.member import Clients
from kaput.faults.nemesis import FaultRows, Nemesis, OnFault
from kaput.faults.witness import Witness
from kaput.runner.sites import Sites
from kaput.scenario.timeline import Step
from kaput.stores.running import RunningStores


class NemesisTables(NamedTuple):
    """The tables of a run that its nemesis writes."""

    faults: FaultRows
    frames: Recorder


class RunNemesis(Protocol):
    """What experiment.py needs of a nemesis; see faults/nemesis.py."""

    @property
    def thresholds(self) -> list[int]:
        """The attempts over all producers that the producers must signal."""

    def threshold(self, n: int) -> None:
        """Called when the N-th attempt was made."""

    def start(self) -> None:
        """Starts the timeline: the warm-up is over."""

    def workload_over(self) -> None:
        """Called when every attempt is made."""

    def all_healed(self) -> bool:
        """Whether every step has ended."""

    def heal_now(self) -> list[str]:
        """Heals every active fault before its time; their ids. Raises LabError."""

    def abort(self) -> None:
        """Injects nothing more; returns when all steps have ended."""


NemesisOfRun = Callable[
    [Sequence[Step], Sites, NemesisTables, OnFault, Witness, Callable[[], Clients], RunningStores], RunNemesis
]


def nemesis_of_run(
    steps: Sequence[Step],
    sites: Sites,
    tables: NemesisTables,
    on_fault: OnFault,
    witness: Witness,
    groups: Callable[[], Clients],
    stores: RunningStores,
) -> Nemesis:
    """One for the clusters of the run."""
    first = sites.first
    return Nemesis(
        steps,
        sites.nodes,
        sites.network,
        first.cluster.broker_ids(),
        first.admin,
        first.topics,
        tables.faults,
        on_fault,
        witness=witness,
        groups=groups,
        grow=first.cluster.grow,
        upgrade=sites.upgrade,
        commands=first.cluster.commands,
        store=stores.target,
        parts=sites.parts(),
        frames=tables.frames,
    )
