"""Runs a client that is another program, from start to end: the user's own, or one of Kafka's in Java.

A program that dies, hangs or prints unknown lines is a finding about it; the process that hosts it ends
cleanly, and reports what librdkafka/producer.py and member.py report. It ends at SIGTERM or at the end of its
stdin.
"""

from __future__ import annotations

import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from kaput.workload.client_main import Take, follow_input, ignore
from kaput.workload.client_spec import MemberSpec, ProducerSpec, client_properties, notify
from kaput.workload.command.member_record import MemberRecord
from kaput.workload.command.program import Program, ProgramError, line_of

READY_S = 50.0  # a little less than the supervisor waits
FLUSH_S = 0.1
LEAVE_S = 20.0
COMMAND = "its command"  # the name of the user's own member in messages


class HostedProducer(Protocol):
    """Records what a program sends; `counts` begin with attempts and acknowledgements."""

    stopping: threading.Event
    library: str
    """The library that the program reports; empty if none."""

    @property
    def program(self) -> Program: ...

    @property
    def counts(self) -> Sequence[int]: ...

    def send_all(self) -> None:
        """Returns after the last attempt, or when stopped. Raises ProgramError."""

    def finish(self) -> None:
        """Returns when every outcome is known. Raises ProgramError."""

    def close(self) -> None:
        """Records everything that is known, and ends the program."""


class HostedMember(ABC):
    """Records the deliveries, assignments and commits that a program prints. Subclasses start `program`."""

    program: Program
    library = ""
    """The library that it reports."""

    def __init__(self, spec: MemberSpec) -> None:
        self.record = MemberRecord(spec)
        self.stopping, self.ready = threading.Event(), threading.Event()

    @abstractmethod
    def await_ready(self) -> None:
        """Waits until the program is a member of its group. Raises ProgramError."""

    def follow(self) -> None:  # noqa: B027 - most have no instructions
        """Carries out pending instructions. Raises ProgramError."""

    @abstractmethod
    def early_end(self) -> str:
        """A sentence about a program that ended on its own without an error status."""

    def run(self) -> None:
        """Reads until stopped. Raises ProgramError if the program ends before that."""
        self.await_ready()
        notify("ready", library=self.library)
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


def run_producer(sender: HostedProducer, who: str, take: Take = ignore) -> None:
    """Runs a producer whose program is ready, until everything is reported. `who` names it in messages;
    `take` gets its instructions.
    """
    notify("ready", library=sender.library)
    sys.stdin.readline()
    follow_input(sender.stopping.set, take)
    findings = []
    try:
        sender.send_all()
        notify("sent", attempted=int(sender.counts[0]))
        sender.finish()
    except ProgramError as error:
        findings.append(str(error))
    sender.close()
    for finding in (*findings, sender.program.protocol_violations()):
        if finding is not None:
            notify("finding", message=f"{who}: {finding}")
    if findings:
        notify("sent", attempted=int(sender.counts[0]))
    notify("done", attempted=int(sender.counts[0]), acked=int(sender.counts[1]))


def run_member(member: HostedMember, who: str, take: Take = ignore) -> None:
    """Runs a member until everything is reported. Raises SystemExit if its program ended on its own."""
    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())
    follow_input(member.stopping.set, take)
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
