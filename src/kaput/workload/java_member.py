"""A member of a group that is Kafka's own, in Java: `python -m kaput.workload.java_member ORDER.json`.

Starts VerifiableConsumer and records what it says that it was handed, assigned and has committed, as
member.py does with librdkafka. It says of each record that it was handed it before it commits, so that all
that it printed before its end is on record. Ends at SIGTERM or when stdin closes. Share
groups: java_share_member.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from kaput.workload.command_member import FLUSH_S, LEAVE_S
from kaput.workload.command_producer import READY_S
from kaput.workload.commanded import CommandError, Line, integer
from kaput.workload.hosting import consume, no_program
from kaput.workload.java_lines import offsets_of, over_ns, place_of, places_of
from kaput.workload.java_program import JavaProgram
from kaput.workload.member_record import MemberRecord
from kaput.workload.order import JavaMemberOrder, say

# A member of a group of type consumer that owns nothing is told nothing: it is idle by then.
IDLE_S = 15.0
_SAYS_NOTHING = frozenset({"shutdown_requested", "shutdown_complete", "records_consumed"})


class JavaMember:
    """Listens to one VerifiableConsumer. Raises CommandError where that cannot be started."""

    tool = "Kafka's Java consumer"

    def __init__(self, order: JavaMemberOrder, stderr: Path) -> None:
        self.order = order
        self.record = MemberRecord(order)
        self.stopping, self.ready, self._begun = threading.Event(), threading.Event(), threading.Event()
        self._last_ns = 0
        # It goes on printing while it leaves: being told to stop is nothing that ends the listening.
        self.program = JavaProgram(order.command, stderr, READY_S, self.heard, threading.Event())

    def run(self) -> None:
        """Listens until told to stop. Raises CommandError where the program ends before that."""
        self._await_ready()
        say("ready")
        while not self.stopping.wait(FLUSH_S):
            self.record.flush()
            if not self.program.running:
                break
        told = self.stopping.is_set()
        self.program.leave(LEAVE_S)
        if not told:
            raise CommandError(f"it ended on its own{self.program.last_words()}")

    def close(self, left: bool) -> None:
        """Everything that is known is on record, and nothing of the program is left."""
        self.program.close()
        self.record.close(left)

    def heard(self, line: Line) -> str | None:
        """One line of the program's, in the thread that listens."""
        name, at_ns = line.get("name"), self._at(line)
        if name == "record_data":
            return self._delivered(line, at_ns)
        if name == "partitions_assigned":
            return self._changed("assigned", line, at_ns)
        if name == "partitions_revoked":
            return self._changed("revoked", line, at_ns)
        if name == "offsets_committed":
            return self._committed(line, at_ns)
        if name == "startup_complete":
            self._begun.set()
        elif name not in _SAYS_NOTHING:
            return f"none of what {self.tool} prints"
        return None

    def _at(self, line: Line) -> int:
        """When it happened: in the order of the lines, of which many have the same millisecond."""
        self._last_ns = max(self._last_ns + 1, over_ns(line, time.time_ns()))
        return self._last_ns

    def _await_ready(self) -> None:
        self.program.await_(self._begun, "started", READY_S)
        if self.order.type == "consumer":
            self.ready.wait(IDLE_S)
            self._join(time.time_ns())
        self.program.await_(self.ready, "a member of its group", READY_S)

    def _join(self, at_ns: int) -> None:
        if not self.ready.is_set():
            self.record.joined(at_ns)
            self.ready.set()

    def _changed(self, kind: str, line: Line, at_ns: int) -> str | None:
        places = places_of(line.get("partitions"))
        if places is None:
            return "its partitions are a list of topic and partition"
        if kind == "assigned" and not self.ready.is_set():
            self.record.event("joined", at_ns)
        if kind == "assigned" and not places and not self.ready.is_set():
            self.record.event("assigned", at_ns)
        self.record.changed(kind, places, at_ns)
        if kind == "assigned":
            self.ready.set()
        return None

    def _delivered(self, line: Line, at_ns: int) -> str | None:
        place, offset, value = place_of(line), line.get("offset"), line.get("value")
        if place is None or not integer(offset) or not (value is None or isinstance(value, str)):
            return "record_data has topic, partition, offset and value"
        payload = None if value is None else value.encode("utf-8", "surrogatepass")
        self.record.delivered(*place, offset, payload, at_ns)
        return None

    def _committed(self, line: Line, at_ns: int) -> str | None:
        offsets = offsets_of(line.get("offsets"))
        if offsets is None:
            return "its offsets are a list of topic, partition and offset"
        kind = "committed" if line.get("success") is True else "refused"
        for (topic, partition), offset in offsets:
            self.record.event(kind, at_ns, topic, partition, offset)
        return None


def serve(make: type[JavaMember]) -> None:
    """Runs one order until told to stop."""
    path = Path(sys.argv[1])
    order = JavaMemberOrder(**json.loads(path.read_text()))
    try:
        member = make(order, path.with_suffix(".java.err"))
    except CommandError as error:
        raise no_program(make.tool, error) from None
    say("body", pid=member.program.pid)
    consume(member, make.tool)


def main() -> None:
    """Runs one order until told to stop."""
    serve(JavaMember)


if __name__ == "__main__":
    main()
