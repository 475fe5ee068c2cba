"""Faults that several runs on one cluster share: one nemesis plays them, and every run records them.

Faults on a run's own members, producers and topics are played by the run's own nemesis. batch.py passes
`SharedFaults.nemesis_of_run` to each experiment.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from kaput.cluster.admin import Admin
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import LabError
from kaput.evidence.fault_rows import FaultRow
from kaput.faults.engine import FaultState, into
from kaput.faults.nemesis import Nemesis
from kaput.faults.resolving import Surroundings, resolve
from kaput.runner.nemesis_of_run import FaultsOfRun, nemesis_of_run
from kaput.scenario.targets import MEMBERS, PRODUCER, TOPIC, Target
from kaput.scenario.timeline import Step
from kaput.trials.warm import SharedRunCluster

# Kinds of targets that contain names of a run, and so are resolved for each run.
_RESOLVED_PER_RUN = (
    "leader-of",
    "follower-of",
    "followers-of",
    "coordinator-of",
    "transaction-coordinator-of",
)


def is_own(target: Target) -> bool:
    """Whether a target belongs to one run: its members, its producers, its topics."""
    return target.hits in (MEMBERS, PRODUCER, TOPIC)


class SharedFaults:
    """Plays the `steps` that `size` runs share; each run records and observes them itself. The names of its
    methods are Nemesis's, `before` and `after` those of a witness.
    """

    def __init__(
        self, steps: Sequence[Step], cluster: OwnCluster, admin: Admin, topics: Sequence[str], size: int
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
            Surroundings(
                nodes=cluster.nodes,
                network=cluster.network,
                brokers=cluster.broker_ids,
                admin=admin,
                topics=topics,
                grow=cluster.grow,
                upgrade=cluster.upgrade,
            ),
            on_record=self._record,
            on_fault=self._on_fault,
            witness=self,
        )

    def nemesis_of_run(self, cluster: SharedRunCluster, faults: FaultsOfRun) -> ParticipantNemesis:
        """The nemesis of the run with this view of the cluster."""
        own = [step for step in faults.steps if step.id not in self._steps]
        participant = ParticipantNemesis(self, cluster, faults, own)
        with self._lock:
            self._participants.append(participant)
        return participant

    @property
    def thresholds(self) -> list[int]:
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
        """The load of a run is over; the shared load is, when that of all runs that stay is."""
        with self._lock:
            self._over.add(number)
            over = len(self._over | self._left) == self._size
        if over:
            self._nemesis.workload_over()

    def all_healed(self) -> bool:
        return self._nemesis.all_healed()

    def has_acted(self, step: str) -> bool:
        return self._nemesis.has_acted(step)

    def leave(self, number: int) -> None:
        """Called when a run no longer needs the faults; the last call ends them."""
        with self._lock:
            self._left.add(number)
            for participant in self._participants:
                if participant.cluster.number == number:
                    participant.end_records()
            self._participants = [
                participant for participant in self._participants if participant.cluster.number != number
            ]
            none_left = len(self._left) == self._size
        self.workload_over(number)
        if none_left:
            self._nemesis.abort()
            self._pool.shutdown(wait=False)

    def note(self, record: FaultRow) -> None:
        """Notes whether a fault may still be active. One that hit no node needs no heal."""
        with self._lock:
            may_be_active = record.brokers and record.healed_ns is None
            (self.unhealed.add if may_be_active else self.unhealed.discard)(record.id)

    def _record(self, record: FaultRow) -> None:
        self.note(record)
        for participant in list(self._participants):
            participant.record_shared(record, self._steps[record.id].target)

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Checks for every run that its target resolves to these nodes, and calls its witness."""

        def before(participant: ParticipantNemesis) -> None:
            if participant.steps[step].target.kind in _RESOLVED_PER_RUN:
                self._check(participant, step, nodes)
            participant.witness.before(step, nodes)

        list(self._pool.map(before, list(self._participants)))

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
        for participant in list(self._participants):
            participant.witness.after(step)

    def _on_fault(self, step: str, what: str, state: FaultState) -> None:
        for participant in list(self._participants):
            participant.on_fault(step, what, state)


class ParticipantNemesis:
    """The nemesis of one of the runs: plays its own faults, and passes calls on to the shared ones. `abort`
    ends its own faults, and leaves the shared ones.
    """

    def __init__(
        self, shared: SharedFaults, cluster: SharedRunCluster, faults: FaultsOfRun, own: Sequence[Step]
    ) -> None:
        self._shared, self.cluster = shared, cluster
        self.steps = {step.id: step for step in faults.steps}
        self.witness, self.on_fault = faults.witness, faults.on_fault
        self._write, self._writing, self._left = into(faults.rows), threading.Lock(), False
        self._own = nemesis_of_run(replace(faults, steps=own), self._record_own)

    @property
    def thresholds(self) -> list[int]:
        return sorted({*self._own.thresholds, *self._shared.thresholds})

    def threshold(self, n: int) -> None:
        for nemesis in (self._own, self._shared):
            if n in nemesis.thresholds:
                nemesis.threshold(n)

    def start(self) -> None:
        """Called when the load of this run begins, together with that of the others."""
        self._own.start()
        self._shared.start()

    def workload_over(self) -> None:
        self._own.workload_over()
        self._shared.workload_over(self.cluster.number)

    def all_healed(self) -> bool:
        return self._own.all_healed() and self._shared.all_healed()

    def has_acted(self, step: str) -> bool:
        return self._own.has_acted(step) or self._shared.has_acted(step)

    def heal_now(self) -> list[str]:
        """This run's own faults. Raises LabError."""
        return self._own.heal_now()

    def abort(self) -> None:
        self._own.abort()
        self._shared.leave(self.cluster.number)

    def record_shared(self, record: FaultRow, target: Target) -> None:
        """Writes what is known of a shared fault, with the target as this run names it."""
        own = self.steps[record.id].target
        self._record(replace(record, target=record.target.replace(target.text, own.text, 1)))

    def end_records(self) -> None:
        """The run has left: its table gets no more rows."""
        with self._writing:
            self._left = True

    def _record_own(self, record: FaultRow) -> None:
        if self.cluster.alone:
            self._shared.note(record)
        self._record(record)

    def _record(self, record: FaultRow) -> None:
        with self._writing:
            if not self._left:
                self._write(record)


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes)) or "nobody"
