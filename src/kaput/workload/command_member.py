"""A member of a group that is somebody else's program: `python -m kaput.workload.command_member ORDER.json`.

Records what the program says it was handed, assigned and has committed, as member.py does with librdkafka. A
program that ends before it is told to, hangs or prints rubbish is a finding about it. Ends at SIGTERM or when
stdin closes: the program's input is closed then, and it is given a while to leave its group.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kaput.core import TopicPartition
from kaput.evidence.schemas import SEEK
from kaput.workload.command_producer import READY_S
from kaput.workload.commanded import Commanded, CommandError, Line, integer, line_of, places
from kaput.workload.hosting import ITS_COMMAND, consume, no_program
from kaput.workload.member_record import MemberRecord
from kaput.workload.order import CommandMemberOrder, properties_of, say

FLUSH_S = 0.1
LEAVE_S = 20.0
_ASSIGNMENTS = ("assigned", "revoked", "lost")
_OFFSETS = ("committed", SEEK)


class CommandMember:
    """Listens to one program that is one member of one group."""

    def __init__(self, order: CommandMemberOrder, stderr: Path) -> None:
        self.order = order
        self.record = MemberRecord(order)
        self.stopping, self.ready = threading.Event(), threading.Event()
        # It may go on printing while it leaves: being told to stop is nothing that ends the listening.
        never = threading.Event()
        self.program = Commanded(order.command, stderr, READY_S, self._said, never)

    def run(self) -> None:
        """Listens until told to stop. Raises CommandError where the program ends before that."""
        order = self.order
        self.program.tell(
            line_of(
                bootstrap_servers=order.config["bootstrap.servers"],
                group=order.group,
                topics=order.topics,
                member=order.member,
                isolation=order.isolation,
                config=order.client_config,
                **properties_of(order),
            )
        )
        self.program.await_(self.ready, "ready", READY_S)
        say("ready")
        while not self.stopping.wait(FLUSH_S):
            self.record.flush()
            if not self.program.running:
                break
        self.program.leave(LEAVE_S)
        if not self.stopping.is_set():
            raise CommandError("it ended on its own (exit status 0) before its input did")

    def close(self, left: bool) -> None:
        """Everything that is known is on record, and nothing of the program is left."""
        self.program.close()
        self.record.close(left)

    def _said(self, line: Line) -> str | None:
        """One line of the program's, in the thread that listens."""
        at_ns = time.time_ns()
        if line.get("ready") is True:
            if not self.ready.is_set():
                self.record.joined(at_ns)
            self.ready.set()
            return None
        for kind in _ASSIGNMENTS:
            if kind in line:
                return self._changed(kind, line[kind], at_ns)
        for kind in _OFFSETS:
            if kind in line:
                return self._located(kind, line[kind], at_ns)
        if "offset" in line:
            return self._delivered(line, at_ns)
        return "none of ready, assigned, revoked, lost, committed, seek and a delivery with its offset"

    def _delivered(self, line: Line, at_ns: int) -> str | None:
        topic, partition, offset = line.get("topic"), line.get("partition"), line["offset"]
        if not isinstance(topic, str) or not integer(partition) or not integer(offset):
            return "a delivery has topic, partition, offset and payload"
        try:
            payload = (
                None if line.get("payload") is None else base64.b64decode(line["payload"], validate=True)
            )
        except (binascii.Error, ValueError, TypeError):
            return "its payload is not base64"
        self.record.delivered(topic, partition, offset, payload, at_ns)
        return None

    def _changed(self, kind: str, value: Any, at_ns: int) -> str | None:
        found = places(value, 1)
        if found is None:
            return f"{kind} is a list of [topic, partition]"
        self.record.changed(kind, [TopicPartition(*each) for each in found], at_ns)
        return None

    def _located(self, kind: str, value: Any, at_ns: int) -> str | None:
        found = places(value, 2)
        if found is None:
            return f"{kind} is a list of [topic, partition, offset]"
        for topic, partition, offset in found:
            self.record.event(kind, at_ns, topic, partition, offset)
        return None


def main() -> None:
    """Runs one order until told to stop."""
    path = Path(sys.argv[1])
    order = CommandMemberOrder(**json.loads(path.read_text()))
    try:
        member = CommandMember(order, path.with_suffix(".command.err"))
    except CommandError as error:
        raise no_program(ITS_COMMAND, error) from None
    consume(member, ITS_COMMAND)


if __name__ == "__main__":
    main()
