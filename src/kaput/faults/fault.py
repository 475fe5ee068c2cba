"""The base of all faults: an action on a target, and a proof that it took effect. Also of those that are
healed by a restart, and of permanent changes, which have nothing to undo.

Not here: which nodes are hit (resolving.py), and when an action begins and ends (engine.py).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from kaput.cluster.admin import Admin, PartitionState
from kaput.cluster.frames.frame_proxy import SeenFrame
from kaput.cluster.network.interface import Network
from kaput.cluster.node import Node
from kaput.cluster.wire import AccessRefused
from kaput.core import MS, TopicPartition
from kaput.errors import LabError
from kaput.processes.pausable import PausableProcess
from kaput.scenario.fault_kinds import CommandOptions, Options
from kaput.scenario.targets import CLUSTER, CLUSTERS, NODES, TOPIC
from kaput.scenario.timeline import Step

if TYPE_CHECKING:
    from kaput.evidence.recorder import Recorder
    from kaput.stores.running import StoreTarget
    from kaput.workload.supervision.client_process import MemberSlot
    from kaput.workload.supervision.supervisor import ProducerHandle, Supervisor

    DiskTarget = Node | StoreTarget  # something with its data on its own file system


_FLUSHED_SINGLY = 100  # the first rows are flushed one by one, later ones in batches of this size


class FrameLog:
    """Takes rows from the threads of all proxies, until it is closed. Without a recorder, discards them."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorder, self._lock = recorder, threading.Lock()
        self.rows = 0

    def add(
        self, fault: str, cluster: str | None, broker: int, api: str, frame: SeenFrame, action: str | None
    ) -> None:
        """Records a frame that matched the step with id `fault`; `action` is None if it passed unchanged."""
        with self._lock:
            if self._recorder is None:
                return
            self._recorder.row(
                fault, broker, api, frame.api_version, frame.correlation_id, frame.client_id,
                frame.connection, action, frame.at_ns, cluster,
            )  # fmt: skip
            self.rows += 1
            if self.rows <= _FLUSHED_SINGLY or self.rows % _FLUSHED_SINGLY == 0:
                self._recorder.flush()

    def flush(self) -> None:
        """Writes the remaining rows."""
        with self._lock:
            if self._recorder is not None:
                self._recorder.flush()

    def close(self) -> None:
        """Discards later rows: a fault that was abandoned may still see frames."""
        self.flush()
        with self._lock:
            self._recorder = None


_Hit = TypeVar("_Hit")
_T = TypeVar("_T")
_R = TypeVar("_R")
_THREADS_MAX = 16
WAIT_S = 60.0  # a group needs a session timeout and a rebalance: each a few seconds, rarely more
_POLL_S = 0.05


class Clock:
    """The monotonic clock, in seconds, that faults wait and measure with. A fake one makes tests exact."""

    def now(self) -> float:
        """The current time."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Effect:
    """When the fault took effect (ns; None if never), whether that is confirmed, and the proof as a
    sentence. `toggles_ns`: when a flapping link worked again, and was cut again, in turn.
    """

    effective_ns: int | None
    confirmed: bool
    proof: str
    toggles_ns: tuple[int, ...] = ()

    def healed(self, at_ns: int | None, details: Sequence[str], holds: bool) -> tuple[int | None, Effect]:
        """What `heal` returns, with sentences about the end of what took effect."""
        took_effect = self.effective_ns is not None
        return at_ns, self.with_proof("; ".join(details), holds) if took_effect else self

    def with_proof(self, details: str, still_confirmed: bool) -> Effect:
        """The effect with one more sentence; not confirmed any more unless `still_confirmed`."""
        proof = f"{self.proof}; {details}"
        return replace(self, confirmed=self.confirmed and still_confirmed, proof=proof)

    def with_nothing_to_heal(self) -> tuple[int, Effect]:
        """What `heal` returns for a change that is over once it has taken effect."""
        return (now_ns() if self.effective_ns is None else self.effective_ns), self


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: its exit status, None if it timed out; and the last line of its output."""

    status: int | None
    last: str = ""

    def how(self, kind: str) -> str:
        """`inject ended with exit status 1: no such container`"""
        ended = (
            "took too long and was ended" if self.status is None else f"ended with exit status {self.status}"
        )
        return f"{kind} {ended}" + (f": {self.last}" if self.last else "")


