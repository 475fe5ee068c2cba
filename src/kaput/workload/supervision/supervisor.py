"""Starts every client process of a run, releases the producers, reads their messages, moves and ends them.

runner/ owns a Supervisor; what the processes run is in librdkafka/, java/ and command/. Many clients are
moved to another cluster at once, in two steps, as each client does it (workload/moving.py): held, then moved.
A client that has ended, or has nothing left to send, is not waited for. When and why they move:
runner/plan/plan.py.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kaput.cluster.access import OPEN, AccessOf
from kaput.cluster.distribution import Distribution
from kaput.core import MS
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import Owner
from kaput.processes.pausable import PausableProcess
from kaput.scenario.fault_kinds import ProtocolOptions
from kaput.scenario.groups import INSTANCE
from kaput.scenario.model import Group, Scenario, cluster_of_target
from kaput.scenario.timeline import step_id
from kaput.workload.client_spec import Instruction
from kaput.workload.counters import FIELDS, Counters
from kaput.workload.java.command_lines import JavaTools
from kaput.workload.librdkafka.versions import environment
from kaput.workload.moving import Destination, Hold
from kaput.workload.supervision.client_process import (
    READY_TIMEOUT_S,
    UNRELEASED,
    ClientProcess,
    MemberSlot,
    OnMessage,
    start_client,
)
from kaput.workload.supervision.launches import Launch, LaunchPlan


class ProducerHandle(PausableProcess):
    """Producer `number`; it may have had several processes."""

    def __init__(self, number: int, supervisor: Supervisor) -> None:
        self.id, self._supervisor = number, supervisor

    @property
    def title(self) -> str:
        return f"producer {self.id}"

    @property
    def pid(self) -> int | None:
        return self._started().pid

    @property
    def running(self) -> bool:
        return self._started().process.running

    def start(self) -> None:
        """Starts it again if it does not run: it goes on with its next message. Raises LabError."""
        if not self.running:
            self._supervisor.start_again(self.id)

    def expect_return(self) -> None:
        """The load is not over before it is started again, once it was killed."""
        self._started().returns = True

    def kill(self) -> int:
        """SIGKILLs it; returns when it ended (ns). Raises LabError."""
        try:
            return self._started().kill()
        except LabError:
            self._started().returns = False
            raise

    def terminate(self, timeout_s: float) -> bool:
        """Raises LabError."""
        raise LabError("producers are not ended")

    def _started(self) -> ClientProcess:
        return self._supervisor.process_of_producer(self.id)


MARGIN_S = 20.0  # for closing and opening clients, in addition to waiting for outcomes
JOIN_S = 60.0


@dataclass(frozen=True)
class Mover:
    """A process whose clients are moved, which reports `reports` times."""

    client: ClientProcess
    reports: int = 1

    def over(self, kind: str) -> bool:
        """Whether it will not report that: it has ended, or has nothing left to move."""
        last = "done" if kind == "held" else "sent"
        return not self.client.process.running or self.client.reported[last].is_set()


@dataclass(frozen=True)
class Moved:
    """The result: the clients' reports, sentences about those that were late, and where members started."""

    reports: list[Mapping[str, Any]]
    late: list[str]
    began: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def given_up(self) -> int:
        """Messages without an outcome when their producer was held."""
        return sum(report.get("given_up", 0) for report in self.reports)

    @property
    def errors(self) -> list[str]:
        """Errors that producers reported, and continued despite."""
        return [report["error"] for report in self.reports if report.get("error")]


def hold_all(movers: Sequence[Mover], hold: Hold) -> Moved:
    fields = {"settle_ms": round(hold.settle_s * 1000), "commit": hold.commit}
    return _instruct_all(movers, "hold", "held", 2 * hold.settle_s + MARGIN_S, fields)


def move_all(movers: Sequence[Mover], to: Destination) -> Moved:
    return _instruct_all(movers, "move", "moved", JOIN_S, vars(to))


