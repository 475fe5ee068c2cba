"""Faults on demand, without a scenario: confirmed when injected, active until healed, and confirmed healed.

Its place: standing_cluster.py uses it for programs and daemon.py for the command line; the life of a fault
is in faults/engine.py.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.core import TopicPartition
from kaput.errors import FaultError, LabError, UsageError
from kaput.evidence.fault_rows import FaultRow
from kaput.faults.engine import FaultEngine, Life
from kaput.faults.resolving import Surroundings
from kaput.scenario.checks.steps import check_alone
from kaput.scenario.fault_kinds import (
    COMMAND,
    KINDS,
    MOVE_LEADER,
    MOVE_REPLICAS,
    REASSIGN,
    MoveLeaderOptions,
    ReassignOptions,
    defaults_of,
    same_setting,
)
from kaput.scenario.mistakes import Mistake, from_validation, in_lines
from kaput.scenario.model import Cluster
from kaput.scenario.nearest import hint, nearest
from kaput.scenario.steps import FaultStep, with_defaults
from kaput.scenario.targets import CLUSTER, NODES, TOPIC, Target
from kaput.scenario.timeline import AfterStart, Step

_OF_RUNS = (COMMAND, "grow", "rolling-upgrade")  # on a standing cluster, `kaput grow` adds brokers
_HEALED_S = 600.0  # every wait in a heal is bounded, and together they take less


@dataclass(frozen=True)
class InjectedFault:
    """A fault that took effect: the brokers it hit, since when (ns since the epoch), and the proof. One in
    the protocol is in place since then; its heal tells upon how many requests it acted.
    """

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
        self._admin, self._spec = admin, spec
        surroundings = Surroundings(
            nodes=nodes, network=network, admin=admin, brokers=lambda: spec().broker_ids()
        )
        self._engine = FaultEngine(surroundings, proven_only=True)
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._count = 0
        self._injected: dict[str, tuple[Life, InjectedFault]] = {}
        self._beginning: list[FaultStep] = []

    @property
    def active(self) -> list[InjectedFault]:
        """The active faults, in the order in which they were injected."""
        with self._lock:
            return [injected for life, injected in self._injected.values() if life.under_way]

    def inject(
        self, fault: str, target: str, options: Mapping[str, object], for_ms: int | None = None
    ) -> InjectedFault:
        """Injects a fault now. `options`: as in a scenario's step (`from`, `delay: 100ms`); `for_ms`: it is
        healed after that time, unless `heal` ends it earlier. Raises UsageError if this cluster cannot have
        the fault, FaultError with the evidence if it had no effect: it is already healed then.
        """
        keys = checked_step(fault, target, options, self._spec())
        self._check_topic(keys.target)
        if keys.fault in (MOVE_LEADER, MOVE_REPLICAS, REASSIGN):
            self._check_move(keys)
        self._begin(keys)
        try:
            return self._inject(keys, fault, target, for_ms)
        finally:
            with self._lock:
                self._beginning.remove(keys)

    def _inject(self, keys: FaultStep, fault: str, target: str, for_ms: int | None) -> InjectedFault:
        if keys.kind.permanent:  # there is nothing to heal
            for_ms = 0
        with self._lock:
            self._count += 1
            name, seed = f"{self._count}-{keys.fault}", self._draw.getrandbits(63)
        step = Step(name, keys.fault, keys.target, AfterStart(0), for_ms, seed, keys.options)
        life = self._engine.begin(step)
        threading.Thread(target=self._play, args=(life,), name=name, daemon=True).start()
        life.injected.wait()
        if life.error is not None:
            raise life.error
        record = life.as_injected or life.record
        if record is None:
            raise LabError(f"{fault} {target} was not injected: the cluster is being stopped")
        watching = life.fault is not None and life.fault.watching
        if not watching and (not record.confirmed or record.effective_ns is None):
            life.ended.wait()
            raise FaultError(f"{fault} {target} did not take effect: {(life.record or record).proof}")
        injected = InjectedFault(
            name,
            record.fault,
            target,
            list(record.brokers),
            record.injected_ns,
            record.injected_ns if record.effective_ns is None else record.effective_ns,
            record.proof,
        )
        with self._lock:
            self._injected[name] = life, injected
        return injected

    def heal(self, name: str) -> Healed:
        """Ends a fault; of a permanent change, returns what is known of it. Raises UsageError if no such
        fault is active, FaultError if its end is not confirmed or if something undid it earlier: in either
        case it is no longer active.
        """
        known = [each.id for each in self.active]
        lasting = name in self._injected and KINDS[self._injected[name][1].fault].permanent
        if name not in known and not lasting:  # what is permanent is over by itself
            near = f"; did you mean {close[0]}?" if (close := nearest(name, known)) else ""
            raise UsageError(f"no fault {name} is active; active: {', '.join(known) or 'none'}{near}")
        life, _ = self._injected[name]
        self._engine.heal([life], _HEALED_S)
        return _healed(life)

    def heal_all(self) -> list[Healed]:
        """Ends every active fault. Raises UsageError if there is none; FaultError naming all unconfirmed."""
        lives = [self._injected[each.id][0] for each in self.active]
        if not lives:
            raise UsageError("no fault is active")
        self._engine.heal(lives, _HEALED_S)
        healed: list[Healed] = []
        unconfirmed: dict[str, str] = {}
        for life in lives:
            try:
                healed.append(_healed(life))
            except FaultError as error:
                unconfirmed[life.step.id] = str(error)
        if unconfirmed:
            names = ", ".join(each.id for each in healed) or "none"
            what = "; ".join(f"{name}: {error}" for name, error in unconfirmed.items())
            raise FaultError(f"{len(unconfirmed)} of {len(lives)} faults: {what} (healed: {names})")
        return healed

    def records(self) -> list[FaultRow]:
        """The records of all faults that took effect."""
        with self._lock:
            return [life.record for life, _ in self._injected.values() if life.record is not None]

    def history(self) -> list[dict[str, Any]]:
        """Every fault that took effect, as in `kaput fault list --json`: active, healed or not proven."""
        with self._lock:
            injected = list(self._injected.values())
        return [_entry(life, one) for life, one in injected]

    def abandon(self) -> None:
        """Drops all faults without healing, because the cluster is being stopped."""
        self._engine.abandon()

    def _play(self, life: Life) -> None:
        with suppress(Exception):  # `inject` and `heal` raise what went wrong
            self._engine.play(life)

    def _begin(self, step: FaultStep) -> None:
        """Raises UsageError if another fault changes the same setting: what its heal restores would be the
        value of the other one.
        """
        with self._lock:
            active = [life.step for life, _ in self._injected.values() if life.under_way]
            known = [(one.id, one.options, one.target) for one in active]
            known += [(one.fault, one.options, one.target) for one in self._beginning]
            for name, options, target in known:
                if key := same_setting(options, target, step.options, step.target):
                    raise UsageError(f"{name} changes {key}, too; heal it first")
            self._beginning.append(step)

    def _check_topic(self, target: Target) -> None:
        """Raises UsageError at once for a topic or partition that does not exist: a run would wait for it."""
        topic, partition = target.topic, target.partition
        if topic is None:
            return
        topics = self._admin.topics()
        if topic not in topics:
            near = nearest(topic, topics)
            instead = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{target}: no topic {topic}{instead}")
        count = len(self._admin.partitions([topic]))
        if partition is not None and partition >= count:
            raise UsageError(f"{target}: {topic} has partitions 0 to {count - 1}")

    def _check_move(self, step: FaultStep) -> None:
        """Raises UsageError at once for a move without a broker to go to."""
        target, alive = step.target, self._admin.live([])[0]
        if isinstance(step.options, ReassignOptions):
            factor = step.options.replication_factor
            if factor > len(alive):
                raise UsageError(f"{factor} replicas need as many brokers; {len(alive)} are there")
            return
        brokers = frozenset(self._spec().broker_ids())
        states = self._admin.partitions([target.topic] if target.topic else self._admin.topics())
        for place, state in sorted(states.items()):
            if target.partition not in (None, place.partition):
                continue
            hit = _Hit.of(target, state, brokers)
            if isinstance(step.options, MoveLeaderOptions):
                _check_leader_moves(place, state, hit, step.options.leader)
            else:
                _check_replicas_move(place, state, hit, alive)


@dataclass(frozen=True)
class _Hit:
    """The brokers that a target is about to hit: so many (`size`) of `pool`."""

    pool: frozenset[int]
    size: int

    @classmethod
    def of(cls, target: Target, state: PartitionState, brokers: frozenset[int]) -> _Hit:
        """`state`: of the partition that is looked at; it is the target's own, if that has one."""
        followers = frozenset(state.replicas) - {state.leader}
        pools = {
            "broker": frozenset(target.numbers),
            "leader-of": frozenset(state.replicas) & {state.leader},
            "follower-of": followers,
            "followers-of": followers,
        }
        pool = pools.get(target.kind, brokers)
        sizes = {"minority": (len(brokers) - 1) // 2, "followers-of": len(pool), "all": len(pool)}
        return cls(pool, min(sizes.get(target.kind, 1), len(pool)))

    def least_of(self, brokers: Collection[int]) -> int:
        """How many of these are hit at least, whichever of the pool are."""
        return max(0, self.size - len(self.pool - set(brokers)))


def _check_replicas_move(
    place: TopicPartition, state: PartitionState, hit: _Hit, alive: frozenset[int]
) -> None:
    count = len(state.replicas)
    if not hit.least_of(state.replicas) or count <= len(alive) - hit.least_of(alive):
        return
    left = "too few are left" if alive - set(state.replicas) else "none of the others is without one"
    raise UsageError(
        f"{place} has {count} replicas on {len(alive)} brokers: {left}; add brokers first (kaput grow)"
    )


def _check_leader_moves(place: TopicPartition, state: PartitionState, hit: _Hit, to: int | None) -> None:
    if state.leader is None or not hit.least_of([state.leader]):
        return
    if len(state.replicas) == 1:
        raise UsageError(f"{place} has one replica, so no other broker can lead it")
    if to is not None and to not in state.replicas:
        able = ", ".join(map(str, state.replicas))
        raise UsageError(f"broker {to} has no replica of {place}; brokers {able} have one")
    if to == state.leader:
        raise UsageError(f"broker {to} leads {place} already")
    in_sync = [broker for broker in state.replicas if broker in state.isr and broker != state.leader]
    if not in_sync:
        raise UsageError(f"{place} has no follower in sync, so no other broker can lead it now")
    if to not in (None, *in_sync):
        able = ", ".join(map(str, in_sync))
        raise UsageError(f"broker {to} is not in sync with the leader of {place}; followers in sync: {able}")


def _healed(life: Life) -> Healed:
    """What a heal proved. Raises FaultError if that is not its end, or not its whole duration."""
    if life.error is not None:
        raise life.error
    record, title = life.record, f"{life.step.fault} {life.step.target}"
    assert record is not None
    if record.healed_ns is None:
        raise FaultError(f"{title} is not confirmed to be healed: {record.proof}")
    if not record.confirmed:
        what = "had no effect" if record.effective_ns is None else "did not last until it was healed"
        raise FaultError(f"{title} {what}: {record.proof}")
    return Healed(record.id, record.healed_ns, record.proof)


def _entry(life: Life, injected: InjectedFault) -> dict[str, Any]:
    entry = {**asdict(injected), "for_ms": life.step.duration_ms, "healed_ns": None, "state": "active"}
    if life.under_way:
        return entry
    try:
        healed = _healed(life)
    except LabError as error:
        return {**entry, "state": "not proven", "healed_ns": life.ended_ns, "proof": str(error)}
    return {**entry, "state": "healed", "healed_ns": healed.healed_ns, "proof": healed.proof}


def checked_step(fault: str, target: str, options: Mapping[str, object], spec: Cluster) -> FaultStep:
    """The step as in a scenario. Raises UsageError with every mistake."""
    known = defaults_of(fault)
    if fault in KINDS and (others := [key for key in options if key not in known]):
        instead = hint(others[0], known) if known else "it takes no options"
        raise UsageError(f"{others[0]}: {fault} takes no {others[0]}; {instead}")
    data = with_defaults({"at": "0s", "fault": fault, "target": target, **options})
    try:
        step = FaultStep.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise UsageError(in_lines(from_validation(error, data, ("faults", 0)))) from None
    mistakes = check_alone(step, spec)
    # A run's own clients, and what a scenario creates, only exist in a run.
    hits = step.target.hits
    there = hits in (NODES, TOPIC, CLUSTER) and step.target.kind != "transaction-coordinator-of"
    if step.fault in _OF_RUNS or hits not in step.kind.hits or not there:
        what = "without a scenario, faults can only hit nodes, topics and the cluster"
        mistakes = [Mistake((), f"{step.fault} {step.target}: {what}")]
    if mistakes:
        raise UsageError(in_lines(mistakes))
    return step