class Commands(Protocol):
    """Runs commands. Thread-safe."""

    def run(
        self, step: str, kind: str, broker: int, line: str, known: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Runs a command line to its end. `kind`: inject, heal or prove; `known`: placeholders in addition to
        the broker and its address. Raises LabError if it cannot be started.
        """

    def add_pending_heal(
        self, step: str, brokers: Sequence[int], options: CommandOptions, known: Mapping[str, str]
    ) -> None:
        """Records that these brokers are about to be broken, and how to heal them if kaput is killed."""

    def heal_done(self, step: str) -> None:
        """Records that they are healed."""


class NoGroups:
    """For a lab without clients; of a run, see workload/supervision/supervisor.py."""

    def member(self, group: str, number: int) -> MemberSlot:
        """Raises LabError."""
        raise LabError(f"there is no group {group}")

    def members_of(self, group: str) -> Sequence[MemberSlot]:
        """Empty."""
        return []

    def producer(self, number: int) -> ProducerHandle:
        """Raises LabError."""
        raise LabError(f"there is no producer {number}")


def cannot_grow(count: int) -> list[int]:
    """Raises LabError."""
    raise LabError("this cluster cannot get more brokers")


def cannot_upgrade(node: int, version: str) -> None:
    """Raises LabError."""
    raise LabError(f"the nodes of this cluster cannot become Kafka {version}")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a fault works with besides its targets: its step, and the cluster.

    `topics` are those of the scenario; `clusters` has node ids by cluster, if there are several; `grow` adds
    that many brokers and returns their ids; `upgrade` makes a node use that version from its next start.
    """

    step: Step
    nodes: Mapping[int, Node]
    network: Network
    admin: Admin
    topics: Sequence[str] = ()
    clusters: Mapping[str, frozenset[int]] = field(default_factory=dict)
    groups: Supervisor | NoGroups = field(default_factory=NoGroups)
    commands: Commands | None = None
    grow: Callable[[int], list[int]] = cannot_grow
    upgrade: Callable[[int, str], None] = cannot_upgrade
    frames: FrameLog = field(default_factory=FrameLog)
    clock: Clock = field(default_factory=Clock)

    @property
    def seed(self) -> int:
        """The step's own seed: whatever a fault draws at random comes from it."""
        return self.step.seed

    @property
    def whole_cluster(self) -> frozenset[int]:
        """The node ids of a cluster that is hit as a whole; otherwise none."""
        target = self.step.target
        return self.clusters.get(target.name or "", frozenset()) if target.hits == CLUSTERS else frozenset()

    def brokers(self) -> list[int]:
        """The ids of all current brokers."""
        return [node.id for node in self.nodes.values() if node.role in ("broker", "combined")]


class Fault(ABC, Generic[_Hit]):
    """One injection of one fault; created for each step, so it may keep state from inject to heal.

    A subclass says in the type of `options` which options it has.
    """

    name: ClassVar[str]
    on: ClassVar[str] = NODES
    """What it hits. Nodes include a whole cluster, a mirror and a store: all of them are processes."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Kernel features it needs, as cluster/network/capability_checks.py names them."""
    outlasts: ClassVar[bool] = False
    """Whether it outlasts the run, so that it is healed even if the run is aborted."""
    options: Options
    watching: bool = False
    """Whether it is in place, and what it acts upon has yet to come: only its heal can tell its effect."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.options = scene, scene.step.options
        self.abandoned = threading.Event()
        self.acted: Callable[[int], None] = lambda at_ns: None
        """Called by one that is `watching` when it acts upon something for the first time (ns)."""

    @abstractmethod
    def inject(self, hit: _Hit, /) -> Effect:
        """Injects the fault and proves what can be proven now. May raise LabError halfway."""

    @abstractmethod
    def heal(self, hit: _Hit, effect: Effect, /) -> tuple[int | None, Effect]:
        """Ends whatever `inject` started, even if that had no effect or raised; touches nothing else. Returns
        when it ended (ns; None unless the end was observed), and the effect with the proof of the whole
        duration, which is confirmed only if both its start and its end were observed. May raise LabError.
        """

    def abandon(self) -> None:
        """Ends its waits and background work: the run is ending, and the fault needs no heal."""
        self.abandoned.set()

    def restarted(self) -> list[int]:
        """Ids of the nodes that a change of the whole cluster restarts: recorded as hit."""
        return []

    def wait(self, condition: Callable[[], bool], timeout_s: float = WAIT_S, poll_s: float = _POLL_S) -> bool:
        """Waits for the condition; returns whether it came true in time, before the run ended."""
        clock = self.scene.clock
        limit = clock.now() + timeout_s
        while not condition():
            if self.abandoned.is_set() or clock.now() >= limit:
                return False
            clock.sleep(poll_s)
        return True

    def insist(self, request: Callable[[], None], timeout_s: float = WAIT_S, poll_s: float = _POLL_S) -> None:
        """Makes a request again until it is carried out: brokers, or their controller, may be about to
        start. Raises LabError, at once if access is refused.
        """
        if why := self.wait_until_complete(request, timeout_s, poll_s, refusals=True):
            raise LabError(why)

    def wait_until_complete(
        self,
        lacks: Callable[[], str | None],
        timeout_s: float,
        poll_s: float = 0.02,
        *,
        refusals: bool = False,
    ) -> str:
        """Waits, for a bounded time, until `lacks` returns nothing; returns its last sentence, or that of the
        LabError that it raised. `refusals`: raises AccessRefused at once.
        """
        details = ""

        def complete() -> bool:
            nonlocal details
            try:
                details = lacks() or ""
            except LabError as error:
                if refusals and isinstance(error, AccessRefused):
                    raise
                details = str(error)
            return not details

        self.wait(complete, timeout_s, poll_s)
        return details


NOT_RUNNING = "no target was running"
_P = TypeVar("_P", bound=PausableProcess)


class RunningFault(Fault[Sequence[_P]]):
    """A fault on those of its targets that run; without one of them it has no effect."""

    def inject(self, hit: Sequence[_P]) -> Effect:
        alive = [target for target in hit if target.running]
        return self.inject_into(alive, hit) if alive else Effect(None, False, NOT_RUNNING)

    @abstractmethod
    def inject_into(self, alive: Sequence[_P], hit: Sequence[_P], /) -> Effect:
        """Injects it into targets that run; `hit`: all of them. May raise LabError halfway."""


NodeFault = RunningFault[Node]
ProcessFault = RunningFault[PausableProcess]


def in_parallel(action: Callable[[_T], _R], these: Sequence[_T]) -> list[_R]:
    """The results of `action`, in the order of `these`: a fault should hit all of its targets at once. Raises
    its first exception after all have ended.
    """
    if not these:
        return []
    with ThreadPoolExecutor(max_workers=min(_THREADS_MAX, len(these))) as pool:
        # Not map: it would cancel the remaining calls after an exception.
        futures = [pool.submit(action, one) for one in these]
    return [future.result() for future in futures]


def name_all(nodes: Sequence[PausableProcess]) -> str:
    """`broker 1 (pid 77)`, for proofs."""
    return ", ".join(f"{node.title} (pid {node.pid})" for node in nodes)


def now_ns() -> int:
    """Nanoseconds since the epoch: the clock of all evidence."""
    return time.time_ns()


@dataclass(frozen=True)
class Restart:
    """The result of restarting nodes. `at_ns`: of the last start; None if there was none."""

    at_ns: int | None
    details: list[str]
    complete: bool  # whether all of them run


def start_again(nodes: Sequence[PausableProcess]) -> Restart:
    """Starts all of these nodes, even if some fail."""
    at_ns, details, complete = None, [], True
    for node in nodes:
        try:
            node.start()  # may wait until the cluster can take the node back
        except LabError as error:
            details.append(f"{node.title} could not be started again: {error}")
            complete = False
            continue
        at_ns = now_ns()
        complete = complete and node.running
        details.append(
            f"{name_all([node])} was started again"
            if node.running
            else f"{node.title} does not run after its start"
        )
    return Restart(at_ns, details, complete)


class HealedByRestart(RunningFault[Any]):
    """A fault whose targets are down from injection to heal."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pids: dict[int, int | None] = {}  # pids of the processes that were hit, by node

    def mark_hit(self, nodes: Sequence[PausableProcess]) -> None:
        """Marks nodes as down because of this fault, so that only its heal restarts them."""
        self._pids = {node.id: node.pid for node in nodes}

    def was_hit(self, node: PausableProcess) -> bool:
        return node.id in self._pids

    def heal(self, nodes: Sequence[PausableProcess], effect: Effect) -> tuple[int | None, Effect]:
        """Starts the nodes that were hit; the returned time is that of the last start."""
        hit = [node for node in nodes if self.was_hit(node)]
        early = [node for node in hit if node.pid != self._pids[node.id]]
        lasting = [node for node in hit if node not in early and node.running]
        restart = start_again([node for node in hit if node not in early and not node.running])
        details = [f"{name_all([node])} had been started by something else" for node in early]
        details += [f"{name_all([node])} has not ended" for node in lasting] + restart.details
        healed = (restart.at_ns or now_ns()) if restart.complete and not lasting else None
        if not details:
            return healed, effect
        holds = restart.complete and not early and not lasting
        return healed, effect.with_proof("; ".join(details), holds)


class TopicChange(Fault[str]):
    on = TOPIC


class ClusterChange(Fault[None]):
    on = CLUSTER


def ms(from_ns: int, to_ns: int) -> str:
    """`1,234 ms`, for proofs."""
    return f"{(to_ns - from_ns) / MS:,.0f} ms"


def lacking(states: Mapping[TopicPartition, PartitionState]) -> str:
    """A sentence about partitions without a leader or a full ISR; empty if there are none. A partition whose
    last replica is down keeps that replica in its ISR, and has no leader.
    """
    details = [
        f"{topic}/{p} has leader {state.leader} and ISR {state.isr} of {state.replicas}"
        for (topic, p), state in states.items()
        if state.leader is None or set(state.isr) != set(state.replicas)
    ]
    return ", ".join(details)
