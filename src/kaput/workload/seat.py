"""A place in a consumer group, `member N of G`: its process may be killed, stopped, paused, and come again.

What ends a member through this class is intended; any other end is a trouble of the lab. A process that takes
the place again is a member of its own in the evidence: `member-2`, then `member-2.2`. What the members say of
their partitions is kept, so that faults can tell whether a group has given them to others.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.recorder import Recorder
from kaput.processes.ownership import OwnedProcess
from kaput.processes.states import cpu_seconds, is_stopped
from kaput.workload.client import Client, OnSaid
from kaput.workload.order import file_name

Launch = Callable[[int, str, OnSaid], Client]  # (number, member, who listens)


@dataclass(frozen=True)
class Worked:
    """What a member said of its pace: the milliseconds that each record is to take, and what they took."""

    ms: int
    records: int
    spent_ns: int


class Seat:
    """Member `number` of a group. `launch` starts a process for it, under a name of its own."""

    def __init__(self, folder: Path, group: str, number: int, launch: Launch) -> None:
        self.group, self.id = group, number
        self._folder, self._launch = folder, launch
        self._clients: list[Client] = []
        self._intended = True
        self.troubles: list[str] = []
        self.owned: list[tuple[int, frozenset[TopicPartition]]] = []
        """Its partitions from each moment (ns) on, in the order of time."""
        self.worked: Worked | None = None

    @property
    def title(self) -> str:
        """How it is called in sentences and as a target."""
        return f"member {self.id} of {self.group}"

    @property
    def client(self) -> Client:
        """Its process of now. Raises LabError before the first."""
        if not self._clients:
            raise LabError(f"{self.title} was never started")
        return self._clients[-1]

    @property
    def clients(self) -> list[Client]:
        """Every process that it has had."""
        return list(self._clients)

    @property
    def process(self) -> OwnedProcess:
        """The same, as a process."""
        return self.client.process

    @property
    def member(self) -> str:
        """What its process of now is called in the evidence."""
        count = len(self._clients)
        return f"member-{self.id}" if count < 2 else f"member-{self.id}.{count}"

    @property
    def pid(self) -> int | None:
        """The process id; None before the first start."""
        return self.client.pid if self._clients else None

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused one runs in this sense."""
        return bool(self._clients) and self.process.running

    @property
    def ready(self) -> bool:
        """Whether its process has its place in the group."""
        return bool(self._clients) and self.client.said["ready"].is_set()

    def owns(self) -> frozenset[TopicPartition]:
        """Its partitions, as it said last."""
        return self.owned[-1][1] if self.owned else frozenset()

    def start(self) -> None:
        """Starts a process for it; does nothing while one runs. Returns before that is ready."""
        if self.running:
            return
        self._note_end()
        count = len(self._clients) + 1
        name = f"member-{self.id}" if count == 1 else f"member-{self.id}.{count}"
        self._intended = False
        self._clients.append(self._launch(self.id, name, self._on_said))

    def kill(self) -> int:
        """SIGKILL, recorded in group_events; the moment (ns) at which it was gone. Raises LabError."""
        self._intended = True
        at_ns = self.client.kill()
        self._gone(at_ns)
        # A file of its own: the member's is as its death left it.
        writer = f"{file_name(f'{self.group}-{self.member}')}~killed"
        with Recorder(self._folder, "group_events", writer) as events:
            events.row(self.group, self.member, "killed", None, None, None, at_ns)
        return at_ns

    def terminate(self, timeout_s: float) -> bool:
        """SIGTERM, at which it leaves in good order; whether it ended within `timeout_s`."""
        self._intended = True
        self.process.signal(signal.SIGTERM)
        if self.process.wait(timeout_s) is None:
            return False
        self._gone(self.process.ended_ns or time.time_ns())
        return True

    def pause(self) -> None:
        """SIGSTOP; is_stopped tells when every thread stands still."""
        self.client.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.client.signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Whether it is in the stopped state, with all of its threads."""
        return self.running and is_stopped(self.client.pid)

    def cpu_seconds(self) -> float:
        """CPU time that its process has used. Raises LabError when it has ended."""
        used = cpu_seconds(self.client.pid)
        if used is None:
            raise LabError(f"{self.title} has ended")
        return used

    def work(self, ms: int | None) -> None:
        """Each record takes `ms` from now on (None: as long as before); it answers in `worked`."""
        if ms is not None:
            self.client.tell("pace", ms=ms)
        self.client.tell("tell")

    def told_troubles(self) -> list[str]:
        """Sentences about processes of it that ended on their own."""
        self._note_end()
        return self.troubles

    def _note_end(self) -> None:
        if not self._clients or self._intended or self.running:
            return
        if not self.client.had_said("done") or self.client.trouble:
            self.troubles.append(self.client.ended())
            self._intended = True

    def _gone(self, at_ns: int) -> None:
        self.owned.append((at_ns, frozenset()))

    def _on_said(self, said: Mapping[str, Any]) -> None:
        if said["kind"] == "owns":
            places = frozenset(TopicPartition(*each) for each in said["partitions"])
            self.owned.append((said["at_ns"], places))
        elif said["kind"] == "pace":
            self.worked = Worked(said["ms"], said["records"], said["spent_ns"])