def _instruct_all(
    movers: Sequence[Mover],
    instruction: Instruction,
    report: Literal["held", "moved"],
    limit_s: float,
    fields: Mapping[str, Any],
) -> Moved:
    running = [mover for mover in movers if mover.client.process.running]
    before = {id(mover): len(mover.client.moves[report]) for mover in running}
    begun = {id(mover): len(mover.client.moves["began"]) for mover in running}
    for mover in running:
        mover.client.send(instruction, **fields)

    def waits(mover: Mover) -> bool:
        reported = len(mover.client.moves[report]) - before[id(mover)]
        return reported < mover.reports and not mover.over(report)

    limit, waiting = time.monotonic() + limit_s, running
    while waiting and time.monotonic() < limit:
        time.sleep(0.01)
        waiting = [mover for mover in waiting if waits(mover)]
    reports = [each for mover in running for each in mover.client.moves[report][before[id(mover)] :]]
    late = [f"{mover.client.name} has not {report} within {limit_s:.0f} s" for mover in waiting]
    began = [each for mover in running for each in mover.client.moves["began"][begun[id(mover)] :]]
    return Moved(reports, late, began)


class Supervisor:
    """All producers and group members of one scenario. `on_threshold(n, at_ns)` is called from another
    thread; `servers`: bootstrap servers by cluster, if there are several; `has_acted`: whether the effect of
    a step of the scenario has begun.
    """

    def __init__(
        self,
        owner: Owner,
        scenario: Scenario,
        folder: RunFolder,
        run_id: uuid.UUID,
        bootstrap_servers: str,
        thresholds: list[int],
        on_threshold: Callable[[int, int], None],
        *,
        access: AccessOf = lambda cluster, user: OPEN,
        distribution: Distribution | None = None,
        stores: Mapping[str, str] | None = None,
        servers: Mapping[str, str] | None = None,
        tag: str = "",
        has_acted: Callable[[str], bool] = lambda step: False,
    ) -> None:
        self._scenario, self._folder, self._on_threshold = scenario, folder, on_threshold
        self._owner, self._has_acted = owner, has_acted
        self._scratch = folder.path / "clients"
        self._scratch.mkdir(exist_ok=True)
        counters = self._scratch / "counters"
        self._counters = Counters(counters, len(scenario.producer_specs()), create=True)
        java = JavaTools(self._scratch, distribution, scenario.cluster.kafka, access, self._private)
        self._plan = LaunchPlan(
            scenario,
            folder,
            run_id,
            bootstrap_servers,
            thresholds,
            counters,
            java,
            access,
            stores or {},
            servers or {},
            tag,
        )
        self._slots_lock = threading.Lock()
        self.producers: list[ClientProcess] = []  # several producers may share a process
        self._by_number: dict[int, ClientProcess] = {}
        self._moved_to: dict[int, str] = {}  # the current cluster of each moved producer
        self.members: list[MemberSlot] = []
        self._began_ns = 0

    def start(self) -> None:
        """Starts every client and waits until all are ready. Raises LabError."""
        for group in self._scenario.workload.groups:
            self._start_group(group)
        for numbers, launch in self._plan.producers():
            self.producers.append(self._start(launch, self._on_message))
            self._by_number.update(dict.fromkeys(numbers, self.producers[-1]))
        limit = time.monotonic() + READY_TIMEOUT_S
        for client in self.producers:
            client.await_ready(limit)
        for slot in self.members:
            slot.await_ready(limit)

    def _start_group(self, group: Group) -> None:
        """Starts its members. Those of the protocol of type consumer join when the group has assigned its
        partitions: a coordinator that converts it before answers with UNKNOWN_SERVER_ERROR (Kafka 4.4.0).
        """
        slots = [self.member(group.id, number) for number in range(1, group.members + 1)]
        first = len(slots) - (group.consumer_members or 0)
        for slot in slots[:first]:
            slot.start()
        if group.consumer_members is not None:
            limit = time.monotonic() + READY_TIMEOUT_S
            for slot in slots[:first]:
                slot.await_ready(limit)
        for slot in slots[first:]:
            slot.start()

    def libraries(self) -> dict[str, list[str]]:
        """By kind of client, the libraries with versions that its processes reported."""
        by_kind: dict[str, set[str]] = {}
        for client in self._clients():
            by_kind.setdefault(client.kind, set()).update({client.library} - {""})
        return {kind: sorted(libraries) for kind, libraries in sorted(by_kind.items()) if libraries}

    def member(self, group: str, number: int) -> MemberSlot:
        """That slot in that group, created if necessary."""
        with self._slots_lock:
            for slot in self.members:
                if (slot.group, slot.id) == (group, number):
                    return slot
            spec = next(one for one in self._scenario.workload.groups if one.id == group)

            def launch(number: int, name: str, on_message: OnMessage) -> ClientProcess:
                return self._start(self._plan.member(spec, number, name), on_message)

            def why_fenced(error: str) -> str:
                return self._why_fenced(spec, number, error)

            slot = MemberSlot(self._folder.path, group, number, launch, spec.cluster, why_fenced)
            self.members.append(slot)
            return slot

    def _why_fenced(self, group: Group, number: int, error: str) -> str:
        """Why a member may have got this error: `member 2 has the same group.instance.id`; empty if nothing
        in the scenario explains it.
        """
        started = {slot.id: slot.clients for slot in self.members_of(group.id) if slot.clients}
        others, why = [str(n) for n in group.same_instance(number, started) if n in started], list[str]()
        if others:
            who = "member {} has" if len(others) == 1 else "members {} have"
            why.append(f"{who.format(' and '.join(others))} the same {INSTANCE}")
        # A group of type consumer keeps the id of a static member that was killed until its session ends.
        if error == UNRELEASED and any(client.killed for client in started[number][:-1]):
            why.append(f"its killed process still has its {INSTANCE}")
        cluster = self.cluster_of_group(group.id) or group.cluster
        for count, step in self._scenario.numbered_faults():
            options, of = step.options, cluster_of_target(self._scenario, step.target)
            if (
                not isinstance(options, ProtocolOptions)
                or options.error != error
                or of not in (None, cluster)
            ):
                continue
            if self._has_acted(step_id(count, step)):
                why.append(f"a step answered {options.api} with {error}")
        return ", and ".join(dict.fromkeys(why))

    def members_of(self, group: str) -> list[MemberSlot]:
        """All slots of that group, by number; some may have no process now."""
        with self._slots_lock:
            return sorted((slot for slot in self.members if slot.group == group), key=lambda slot: slot.id)

    def producer(self, number: int) -> ProducerHandle:
        """That producer, as faults see it. Raises LabError if there is none."""
        if number not in self._by_number:
            raise LabError(f"there is no producer {number}")
        return ProducerHandle(number, self)

    def process_of_producer(self, number: int) -> ClientProcess:
        return self._by_number[number]

    def start_again(self, number: int) -> None:
        """Starts a killed producer again, with its number and ids. Raises LabError."""
        killed = self._by_number[number]
        process = 1 + sum(client.producer == number for client in self.producers)
        passed_ms = (time.time_ns() - self._began_ns) // MS
        try:
            client = self._start(self._plan.producer_again(number, process, passed_ms), self._on_message)
            self._by_number[number] = client
            self.producers.append(client)
        finally:
            killed.returns = False
        try:
            client.await_ready(time.monotonic() + READY_TIMEOUT_S)
            client.go()
        except LabError:
            client.killed = True  # its end is part of the fault, and not of the lab
            raise

    def has_members(self, group: str) -> bool:
        return any(slot.running for slot in self.members_of(group))

    def hold_producers(self, numbers: Collection[int] | None = None, hold: Hold | None = None) -> Moved:
        """Makes these producers (default: all) stop sending; messages in flight finish, or are given up."""
        return hold_all(self._producers(numbers), hold or Hold())

    def move_producers(self, to: Destination, numbers: Collection[int] | None = None) -> Moved:
        """Makes these producers continue there; returns when each has reported it, or is late."""
        movers = self._producers(numbers)
        self._moved_to.update(dict.fromkeys(self._by_number if numbers is None else numbers, to.cluster))
        return move_all(movers, to)

    def hold_groups(self, groups: Collection[str] | None = None, hold: Hold | None = None) -> Moved:
        """Makes the members of these groups (default: all) leave."""
        return hold_all(self._members(groups), hold or Hold())

    def move_groups(self, to: Destination, groups: Collection[str] | None = None) -> Moved:
        """Makes groups continue there, at their offsets; returns when each member joined, or is late."""
        moved = [each.id for each in self._scenario.workload.groups if groups is None or each.id in groups]
        self._plan.destinations.update(dict.fromkeys(moved, to))
        for slot in self.members:
            slot.cluster = to.cluster if slot.group in moved else slot.cluster
        return move_all(self._members(groups), to)

    def cluster_of_producer(self, number: int) -> str | None:
        """The cluster it was last moved to; None if it was not moved."""
        return self._moved_to.get(number)

    def cluster_of_stores(self) -> str | None:
        """The cluster of the producers that use stores; None if there is only one cluster."""
        specs = self._scenario.producer_specs()
        with_stores = [n for n, spec in enumerate(specs) if spec.on_failure is not None]
        return (self._moved_to.get(with_stores[0]) or specs[with_stores[0]].cluster) if with_stores else None

    def cluster_of_group(self, group: str) -> str | None:
        """The cluster it was last moved to; None if it was not moved."""
        to = self._plan.destinations.get(group)
        return None if to is None else to.cluster

    def _producers(self, numbers: Collection[int] | None) -> list[Mover]:
        movers: dict[int, Mover] = {}
        for number, client in self._by_number.items():
            if numbers is None or number in numbers:
                reports = movers[id(client)].reports + 1 if id(client) in movers else 1
                movers[id(client)] = Mover(client, reports)
        return list(movers.values())

    def _members(self, groups: Collection[str] | None) -> list[Mover]:
        slots = [slot for slot in self.members if slot.running]
        return [Mover(slot.client) for slot in slots if groups is None or slot.group in groups]

    def go(self) -> int:
        """Lets every producer start; returns the time (ns). Raises LabError if one has already ended."""
        self._began_ns = time.time_ns()
        for client in self.producers:
            client.go()
        return self._began_ns

    def count(self, name: str) -> int:
        """The live total of one counter: attempted, or an outcome."""
        return self._counters.total(FIELDS.index(name))

    def acked(self, producer: int) -> int:
        """The live count of that producer's acknowledgements."""
        return int(self._counters.row(producer)[FIELDS.index("acked")])

    def all_reported(self, kind: str) -> bool:
        """Whether every producer reported `sent` or `done`, or was killed. Raises LabError if one ended."""
        for client in self.producers:
            client.check(kind)
        over = [client.killed or client.reported[kind].is_set() for client in self.producers]
        return all(over) and not any(client.returns and client.killed for client in self.producers)

    def troubles(self) -> list[str]:
        """Sentences about members that ended on their own, and about errors of the user's own programs."""
        ended = [text for slot in self.members for text in slot.unexpected_ends()]
        return ended + [text for client in self._clients() for text in client.findings]

    def notes(self) -> list[str]:
        """Sentences about producers' clients that ended at a fatal error, and about members that did for
        their group.instance.id, as the scenario asks.
        """
        found = [client.notes for client in self.producers] + [slot.fencings for slot in self.members]
        return [text for notes in found for text in notes]

    def killed_producers(self) -> set[int]:
        """The numbers of producers that a fault killed."""
        return {
            client.producer for client in self._clients() if client.killed and client.producer is not None
        }

    def stop_members(self, groups: Collection[str] | None = None, timeout_s: float = 30) -> None:
        """Makes members (of these groups only) leave; one that does not is later killed by the owner."""
        among = [slot for slot in self.members if groups is None or slot.group in groups]
        running = [slot.client for slot in among if slot.running]
        for client in running:
            client.process.signal(signal.SIGTERM)
        limit = time.monotonic() + timeout_s
        for client in running:
            # A dead member never reports it.
            while client.process.running and time.monotonic() < limit:
                if client.reported["done"].wait(0.1):
                    break

    def tidy(self) -> None:
        """Removes the live counters and empty error files; keeps the specs, which hold the settings."""
        for path in self._scratch.glob("counters*"):
            path.unlink(missing_ok=True)
        for client in self._clients():
            if client.stderr.stat().st_size == 0:
                client.stderr.unlink()

    def _clients(self) -> list[ClientProcess]:
        return [*self.producers, *(client for slot in self.members for client in slot.clients)]

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == "threshold":
            self._on_threshold(message["n"], message["at_ns"])

    def _private(self) -> Path:
        """A folder that only its owner can read, removed when the processes end."""
        return self._owner.own_path(Path(tempfile.mkdtemp(prefix="kaput-")))

    def _start(self, launch: Launch, on_message: OnMessage) -> ClientProcess:
        module = f"kaput.workload.{launch.module}"
        env = None if launch.version is None else environment(launch.version)
        client = start_client(self._owner, self._scratch, launch.name, module, launch.spec, on_message, env)
        client.producer, client.kind = launch.producer, launch.kind
        return client
