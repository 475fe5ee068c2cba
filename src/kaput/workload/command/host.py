"""Runs a client that is another program, from start to end: the user's own, or one of Kafka's in Java.

A program that dies, hangs or prints unknown lines is a finding about it; the process that hosts it ends
cleanly, and reports what librdkafka/producer.py and member.py report. It ends at SIGTERM or at the end of its
stdin.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import (
    MemberSpec,
    ProducerSpec,
    client_properties,
    follow_input,
    notify,
    stop_at_sigterm,
)
from kaput.workload.command.program import ClientProgram, ProgramError, line_of
from kaput.workload.payload import Codec


class MemberRecord:
    """Records one member. Thread-safe."""

    def __init__(self, spec: MemberSpec) -> None:
        self._spec = spec
        folder = Path(spec.folder)
        self._deliveries = Recorder(folder, "deliveries", spec.writer, spec.cluster)
        self._events = Recorder(folder, "group_events", spec.writer, spec.cluster)
        self._codec = Codec(uuid.UUID(spec.run_id))
        self._recording = threading.Lock()
        self._assigned: set[TopicPartition] = set()
        self.joined_ns: int | None = None

    def joined(self, at_ns: int) -> None:
        """Called when it has joined its group, with or without partitions."""
        self.event("joined", at_ns)
        if not self._assigned:
            self.event("assigned", at_ns)

    def changed(self, kind: str, places: Sequence[TopicPartition], at_ns: int) -> None:
        """Called when partitions were `assigned`, `revoked` or `lost`; reports what it owns now."""
        for place in places:
            if kind == "assigned":
                self._assigned.add(place)
            else:
                self._assigned.discard(place)
            self.event(kind, at_ns, *place)
        notify("owns", partitions=sorted(self._assigned), at_ns=at_ns)

    def delivered(self, topic: str, partition: int, offset: int, payload: bytes | None, at_ns: int) -> None:
        intact, identity = self._codec.decode(payload)
        producer, seq = (None, None) if identity is None else identity[:2]
        with self._recording:
            self._deliveries.row(
                group=self._spec.group, member=self._spec.member, topic=topic, partition=partition,
                offset=offset, producer=producer, seq=seq, intact=intact, polled_ns=at_ns,
            )  # fmt: skip

    def event(
        self,
        kind: str,
        at_ns: int,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        if kind == "joined":
            self.joined_ns = at_ns
        with self._recording:
            self._events.row(
                group=self._spec.group, member=self._spec.member, kind=kind, topic=topic,
                partition=partition, offset=offset, at_ns=at_ns,
            )  # fmt: skip

    def moved(self, cluster: str) -> None:
        """From now on rows are about that cluster."""
        with self._recording:
            self._deliveries.flush()
            self._events.flush()
            self._deliveries.cluster = self._events.cluster = cluster

    def flush(self) -> None:
        """Flushes everything recorded so far to the operating system."""
        with self._recording:
            # Deliveries first, so that they are recorded before their commits.
            self._deliveries.flush()
            self._events.flush()

    def close(self, left: bool) -> None:
        """Ends the recording. `left`: it left its group cleanly."""
        if left:
            self.event("left", time.time_ns())
        with self._recording:
            self._deliveries.close()
            self._events.close()


READY_S = 50.0  # a little less than the supervisor waits
FLUSH_S = 0.1
LEAVE_S = 20.0


class HostedMember(ABC):
    """Records the deliveries, assignments and commits that a program prints. Subclasses start `program`."""

    program: ClientProgram
    library = ""
    """The library that it reports."""

    def __init__(self, spec: MemberSpec) -> None:
        self.record = MemberRecord(spec)
        self.stopping, self.ready = threading.Event(), threading.Event()

    @abstractmethod
    def await_ready(self) -> None:
        """Waits until the program is a member of its group. Raises ProgramError."""

    def take(self, message: Mapping[str, Any]) -> None:  # noqa: B027 - most have no instructions
        """Takes an instruction from another thread."""

    def follow(self) -> None:  # noqa: B027 - most have no instructions
        """Carries out pending instructions. Raises ProgramError."""

    @abstractmethod
    def early_end(self) -> str:
        """A sentence about a program that ended on its own without an error status."""

    def run(self) -> None:
        """Reads until stopped. Raises ProgramError if the program ends before that."""
        self.await_ready()
        notify("ready", library=self.library, at_ns=self.record.joined_ns)
        while not self.stopping.wait(FLUSH_S):
            self.record.flush()
            self.follow()
            if not self.program.running:
                break
        stopped = self.stopping.is_set()
        self.program.stop(LEAVE_S)
        if not stopped:
            raise ProgramError(self.early_end())

    def close(self, left: bool) -> None:
        """Records everything that is known, and ends the program."""
        self.program.close()
        self.record.close(left)


def serve(make: Callable[[Any, Path], HostedMember], spec: type[MemberSpec], who: str) -> None:
    """Runs one member until SIGTERM or the end of stdin. `who` names it in messages. Raises SystemExit if its
    program cannot be started, or ended on its own.
    """
    path = Path(sys.argv[1])
    try:
        member = make(spec(**json.loads(path.read_text())), path.with_suffix(".command.err"))
    except ProgramError as error:
        raise start_failure(who, error) from None
    notify("client-pid", pid=member.program.pid)
    stop_at_sigterm(member.stopping.set)
    follow_input(member.stopping.set, member.take)
    trouble = None
    try:
        member.run()
    except ProgramError as error:
        trouble = f"{who}: {error}"
    member.close(left=trouble is None)
    protocol_violations = member.program.protocol_violations()
    if protocol_violations is not None:
        notify("finding", message=f"{who}: {protocol_violations}")
    if trouble is not None:
        notify("trouble", message=trouble)
        raise SystemExit(1)
    notify("done")


def move_line(spec: ProducerSpec | MemberSpec) -> bytes:
    """The line that tells a program to continue in another cluster; `spec`: what it does there."""
    servers = spec.config["bootstrap.servers"]
    place = {"bootstrap_servers": servers, "cluster": spec.cluster, **client_properties(spec)}
    return line_of(move=place)


def start_failure(who: str, error: ProgramError) -> SystemExit:
    """Reports why the program cannot be started; returns the exception to raise."""
    notify("trouble", message=f"{who}: {error}")
    return SystemExit(1)
