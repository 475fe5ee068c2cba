"""A share group member that is Kafka's own: `python -m kaput.workload.java.share_member SPEC.json`.

Starts VerifiableShareConsumer, whose next poll accepts the records of the previous one; records the
deliveries, acceptances and the broker's confirmations. It prints neither delivery counts nor assignments.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import JavaMemberSpec, run_client
from kaput.workload.command.host import READY_S, serve
from kaput.workload.command.program import Line, integer
from kaput.workload.java.member import JavaMember, parse_partition, parse_with

_IGNORED = frozenset(
    {"shutdown_requested", "shutdown_complete", "records_consumed", "offset_reset_strategy_set"}
)


def _are_offsets(value: Any) -> bool:
    return isinstance(value, list) and all(map(integer, value))


class JavaShareMember(JavaMember):
    """Hosts one VerifiableShareConsumer. Raises ProgramError if it cannot be started."""

    tool = "Kafka's Java share consumer"

    def __init__(self, spec: JavaMemberSpec, stderr: Path) -> None:
        self._share_events = Recorder(Path(spec.folder), "share_events", spec.writer, spec.cluster)
        super().__init__(spec, stderr)

    def on_line(self, line: Line) -> str | None:
        name, at_ns = line.get("name"), self._at(line)
        if name == "record_data":
            return self._on_acquired(line, at_ns)
        if name == "offsets_acknowledged":
            return self._on_acknowledged(line, at_ns)
        if name == "startup_complete":
            self._begun.set()
        elif name not in _IGNORED:
            return f"not a line that {self.tool} prints"
        return None

    def close(self, left: bool) -> None:
        super().close(left)
        self._share_events.close()

    def await_ready(self) -> None:
        self.program.await_event(self._begun, "started", READY_S)
        self.record.event("joined", time.time_ns())

    def _on_acquired(self, line: Line, at_ns: int) -> str | None:
        wrong = self._delivered(line, at_ns)
        place = parse_partition(line)
        if wrong is None and place is not None and integer(line["offset"]):
            self._rows("acquired", place, [line["offset"]], at_ns)
            self._rows("accepting", place, [line["offset"]], at_ns)
        return wrong

    def _on_acknowledged(self, line: Line, at_ns: int) -> str | None:
        places = parse_with(line.get("partitions"), "offsets", _are_offsets)
        if places is None:
            return "its partitions are a list of topic, partition and offsets"
        done = line.get("success") is True
        error = None if done else str(line.get("error"))[:500]
        for place, offsets in places:
            self._rows("accepted" if done else "failed", place, sorted(offsets), at_ns, error)
        return None

    def _rows(
        self, kind: str, place: TopicPartition, offsets: list[int], at_ns: int, error: str | None = None
    ) -> None:
        self._share_events.batch(
            len(offsets),
            {
                "group": self.spec.group,
                "member": self.spec.member,
                "kind": kind,
                "topic": place[0],
                "partition": place[1],
                "offset": np.array(offsets, np.int64),
                "delivery_count": None,
                "at_ns": at_ns,
                "error": error,
            },
        )


def main() -> None:
    serve(JavaShareMember, JavaMemberSpec, JavaShareMember.tool)


if __name__ == "__main__":
    run_client(main)
