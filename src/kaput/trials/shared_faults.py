"""Faults that several runs on one cluster share: one nemesis plays them, and every run records them.

Faults on a run's own members, producers and topics are played by the run's own nemesis. batch.py passes
`SharedFaults.nemesis_of_run` to each experiment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from kaput.cluster.admin import Admin
from kaput.errors import LabError
from kaput.faults.nemesis import FaultRows, Nemesis, OnFault
from kaput.faults.targets import resolve
from kaput.faults.witness import Witness
from kaput.runner.nemesis_of_run import FaultsOfRun, nemesis_of_run
from kaput.runner.own_cluster import RunOnOwnCluster
from kaput.scenario.timeline import Step
from kaput.scenario.values import target_members, target_producer, target_topic
from kaput.trials.shared_cluster import SharedCluster

# Kinds of targets that contain names of a run, and so are resolved for each run.
_RESOLVED_PER_RUN = (
    "leader-of",
    "follower-of",
    "followers-of",
    "coordinator-of",
    "transaction-coordinator-of",
)
_HEALED = 6  # the index of healed_ns in a row of the faults table


def is_own(target: str) -> bool:
    """Whether a target belongs to one run: its members, its producers, its topics."""
    return bool(target_members(target) or target_producer(target) is not None or target_topic(target))


class SharedFaults:
    """Plays the `steps` that `size` runs share; each run records and observes them itself."""

    def __init__(
        self, steps: Sequence[Step], cluster: RunOnOwnCluster, admin: Admin, topics: Sequence[str], size: int
    ) -> None:
        self._steps = {step.id: step for step in steps}
        self._admin, self._brokers, self._size = admin, cluster.broker_ids, size
        self._participants: list[ParticipantNemesis] = []
        self._lock = threading.Lock()
        self._started = False
        self._over: set[int] = set()
        self._left: set[int] = set()
        self.unhealed: set[str] = set()  # steps whose faults may still be active
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="witness")
        self._nemesis = Nemesis(
            steps,
            cluster.nodes,
            cluster.network,
            cluster.broker_ids(),
            admin,
            topics,
            self,
            self._on_fault,
            witness=self,
            grow=cluster.grow,
            upgrade=cluster.upgrade,
        )

    def nemesis_of_run(self, cluster: SharedCluster, faults: FaultsOfRun) -> ParticipantNemesis:
        """The nemesis of the run with this view of the cluster."""
        rows = _LockedRows(_ObservedRows(faults.rows, self._note) if cluster.alone else faults.rows)
        own = [step for step in faults.steps if step.id not in self._steps]
        nemesis = nemesis_of_run(replace(faults, steps=own, rows=rows))
        by_id = {step.id: step for step in faults.steps}
        participant = ParticipantNemesis(self, cluster, by_id, nemesis, rows, faults.witness, faults.on_fault)
        with self._lock:
            self._participants.append(participant)
        return participant

    @property
    def thresholds(self) -> list[int]:
        """Numbers of attempts at which steps begin; see Nemesis."""
        return self._nemesis.thresholds

    def threshold(self, n: int) -> None:
        """Called when a run has made `n` attempts; only the first call has an effect."""
        self._nemesis.threshold(n)

    def start(self) -> None:
        """Starts the timeline; only the first call has an effect."""
        with self._lock:
            started, self._started = self._started, True
        if not started:
            self._nemesis.start()

    def workload_over(self, number: int) -> None:
        """Called when the load of a run is over. The shared load is over when that of all runs is, except
        those that left.
        """
        with self._lock:
            self._over.add(number)
            over = len(self._over | self._left) == self._size
        if over:
            self._nemesis.workload_over()

    def all_healed(self) -> bool:
        """Whether every shared fault has ended."""
        return self._nemesis.all_healed()

    def leave(self, number: int) -> None:
        """Called when a run no longer needs the faults; the last call ends them."""
        with self._lock:
            self._left.add(number)
            for participant in self._participants:
                if participant.cluster.number == number:
                    participant.rows.end()
            self._participants = [
                participant for participant in self._participants if participant.cluster.number != number
            ]
            none_left = len(self._left) == self._size
        self.workload_over(number)
        if none_left:
            self._nemesis.abort()
            self._pool.shutdown(wait=False)

    def row(self, *values: Any) -> None:
        """Writes a row of the faults table for every run; see FaultRows."""
        self._note(values)
        for participant in list(self._participants):
            participant.shared_row(self._steps[values[0]].target, *values)

    def _note(self, row: Sequence[Any]) -> None:
        step, brokers = row[0], row[3]
        with self._lock:
            # A fault that hit no node needs no heal.
            (self.unhealed.add if brokers and row[_HEALED] is None else self.unhealed.discard)(step)

    def flush(self) -> None:
        """Flushes the rows of every run; see FaultRows."""
        for participant in list(self._participants):
            participant.rows.flush()

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Checks for every run that its target resolves to these nodes, and calls its witness."""
        list(
            self._pool.map(
                lambda participant: self._before(participant, step, nodes), list(self._participants)
            )
        )

    def _before(self, participant: ParticipantNemesis, step: str, nodes: Sequence[int]) -> None:
        if participant.steps[step].target.split()[0] in _RESOLVED_PER_RUN:
            self._check(participant, step, nodes)
        participant.witness.before(step, nodes)

    def _check(self, participant: ParticipantNemesis, step: str, nodes: Sequence[int]) -> None:
        own = participant.steps[step]
        try:
            meant = resolve(own.target, self._admin, self._brokers(), own.seed, own.id_prefix)
        except LabError as error:
            unknown = f"it is not known whether {step} hit the target of this run: {error}"
            participant.cluster.misses.append(unknown)
        else:
            if meant != list(nodes):
                participant.cluster.misses.append(
                    f"{step} hit broker {_listed(nodes)}, as the {self._steps[step].target} of another run "
                    f"that shares the cluster; here {own.target} was broker {_listed(meant)}"
                )

    def after(self, step: str) -> None:
        """Calls the witness of every run."""
        for participant in list(self._participants):
            participant.witness.after(step)

    def _on_fault(self, step: str, what: str, active: bool) -> None:
        for participant in list(self._participants):
            participant.on_fault(step, what, active)


