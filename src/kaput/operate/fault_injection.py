"""Faults on demand, without a scenario: confirmed when injected, active until healed, and confirmed healed.

Its place: lab.py uses it for programs and daemon.py for the command line; what a fault does is in faults/.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from kaput.cluster.admin import Admin
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.errors import FaultError, UsageError
from kaput.faults.catalogue import CATALOGUE
from kaput.faults.failures import Heal, healed_or_failed, injected_or_failed
from kaput.faults.fault import Effect, Fault, Scene, now_ns
from kaput.faults.targets import resolve
from kaput.scenario.checks.steps import check_alone
from kaput.scenario.mistakes import Mistake, from_validation, in_lines
from kaput.scenario.model import Cluster
from kaput.scenario.nearest import hint, nearest
from kaput.scenario.options import with_defaults
from kaput.scenario.steps import FaultStep
from kaput.scenario.values import target_partition

# Targets that only exist in a run: its clients, and what a scenario creates.
_RUN_TARGETS = ("member", "any member", "producer", "transaction-coordinator-of", "topic ", "cluster")


@dataclass(frozen=True)
class InjectedFault:
    """A fault that took effect: the brokers it hit, since when (ns since the epoch), and the proof."""

    id: str
    fault: str
    target: str
    brokers: list[int]
    injected_ns: int
    effective_ns: int
    proof: str


@dataclass(frozen=True)
class Healed:
    """A fault after healing; `proof` covers its whole duration."""

    id: str
    healed_ns: int
    proof: str


@dataclass(frozen=True)
class _Active:
    injected: InjectedFault
    fault: Fault
    effect: Effect
    heal: Heal  # for the nodes that were hit


class FaultInjector:
    """Injects faults into one cluster, and heals them. Thread-safe."""

    def __init__(
        self,
        nodes: Mapping[int, Node],
        network: Network,
        admin: Admin,
        spec: Callable[[], Cluster],
        seed: int | None = None,
    ) -> None:
        self._nodes, self._network, self._admin, self._spec = nodes, network, admin, spec
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._active: dict[str, _Active] = {}
        self._count = 0

    @property
    def active(self) -> list[InjectedFault]:
        """The active faults, in the order in which they were injected."""
        with self._lock:
            return [each.injected for each in self._active.values()]

    def inject(self, fault: str, target: str, options: Mapping[str, object]) -> InjectedFault:
        """Injects a fault now. `options`: as in a scenario's step (`from`, `delay: 100ms`).

        Raises UsageError if this cluster cannot have the fault, FaultError with the evidence if it had no
        effect: it is already healed then.
        """
        spec = self._spec()  # a cluster may have grown
        step = checked_step(fault, target, options, spec)
        self._check_partition(step.target)
        ids = resolve(step.target, self._admin, spec.broker_ids(), self._draw.getrandbits(63))
        with self._lock:
            self._count += 1
            name = f"{self._count}-{step.fault}"
        scene = Scene(name, step.options(), self._nodes, self._network, self._admin, (), has_duration=False)
        found, nodes = CATALOGUE[step.fault](scene), [self._nodes[i] for i in ids]
        injected_ns = now_ns()
        effect, _ = injected_or_failed(partial(found.inject, nodes))
        heal = partial(found.heal, nodes)
        if not effect.bit or effect.effective_ns is None:
            _, after = healed_or_failed(heal, effect)
            raise FaultError(f"{step.fault} {step.target} did not take effect: {after.proof}")
        times = injected_ns, effect.effective_ns
        injected = InjectedFault(name, step.fault, target, ids, *times, effect.proof)
        with self._lock:
            self._active[name] = _Active(injected, found, effect, heal)
        return injected

    def _check_partition(self, target: str) -> None:
        """Raises UsageError at once for a partition that does not exist: a run would wait for it."""
        place = target_partition(target)
        if place is None:
            return
        topic, partition = place
        topics = self._admin.topics()
        if topic not in topics:
            near = nearest(topic, topics)
            instead = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{target}: no topic {topic}{instead}")
        count = len(self._admin.partitions([topic]))
        if partition >= count:
            raise UsageError(f"{target}: {topic} has partitions 0 to {count - 1}")

    def heal(self, name: str) -> Healed:
        """Ends a fault. Raises UsageError if no such fault is active, FaultError if its end is not confirmed
        or if something undid it earlier: it is no longer active in either case.
        """
        with self._lock:
            active = self._active.pop(name, None)
            known = list(self._active)
        if active is None:
            raise UsageError(f"no fault {name} is active" + (f"; {hint(name, known)}" if known else ""))
        healed_ns, effect = healed_or_failed(active.heal, active.effect)
        title = f"{active.injected.fault} {active.injected.target}"
        if healed_ns is None:
            raise FaultError(f"{title} is not confirmed to be healed: {effect.proof}")
        if not effect.bit:
            raise FaultError(f"{title} did not last until it was healed: {effect.proof}")
        return Healed(name, healed_ns, effect.proof)

    def abandon(self) -> None:
        """Drops all faults without healing, because the cluster is being stopped."""
        with self._lock:
            active = list(self._active.values())
            self._active.clear()
        for each in active:
            each.fault.abandon()


def checked_step(fault: str, target: str, options: Mapping[str, object], spec: Cluster) -> FaultStep:
    """The step as in a scenario. Raises UsageError with every mistake."""
    data = with_defaults({"at": "0s", "fault": fault, "target": target, **options})
    try:
        step = FaultStep.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise UsageError(in_lines(from_validation(error, data, ("faults", 0)))) from None
    mistakes = check_alone(step, spec)
    if step.fault not in CATALOGUE or step.target.startswith(_RUN_TARGETS):
        mistakes = [Mistake((), f"{step.fault} {step.target}: without a scenario, faults can only hit nodes")]
    if mistakes:
        raise UsageError(in_lines(mistakes))
    return step
