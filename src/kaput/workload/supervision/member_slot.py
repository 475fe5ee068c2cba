"""A slot in a consumer group, `member N of G`: its process may be killed, stopped, paused and started again.

A process that this class ends was meant to end; any other exit is a failure of the lab. A process started
again in the same slot is a new member in the evidence: `member-2`, then `member-2.2`. The slot records which
partitions its members report, so that faults can tell whether the group has reassigned them.
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
from kaput.processes.pausable import PausableProcess
from kaput.workload.client_spec import file_name
from kaput.workload.supervision.client_process import ClientProcess, OnMessage

Launch = Callable[[int, str, OnMessage], ClientProcess]  # (number, member name, message handler)


@dataclass(frozen=True)
class MemberPace:
    """How fast a member works: the milliseconds each record should take, and what records took in total."""

    ms: int
    records: int
    spent_ns: int


class MemberSlot(PausableProcess):
    """Member `number` of a group. `launch` starts a process for it under a new name."""

    def __init__(
        self, folder: Path, group: str, number: int, launch: Launch, cluster: str | None = None
    ) -> None:
        self.group, self.id, self.cluster = group, number, cluster
        self._folder, self._launch = folder, launch
        self._clients: list[ClientProcess] = []
        self._intended = True
        self.troubles: list[str] = []
        self.owned: list[tuple[int, frozenset[TopicPartition]]] = []
        """Its partitions from each time (ns) on, in order of time."""
        self.pace_report: MemberPace | None = None

    @property
    def title(self) -> str:
        """Its name in messages and as a target."""
        return f"member {self.id} of {self.group}"

    @property
    def client(self) -> ClientProcess:
        """Its current process. Raises LabError before the first start."""
        if not self._clients:
            raise LabError(f"{self.title} was never started")
        return self._clients[-1]

    @property
    def clients(self) -> list[ClientProcess]:
        """All processes it has had."""
        return list(self._clients)

    @property
    def process(self) -> OwnedProcess:
        """Its current process, as an owned process."""
        return self.client.process

    @property
    def member(self) -> str:
        """The name of its current process in the evidence."""
        count = len(self._clients)
        return f"member-{self.id}" if count < 2 else f"member-{self.id}.{count}"

    @property
    def pid(self) -> int | None:
        """The process id; None before the first start."""
        return self.client.pid if self._clients else None

    @property
    def running(self) -> bool:
        """Whether its process exists; a paused process counts as running."""
        return bool(self._clients) and self.process.running

    @property
    def ready(self) -> bool:
        """Whether its process has joined the group."""
        return bool(self._clients) and self.client.reported["ready"].is_set()

    def owns(self) -> frozenset[TopicPartition]:
        """Its partitions, as last reported."""
        return self.owned[-1][1] if self.owned else frozenset()

    def start(self) -> None:
        """Starts a process for it; does nothing if one runs. Does not wait until it is ready."""
        if self.running:
            return
        self._note_end()
        count = len(self._clients) + 1
        name = f"member-{self.id}" if count == 1 else f"member-{self.id}.{count}"
        self._intended = False
        self._clients.append(self._launch(self.id, name, self._on_message))

    def kill(self) -> int:
        """SIGKILLs it and records that in group_events; returns when it ended (ns). Raises LabError."""
        self._intended = True
        at_ns = self.client.kill()
        self._gone(at_ns)
        # A separate file: the member's own stays as the kill left it.
        writer = f"{file_name(f'{self.group}-{self.member}')}~killed"
        with Recorder(self._folder, "group_events", writer, self.cluster) as events:
            events.row(group=self.group, member=self.member, kind="killed", at_ns=at_ns)
        return at_ns

    def committed(self, offsets: Mapping[TopicPartition, int], at_ns: int) -> None:
        """Records offsets that an operator committed for its group, under its name."""
        writer = f"{file_name(f'{self.group}-{self.member}')}~reset"
        with Recorder(self._folder, "group_events", writer, self.cluster) as events:
            for (topic, partition), offset in offsets.items():
                events.row(
                    group=self.group, member=self.member, kind="committed", at_ns=at_ns,
                    topic=topic, partition=partition, offset=offset,
                )  # fmt: skip

    def terminate(self, timeout_s: float) -> bool:
        """Sends SIGTERM, on which it leaves its group; returns whether it ended within `timeout_s`."""
        self._intended = True
        self.process.signal(signal.SIGTERM)
        if self.process.wait(timeout_s) is None:
            return False
        self._gone(self.process.ended_ns or time.time_ns())
        return True

    def work(self, ms: int | None) -> None:
        """Makes each record take `ms` from now on (None: no change); the answer arrives in `pace_report`."""
        if ms is not None:
            self.client.send("pace", ms=ms)
        self.client.send("report-pace")

    def unexpected_ends(self) -> list[str]:
        """Sentences about its processes that ended on their own."""
        self._note_end()
        return self.troubles

    def _note_end(self) -> None:
        if not self._clients or self._intended or self.running:
            return
        if not self.client.has_reported("done") or self.client.trouble:
            self.troubles.append(self.client.ended())
            self._intended = True

    def _started(self) -> ClientProcess:
        return self.client

    def _gone(self, at_ns: int) -> None:
        self.owned.append((at_ns, frozenset()))

    def _on_message(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == "owns":
            places = frozenset(TopicPartition(*each) for each in message["partitions"])
            self.owned.append((message["at_ns"], places))
        elif message["kind"] == "pace":
            self.pace_report = MemberPace(message["ms"], message["records"], message["spent_ns"])
