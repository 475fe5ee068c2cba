"""The faults that several runs on one cluster share: one nemesis plays them, every run has them on record.

Faults on a run's own members, producers and topics are played by a nemesis of its own. Its place: batch.py
hands `SharedFaults.nemesis_of_run` to each experiment.
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
from kaput.scenario.values import members_meant, producer_meant, topic_meant
from kaput.trials.shared_cluster import SharedCluster

# Targets that each run names with names of its own.
_LOOKED_UP = ("leader-of", "follower-of", "followers-of", "coordinator-of", "transaction-coordinator-of")
_HEALED = 6  # the place of healed_ns in a row of the faults table


def is_own(target: str) -> bool:
    """Whether a target is a run's own: its members, its producers, its topics."""
    return bool(members_meant(target) or producer_meant(target) is not None or topic_meant(target))


class SharedFaults:
    """Plays the `steps` that `size` runs share; each run records and watches them itself."""

    def __init__(
        self, steps: Sequence[Step], cluster: RunOnOwnCluster, admin: Admin, topics: Sequence[str], size: int
    ) -> None:
        self._steps = {step.id: step for step in steps}
        self._admin, self._brokers, self._size = admin, cluster.broker_ids, size
        self._seats: list[SeatNemesis] = []
        self._lock = threading.Lock()
        self._started = False
        self._over: set[int] = set()
        self._left: set[int] = set()
        self.unhealed: set[str] = set()  # steps that may still be at work
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

    def nemesis_of_run(self, cluster: SharedCluster, faults: FaultsOfRun) -> SeatNemesis:
        """That of the run that sees the cluster so."""
        rows = _Locked(_Noted(faults.rows, self._note) if cluster.alone else faults.rows)
        own = [step for step in faults.steps if step.id not in self._steps]
        nemesis = nemesis_of_run(replace(faults, steps=own, rows=rows))
        by_id = {step.id: step for step in faults.steps}
        seat = SeatNemesis(self, cluster, by_id, nemesis, rows, faults.witness, faults.on_fault)
        with self._lock:
            self._seats.append(seat)
        return seat

    @property
    def thresholds(self) -> list[int]:
        """As of a nemesis."""
        return self._nemesis.thresholds

    def threshold(self, n: int) -> None:
        """Called when the first of the runs has made so many attempts, and later without effect."""
        self._nemesis.threshold(n)

    def start(self) -> None:
        """Starts the timeline, once."""
        with self._lock:
            started, self._started = self._started, True
        if not started:
            self._nemesis.start()

    def workload_over(self, number: int) -> None:
        """The load of that run is over; that of all, when it is for each that has not left."""
        with self._lock:
            self._over.add(number)
            over = len(self._over | self._left) == self._size
        if over:
            self._nemesis.workload_over()

    def all_healed(self) -> bool:
        """As of a nemesis."""
        return self._nemesis.all_healed()

    def leave(self, number: int) -> None:
        """That run needs the faults no more; with the last one they end."""
        with self._lock:
            self._left.add(number)
            for seat in self._seats:
                if seat.cluster.number == number:
                    seat.rows.end()
            self._seats = [seat for seat in self._seats if seat.cluster.number != number]
            none_left = len(self._left) == self._size
        self.workload_over(number)
        if none_left:
            self._nemesis.abort()
            self._pool.shutdown(wait=False)

    def row(self, *values: Any) -> None:
        """A row of the faults table, for every run; see FaultRows."""
        self._note(values)
        for seat in list(self._seats):
            seat.shared_row(self._steps[values[0]].target, *values)

    def _note(self, row: Sequence[Any]) -> None:
        step, brokers = row[0], row[3]
        with self._lock:
            # What hit nobody needs no heal.
            (self.unhealed.add if brokers and row[_HEALED] is None else self.unhealed.discard)(step)

    def flush(self) -> None:
        """See FaultRows."""
        for seat in list(self._seats):
            seat.rows.flush()

    def before(self, step: str, nodes: Sequence[int]) -> None:
        """Checks that for every run the target is these nodes, and calls its witness."""
        list(self._pool.map(lambda seat: self._before(seat, step, nodes), list(self._seats)))

    def _before(self, seat: SeatNemesis, step: str, nodes: Sequence[int]) -> None:
        if seat.steps[step].target.split()[0] in _LOOKED_UP:
            self._check(seat, step, nodes)
        seat.witness.before(step, nodes)

    def _check(self, seat: SeatNemesis, step: str, nodes: Sequence[int]) -> None:
        own = seat.steps[step]
        try:
            meant = resolve(own.target, self._admin, self._brokers(), own.seed, own.id_prefix)
        except LabError as error:
            seat.cluster.misses.append(f"whether {step} hit what this run means is not known: {error}")
        else:
            if meant != list(nodes):
                seat.cluster.misses.append(
                    f"{step} hit broker {_listed(nodes)}, as the {self._steps[step].target} of another run "
                    f"that shares the cluster; here {own.target} was broker {_listed(meant)}"
                )

    def after(self, step: str) -> None:
        """Calls the witnesses."""
        for seat in list(self._seats):
            seat.witness.after(step)

    def _on_fault(self, step: str, what: str, active: bool) -> None:
        for seat in list(self._seats):
            seat.on_fault(step, what, active)


class SeatNemesis:
    """The nemesis of one of the runs: its own faults, and those that all share."""

    def __init__(
        self,
        shared: SharedFaults,
        cluster: SharedCluster,
        steps: dict[str, Step],
        own: Nemesis,
        rows: _Locked,
        witness: Witness,
        on_fault: OnFault,
    ) -> None:
        self._shared, self._number, self._own = shared, cluster.number, own
        self.cluster, self.steps = cluster, steps
        self.rows, self.witness, self.on_fault = rows, witness, on_fault

    @property
    def thresholds(self) -> list[int]:
        """Of its own faults and of those that all share."""
        return sorted({*self._own.thresholds, *self._shared.thresholds})

    def threshold(self, n: int) -> None:
        """Called when the run has made so many attempts."""
        for nemesis in (self._own, self._shared):
            if n in nemesis.thresholds:
                nemesis.threshold(n)

    def start(self) -> None:
        """The load of this run begins; that of the others does, too."""
        self._own.start()
        self._shared.start()

    def workload_over(self) -> None:
        """The load of this run is over."""
        self._own.workload_over()
        self._shared.workload_over(self._number)

    def all_healed(self) -> bool:
        """Whether every fault has ended, also those that all share."""
        return self._own.all_healed() and self._shared.all_healed()

    def heal_now(self) -> list[str]:
        """Heals its own faults. Raises LabError."""
        return self._own.heal_now()

    def abort(self) -> None:
        """This run needs no more faults."""
        self._own.abort()
        self._shared.leave(self._number)

    def shared_row(self, target: str, *values: Any) -> None:
        """A row of a fault that all share, with the target as this run names it."""
        step, fault, hit, *rest = values
        self.rows.row(step, fault, hit.replace(target, self.steps[step].target, 1), *rest)


class _Noted:
    """Rows of a run that has the cluster to itself."""

    def __init__(self, rows: FaultRows, note: Callable[[Sequence[Any]], None]) -> None:
        self._rows, self._note = rows, note

    def row(self, *values: Any) -> None:
        self._note(values)
        self._rows.row(*values)

    def flush(self) -> None:
        self._rows.flush()


class _Locked:
    """Rows from several threads, until the run that records them has left."""

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
