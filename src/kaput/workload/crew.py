"""The crew: every client process of a run, started, told to go, listened to, and ended.

Its place: run/ owns a Crew; the processes themselves are producer.py and member.py.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from kaput.cluster.access import OPEN, Access
from kaput.cluster.distribution import Distribution
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import Owner
from kaput.scenario.model import Group, Scenario
from kaput.workload.client import READY_TIMEOUT_S, Client, OnSaid, start
from kaput.workload.counters import FIELDS, Counters
from kaput.workload.java_commands import JavaTools
from kaput.workload.orders import Orders, Task
from kaput.workload.post import Post
from kaput.workload.seat import Seat


class Crew:
    """All producers and group members of one scenario. `on_threshold(n, at_ns)` is called from a thread."""

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
        access: Callable[[str], Access] = lambda user: OPEN,
        distribution: Distribution | None = None,
    ) -> None:
        self._scenario, self._folder, self._on_threshold = scenario, folder, on_threshold
        self._owner = owner
        self._scratch = folder.path / "clients"
        self._scratch.mkdir(exist_ok=True)
        self._specs = scenario.producer_specs()
        counters = self._scratch / "counters"
        self._counters = Counters(counters, len(self._specs), create=True)
        java = JavaTools(self._scratch, distribution, scenario.cluster.kafka, access, self._private)
        self._orders = Orders(scenario, folder, run_id, bootstrap_servers, thresholds, counters, java, access)
        self._seating = threading.Lock()
        self.producers: list[Client] = []
        self.members: list[Seat] = []

    def start(self) -> None:
        """Starts every client and waits until all are ready. Raises LabError."""
        for group in self._scenario.workload.groups:
            for number in range(1, group.members + 1):
                self.member(group.id, number).start()
        for number, spec in enumerate(self._specs):
            self.producers.append(self._start(self._orders.producer(number, spec), self._on_said))
        limit = time.monotonic() + READY_TIMEOUT_S
        for client in self.producers + [seat.client for seat in self.members]:
            client.await_ready(limit)

    def member(self, group: str, number: int) -> Seat:
        """That place in that group, made where there was none."""
        with self._seating:
            for seat in self.members:
                if (seat.group, seat.id) == (group, number):
                    return seat
            spec = next(one for one in self._scenario.workload.groups if one.id == group)

            def launch(number: int, name: str, on_said: OnSaid) -> Client:
                return self._start_member(spec, number, name, on_said)

            self.members.append(Seat(self._folder.path, group, number, launch))
            return self.members[-1]

    def members_of(self, group: str) -> list[Seat]:
        """Every place in that group, by number; some may have no process now."""
        with self._seating:
            return sorted((seat for seat in self.members if seat.group == group), key=lambda seat: seat.id)

    def producer(self, number: int) -> Post:
        """That producer, as faults see it. Raises LabError where there is none."""
        if not 0 <= number < len(self.producers):
            raise LabError(f"there is no producer {number}")
        return Post(number, self.producers[number])

    def has_members(self, group: str) -> bool:
        """Whether anybody is left in that group, to read what it has not read yet."""
        return any(seat.running for seat in self.members_of(group))

    def go(self) -> int:
        """Lets every producer start; the moment, in ns. Raises LabError when one has ended meanwhile."""
        now = time.time_ns()
        for client in self.producers:
            client.go()
        return now

    def count(self, name: str) -> int:
        """The live sum of one counter: attempted, acked, failed or unknown."""
        return self._counters.total(FIELDS.index(name))

    def all_said(self, kind: str) -> bool:
        """Whether every producer has said `sent` or `done`. Raises LabError when one ended without."""
        for client in self.producers:
            client.check(kind)
        return all(client.said[kind].is_set() for client in self.producers)

    def troubles(self) -> list[str]:
        """Sentences about members that ended on their own, and about what others' programs did wrong."""
        ended = [said for seat in self.members for said in seat.told_troubles()]
        return ended + [said for client in self._clients() for said in client.findings]

    def killed_producers(self) -> set[int]:
        """Numbers of producers whose process a fault has killed."""
        return {
            client.producer for client in self._clients() if client.killed and client.producer is not None
        }

    def stop_members(self, groups: Collection[str] | None = None, timeout_s: float = 30) -> None:
        """Members (of these groups alone) leave in good order; one that does not is ended with the owner."""
        among = [seat for seat in self.members if groups is None or seat.group in groups]
        running = [seat.client for seat in among if seat.running]
        for client in running:
            client.process.signal(signal.SIGTERM)
        limit = time.monotonic() + timeout_s
        for client in running:
            # One that has died will not say it any more.
            while client.process.running and time.monotonic() < limit:
                if client.said["done"].wait(0.1):
                    break

    def tidy(self) -> None:
        """Removes the live counters and empty error files; the orders stay, they hold the settings."""
        for path in self._scratch.glob("counters*"):
            path.unlink(missing_ok=True)
        for client in self._clients():
            if client.stderr.stat().st_size == 0:
                client.stderr.unlink()

    def _clients(self) -> list[Client]:
        return [*self.producers, *(client for seat in self.members for client in seat.clients)]

    def _start_member(self, group: Group, number: int, name: str, on_said: OnSaid) -> Client:
        return self._start(self._orders.member(group, number, name), on_said)

    def _on_said(self, said: Mapping[str, Any]) -> None:
        if said["kind"] == "threshold":
            self._on_threshold(said["n"], said["at_ns"])

    def _private(self) -> Path:
        """A folder that its owner alone enters, and that goes when the processes do."""
        return self._owner.own_path(Path(tempfile.mkdtemp(prefix="kaput-")))

    def _start(self, task: Task, on_said: OnSaid) -> Client:
        module = f"kaput.workload.{task.module}"
        client = start(self._owner, self._scratch, task.name, module, task.order, on_said)
        client.producer = task.producer
        return client
