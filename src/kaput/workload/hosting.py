"""How a process lives that hosts a client which is a program of its own: command_*.py and java_*.py.

A program that dies, hangs or prints rubbish is a finding about it; the process itself ends in good order, and
says what producer.py and member.py say. Both end at SIGTERM, or when nobody holds their stdin any more.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import Protocol

from kaput.workload.commanded import Commanded, CommandError
from kaput.workload.order import say

ITS_COMMAND = "its command"  # what a program of the scenario's own is called


class HostedSender(Protocol):
    """Records what a program sends; `counts` begin with the attempts and the acknowledgements."""

    stopping: threading.Event

    @property
    def program(self) -> Commanded: ...

    @property
    def counts(self) -> Sequence[int]: ...

    def send_all(self) -> None:
        """Until the last attempt, or until it is told to stop. Raises CommandError."""

    def finish(self) -> None:
        """Until every outcome is known. Raises CommandError."""

    def close(self) -> None:
        """Everything that is known is on record, and nothing of the program is left."""


class HostedMember(Protocol):
    """Records what a program says that it was delivered."""

    stopping: threading.Event

    @property
    def program(self) -> Commanded: ...

    def run(self) -> None:
        """Until it is told to stop. Raises CommandError."""

    def close(self, left: bool) -> None:
        """Everything that is known is on record, and nothing of the program is left."""


def produce(sender: HostedSender, who: str) -> None:
    """From the moment at which the program is ready until all is said; `who` is what it is called."""
    say("ready")
    sys.stdin.readline()
    threading.Thread(target=_stop_when_abandoned, args=(sender.stopping,), daemon=True).start()
    findings = []
    try:
        sender.send_all()
        say("sent", attempted=int(sender.counts[0]))
        sender.finish()
    except CommandError as error:
        findings.append(str(error))
    sender.close()
    for finding in (*findings, sender.program.rubbish()):
        if finding is not None:
            say("finding", message=f"{who}: {finding}")
    if findings:
        say("sent", attempted=int(sender.counts[0]))
    say("done", attempted=int(sender.counts[0]), acked=int(sender.counts[1]))


def consume(member: HostedMember, who: str) -> None:
    """From the program's start until all is said. Ends with SystemExit where it ended before it was told."""
    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())
    threading.Thread(target=_stop_when_abandoned, args=(member.stopping,), daemon=True).start()
    trouble = None
    try:
        member.run()
    except CommandError as error:
        trouble = f"{who}: {error}"
    member.close(left=trouble is None)
    rubbish = member.program.rubbish()
    if rubbish is not None:
        say("finding", message=f"{who}: {rubbish}")
    if trouble is not None:
        say("trouble", message=trouble)
        raise SystemExit(1)
    say("done")


def no_program(who: str, error: CommandError) -> SystemExit:
    """What to raise where the program cannot be started; says why."""
    say("trouble", message=f"{who}: {error}")
    return SystemExit(1)


def _stop_when_abandoned(stopping: threading.Event) -> None:
    sys.stdin.read()
    stopping.set()
