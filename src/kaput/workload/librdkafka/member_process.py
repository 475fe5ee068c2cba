"""What members share: how their process runs and ends, the pace of their work, whether they have joined."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from confluent_kafka import Consumer

from kaput.workload.client_spec import Take, follow_input, ignore, notify, stop_at_sigterm


class StoppableMember(Protocol):
    """A member that checks `stopping` regularly."""

    stopping: threading.Event
    pace: Pace

    def run(self) -> None:
        """Works until stopped, then leaves its group."""


def run_member(member: StoppableMember, take: Take = ignore) -> None:
    """Runs a member until it is stopped, and reports `done`. `take` gets other instructions."""

    def take_pace(message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "pace":
                member.pace.change(message["ms"])
            case "report-pace":
                notify("pace", **member.pace.measured())
            case _:
                take(message)

    stop_at_sigterm(member.stopping.set)
    follow_input(member.stopping.set, take_pace)
    member.run()
    notify("done")


class Pace:
    """Works `ms` on each record. Counts records and their time since the pace was last changed."""

    def __init__(self, ms: int) -> None:
        self._lock = threading.Lock()
        self._wanted = self._ms = ms
        self._records = self._spent_ns = 0

    @property
    def ms(self) -> int:
        """How long each record takes from now on; 0: no time."""
        return self._wanted

    def change(self, ms: int) -> None:
        """From the next record on, each takes `ms`."""
        with self._lock:
            self._wanted = ms

    def settle(self) -> None:
        """Called between two records: applies a change of pace, and restarts the count."""
        with self._lock:
            if self._ms != self._wanted:
                self._ms = self._wanted
                self._records = self._spent_ns = 0

    def work(self, spend: Callable[[float], None] = time.sleep) -> None:
        """Spends the time of one record; `spend` takes seconds."""
        self.settle()
        began = time.perf_counter_ns()
        if self._ms:
            spend(self._ms / 1000)
        with self._lock:
            self._records += 1
            self._spent_ns += time.perf_counter_ns() - began

    def measured(self) -> dict[str, int]:
        """The pace, and the records and nanoseconds since it was last changed."""
        with self._lock:
            return {"ms": self._ms, "records": self._records, "spent_ns": self._spent_ns}


_MAGIC = b"CGMDv2:"  # then the epoch in native byte order, then strings
_SETTLED_S = 1.0


class GroupMembership:
    """The membership of one client of type consumer."""

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._since: float | None = None

    def settled(self) -> bool:
        """Whether it has been a member for a second: its first partitions are assigned by then."""
        if member_epoch(self._client.consumer_group_metadata()) <= 0:
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        return time.monotonic() - self._since >= _SETTLED_S


def member_epoch(metadata: object) -> int:
    """The member's epoch; -1 if it has none, or the metadata has another format."""
    if not isinstance(metadata, bytes) or not metadata.startswith(_MAGIC):
        return -1
    return int.from_bytes(metadata[len(_MAGIC) : len(_MAGIC) + 4], sys.byteorder, signed=True)
