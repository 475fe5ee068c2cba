"""A group member that is Kafka's own, in Java: `python -m kaput.workload.java.member SPEC.json`.

Starts VerifiableConsumer and records its deliveries, assignments and commits, as librdkafka/member.py does.
It prints each record before it commits, so everything printed before its end is recorded. Ends at SIGTERM or
when stdin closes. Share groups: share_member.py.

The output of Kafka's Verifiable tools is one JSON object each line. Times are whole milliseconds, and are
taken as the end of their millisecond, so that nothing looks shorter than it was.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from kaput.core import MS, TopicPartition
from kaput.workload.client_spec import JavaMemberSpec, run_client
from kaput.workload.command.host import READY_S, HostedMember, serve
from kaput.workload.command.program import ClientProgram, Line, integer

_LATEST_MS = 2**43  # the year 2248


def end_ns(line: Line, now_ns: int) -> int:
    """A line's time (ns); never later than `now_ns`, when it was read."""
    stamp = line.get("timestamp")
    if not integer(stamp) or stamp >= _LATEST_MS:
        return now_ns
    return min(stamp * MS + MS - 1, now_ns)


def parse_partition(value: Any) -> TopicPartition | None:
    """`{"topic": ..., "partition": ...}`; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    topic, partition = value.get("topic"), value.get("partition")
    if not isinstance(topic, str) or not integer(partition) or partition >= 2**31:
        return None
    return TopicPartition(topic, partition)


def parse_partitions(value: Any) -> list[TopicPartition] | None:
    """A list of such objects; None for anything else."""
    places = [parse_partition(each) for each in value] if isinstance(value, list) else [None]
    return None if None in places else [place for place in places if place is not None]


def parse_with(
    value: Any, name: str, valid: Callable[[Any], bool] = integer
) -> list[tuple[TopicPartition, Any]] | None:
    """A list of such objects, each with a valid field of that name; None for anything else."""
    places = parse_partitions(value)
    if places is None or not all(valid(each.get(name)) for each in value):
        return None
    return [(place, each[name]) for place, each in zip(places, value, strict=True)]


_SIGTERM_STATUS = 128 + signal.SIGTERM  # of a JVM whose shutdown hooks have run


class JavaProgram(ClientProgram):
    ok_statuses: ClassVar[frozenset[int]] = frozenset({0, _SIGTERM_STATUS})
    stop_request: ClassVar[str] = "SIGTERM"

    def _request_stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()


# The tool prints nothing for a member of type consumer without partitions: after this it counts as joined.
IDLE_S = 15.0
_IGNORED = frozenset({"shutdown_requested", "shutdown_complete", "records_consumed"})


class JavaMember(HostedMember):
    """Hosts one VerifiableConsumer. Raises ProgramError if it cannot be started."""

    tool = "Kafka's Java consumer"
    program: JavaProgram

    def __init__(self, spec: JavaMemberSpec, stderr: Path) -> None:
        super().__init__(spec)
        self.spec = spec
        self._begun = threading.Event()
        self._last_ns = 0
        # It prints while it leaves its group, so a stop request does not end the reading.
        self.program = JavaProgram(spec.command, stderr, READY_S, self.on_line, threading.Event())

    def early_end(self) -> str:
        return f"it ended on its own{self.program.error_output()}"

    def on_line(self, line: Line) -> str | None:
        """One line of output, in the reader thread; a clause about what is wrong with it, or None."""
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
        elif name not in _IGNORED:
            return f"not a line that {self.tool} prints"
        return None

    def _at(self, line: Line) -> int:
        """The line's time (ns), made strictly increasing: many lines have the same millisecond."""
        self._last_ns = max(self._last_ns + 1, end_ns(line, time.time_ns()))
        return self._last_ns

    def await_ready(self) -> None:
        self.program.await_event(self._begun, "started", READY_S)
        if self.spec.type == "consumer":
            self.ready.wait(IDLE_S)
            self._join(time.time_ns())
        self.program.await_event(self.ready, "a member of its group", READY_S)

    def _join(self, at_ns: int) -> None:
        if not self.ready.is_set():
            self.record.joined(at_ns)
            self.ready.set()

    def _changed(self, kind: str, line: Line, at_ns: int) -> str | None:
        places = parse_partitions(line.get("partitions"))
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
        place, offset, value = parse_partition(line), line.get("offset"), line.get("value")
        if place is None or not integer(offset) or not (value is None or isinstance(value, str)):
            return "record_data has topic, partition, offset and value"
        payload = None if value is None else value.encode("utf-8", "surrogatepass")
        self.record.delivered(*place, offset, payload, at_ns)
        return None

    def _committed(self, line: Line, at_ns: int) -> str | None:
        offsets = parse_with(line.get("offsets"), "offset")
        if offsets is None:
            return "its offsets are a list of topic, partition and offset"
        kind = "committed" if line.get("success") is True else "refused"
        for (topic, partition), offset in offsets:
            self.record.event(kind, at_ns, topic, partition, offset)
        return None


def main() -> None:
    serve(JavaMember, JavaMemberSpec, JavaMember.tool)


if __name__ == "__main__":
    run_client(main)