class ParticipantNemesis:
    """The nemesis of one of the runs: plays its own faults, and passes calls on to the shared ones."""

    def __init__(
        self,
        shared: SharedFaults,
        cluster: SharedCluster,
        steps: dict[str, Step],
        own: Nemesis,
        rows: _LockedRows,
        witness: Witness,
        on_fault: OnFault,
    ) -> None:
        self._shared, self._number, self._own = shared, cluster.number, own
        self.cluster, self.steps = cluster, steps
        self.rows, self.witness, self.on_fault = rows, witness, on_fault

    @property
    def thresholds(self) -> list[int]:
        """Numbers of attempts at which its own or shared steps begin."""
        return sorted({*self._own.thresholds, *self._shared.thresholds})

    def threshold(self, n: int) -> None:
        """Called when the run has made `n` attempts."""
        for nemesis in (self._own, self._shared):
            if n in nemesis.thresholds:
                nemesis.threshold(n)

    def start(self) -> None:
        """Called when the load of this run begins, together with that of the others."""
        self._own.start()
        self._shared.start()

    def workload_over(self) -> None:
        """Called when the load of this run is over."""
        self._own.workload_over()
        self._shared.workload_over(self._number)

    def all_healed(self) -> bool:
        """Whether every fault has ended, including shared ones."""
        return self._own.all_healed() and self._shared.all_healed()

    def heal_now(self) -> list[str]:
        """Heals this run's own faults. Raises LabError."""
        return self._own.heal_now()

    def abort(self) -> None:
        """Ends this run's own faults, and leaves the shared ones."""
        self._own.abort()
        self._shared.leave(self._number)

    def shared_row(self, target: str, *values: Any) -> None:
        """Writes a row of a shared fault, with the target as this run names it."""
        step, fault, hit, *rest = values
        self.rows.row(step, fault, hit.replace(target, self.steps[step].target, 1), *rest)


class _ObservedRows:
    """Passes rows on to a run that has the cluster to itself, and to `note`."""

    def __init__(self, rows: FaultRows, note: Callable[[Sequence[Any]], None]) -> None:
        self._rows, self._note = rows, note

    def row(self, *values: Any) -> None:
        self._note(values)
        self._rows.row(*values)

    def flush(self) -> None:
        self._rows.flush()


class _LockedRows:
    """Passes rows on from several threads, until the run has left."""

    def __init__(self, rows: FaultRows) -> None:
        self._rows, self._lock = rows, threading.Lock()
        self._ended = False

    def row(self, *values: Any) -> None:
        with self._lock:
            if not self._ended:
                self._rows.row(*values)

    def flush(self) -> None:
        with self._lock:
            if not self._ended:
                self._rows.flush()

    def end(self) -> None:
        with self._lock:
            self._ended = True


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes)) or "nobody"
