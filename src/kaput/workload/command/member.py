"""A group member that is the user's own program: `python -m kaput.workload.command.member SPEC.json`.

Records the deliveries, assignments and commits that the program prints. A program that ends early, hangs or
prints unknown lines is a finding about it. Ends at SIGTERM or when stdin closes: then it closes the program's
input and waits a while for it to leave its group.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaput.core import TopicPartition
from kaput.evidence.schemas import SEEK
from kaput.workload.client_spec import CommandMemberSpec, client_properties, notify, run_client
from kaput.workload.command.host import READY_S, HostedMember, move_line, serve
from kaput.workload.command.program import (
    ClientProgram,
    Line,
    integer,
    line_of,
    partition_lists,
)
from kaput.workload.moving import Destination, Hold, Instructions, MoveTo

_ASSIGNMENTS = ("assigned", "revoked", "lost")
_OFFSETS = ("committed", SEEK)


class CommandMember(HostedMember):
    def __init__(self, spec: CommandMemberSpec, stderr: Path) -> None:
        super().__init__(spec)
        self._spec = spec
        self.instructions = Instructions()
        self._held, self._moved = threading.Event(), threading.Event()
        # It may print while it leaves its group, so a stop request does not end the reading.
        never = threading.Event()
        self.program = ClientProgram(spec.command, stderr, READY_S, self._on_line, never)

    def take(self, message: Mapping[str, Any]) -> None:
        self.instructions.take(message)

    def await_ready(self) -> None:
        spec = self._spec
        self.program.write(
            line_of(
                bootstrap_servers=spec.config["bootstrap.servers"],
                group=spec.group,
                topics=spec.topics,
                member=spec.member,
                isolation=spec.isolation,
                config=spec.client_config,
                **client_properties(spec),
            )
        )
        self.program.await_event(self.ready, "ready", READY_S)

    def follow(self) -> None:
        """Makes it leave its group, or join it in another cluster. Raises ProgramError."""
        match self.instructions.next(0):
            case Hold() as hold:
                self._hold(hold)
            case MoveTo() as move:
                if not self._held.is_set():
                    self._hold(Hold())
                self._move(move.to)

    def _hold(self, hold: Hold) -> None:
        began_ns = time.time_ns()
        self.program.write(line_of(hold={"commit": hold.commit}))
        self.program.await_event(self._held, "out of its group", READY_S)
        self.record.flush()
        notify("held", began_ns=began_ns, at_ns=time.time_ns(), positions=[])

    def _move(self, to: Destination) -> None:
        self._spec = to.applied_to(self._spec)
        self.record.moved(to.cluster)
        self._held.clear()
        self.program.write(move_line(self._spec))
        self.program.await_event(self._moved, "moved", READY_S)
        self._moved.clear()
        notify("moved", cluster=to.cluster, at_ns=time.time_ns())

    def early_end(self) -> str:
        return "it ended on its own (exit status 0) before its input did"

    def _on_line(self, line: Line) -> str | None:
        """One line of output, in the reader thread; a clause about what is wrong with it, or None."""
        at_ns = time.time_ns()
        if line.get("ready") is True:
            self.library = str(line.get("library", ""))[:100]
            if not self.ready.is_set():
                self.record.joined(at_ns)
            self.ready.set()
            return None
        if line.get("held") is True:
            self.record.event("left", at_ns)
            self._held.set()
            return None
        if line.get("moved") is True:
            self.record.joined(at_ns)
            self._moved.set()
            return None
        for kind in _ASSIGNMENTS:
            if kind in line:
                return self._changed(kind, line[kind], at_ns)
        for kind in _OFFSETS:
            if kind in line:
                return self._located(kind, line[kind], at_ns)
        if "offset" in line:
            return self._delivered(line, at_ns)
        return (
            "none of ready, held, moved, assigned, revoked, lost, committed, seek and a delivery with its "
            "offset"
        )

    def _delivered(self, line: Line, at_ns: int) -> str | None:
        topic, partition, offset = line.get("topic"), line.get("partition"), line["offset"]
        if not isinstance(topic, str) or not integer(partition) or not integer(offset):
            return "a delivery needs topic, partition, offset and payload"
        try:
            payload = (
                None if line.get("payload") is None else base64.b64decode(line["payload"], validate=True)
            )
        except (binascii.Error, ValueError, TypeError):
            return "its payload is not base64"
        self.record.delivered(topic, partition, offset, payload, at_ns)
        return None

    def _changed(self, kind: str, value: Any, at_ns: int) -> str | None:
        places = partition_lists(value, 1)
        if places is None:
            return f"{kind} is a list of [topic, partition]"
        self.record.changed(kind, [TopicPartition(*each) for each in places], at_ns)
        return None

    def _located(self, kind: str, value: Any, at_ns: int) -> str | None:
        places = partition_lists(value, 2)
        if places is None:
            return f"{kind} is a list of [topic, partition, offset]"
        for topic, partition, offset in places:
            self.record.event(kind, at_ns, topic, partition, offset)
        return None


def main() -> None:
    serve(CommandMember, CommandMemberSpec, "its command")


if __name__ == "__main__":
    run_client(main)
