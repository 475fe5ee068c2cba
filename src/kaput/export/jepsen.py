"""Writes a run as a history in EDN, one operation per line, for Jepsen's Kafka checker (jepsen.tests.kafka).

Each message is a transaction of one send; records that a member received together are one poll; the drain's
reading of the whole log is the last polls. A process has one operation in progress at a time, so a producer
has as many processes per partition as it had messages in flight there. Times are ns since the start of the
run. Not here: reading and sorting events (events.py, rows.py).
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path

from kaput.core import FOREVER_NS, NULL_LONG
from kaput.evidence.reading import Evidence
from kaput.export.events import ERROR, KEY, OFFSET, PRODUCER, SEQ, EventKind, EventReader
from kaput.export.rows import CHUNK_ROWS, Rows, in_order

PRODUCER_SHIFT = 40  # a message's value is producer * 2**40 + seq
_DRAIN_POLL_RECORDS = 500
_TYPES = {int(EventKind.ACKED): "ok", int(EventKind.FAILED): "fail", int(EventKind.UNKNOWN): "info"}

Row = list[int]
Sender = tuple[int, int]  # a producer and a key


class History:
    """The operations of one run. `operations` and `skipped` are complete once `lines` is exhausted."""

    def __init__(self, evidence: Evidence, scratch: Path, chunk_rows: int = CHUNK_ROWS) -> None:
        self._events = EventReader(evidence)
        self._started_ns = evidence.manifest.started_ns
        self._ended_ns = evidence.manifest.ended_ns
        self._last_ns = self._started_ns
        self._scratch, self._chunk_rows = scratch, chunk_rows
        self._processes = _Processes()
        self._owned: dict[int, set[int]] = {}
        self.operations = 0

    @property
    def keys(self) -> list[str]:
        """The topic-partition of each key, from 0."""
        return [f"{topic}/{partition}" for topic, partition in self._events.names.keys]

    @property
    def skipped(self) -> int:
        """The number of records and deliveries left out, because they are not intact messages of this run."""
        return self._events.skipped

    def lines(self) -> Iterator[str]:
        """The lines of the history. Raises OSError, EvidenceError."""
        rows = self._rows(self._events.client_events())
        # Records that a member received together have the same time.
        for (ns, kind, who), some in groupby(rows, key=lambda row: (row[0], row[1], row[2])):
            if ns != FOREVER_NS:
                self._last_ns = max(self._last_ns, ns)
            match kind:
                case EventKind.DELIVERED:
                    poll_lines = self._share_poll if who in self._share_members else self._poll
                    yield from poll_lines(self._processes.of_member(who), list(some))
                case EventKind.GIVEN_UP | EventKind.ASSIGNED:
                    yield from self._assignment(who, kind, list(some))
                case EventKind.ATTEMPT:
                    for row in some:
                        yield self._attempt(row)
                case _:
                    for row in some:
                        yield self._outcome(row)
        yield from self._drain()

    @cached_property
    def _share_members(self) -> frozenset[int]:
        """Members of share groups. Evaluated after all members are known."""
        return self._events.share_group_members

    def _rows(self, batches: Iterable[Rows]) -> Iterator[Row]:
        for rows in in_order(batches, self._scratch, self._chunk_rows):
            yield from rows.T.tolist()

    def _attempt(self, row: Row) -> str:
        process = self._processes.begin((row[PRODUCER], row[KEY]), (row[PRODUCER], row[SEQ]))
        return self._line("invoke", process, "send", f"[[:send {row[KEY]} {_value(row)}]]")

    def _outcome(self, row: Row) -> str:
        kind = _TYPES[row[1]]
        process = self._processes.end((row[PRODUCER], row[SEQ]), row[OFFSET], free=kind != "info")
        value = f"{_value(row)}"
        if kind == "ok":
            value = f"[{'nil' if row[OFFSET] == NULL_LONG else row[OFFSET]} {value}]"
        error = "" if row[ERROR] == NULL_LONG else f", :error {self._error(row[ERROR])}"
        return self._line(kind, process, "send", f"[[:send {row[KEY]} {value}]]", error)

    def _share_poll(self, process: int, rows: list[Row]) -> Iterator[str]:
        """A poll of a share group: the checker must not expect any order within it or across polls."""
        yield from self._assign(process, [])
        keys = " ".join(map(str, sorted({row[KEY] for row in rows})))
        yield from self._poll(process, rows, f", :rebalance-log [{{:keys [{keys}]}}]")

    def _poll(self, process: int, rows: list[Row], more: str = "") -> Iterator[str]:
        """A poll, with records by partition and offset."""
        rows.sort(key=lambda row: (row[KEY], row[OFFSET]))
        by_key = (
            f"{key} [{' '.join(f'[{row[OFFSET]} {_value(row)}]' for row in some)}]"
            for key, some in groupby(rows, key=lambda row: row[KEY])
        )
        yield self._line("invoke", process, "poll", "[[:poll]]")
        yield self._line("ok", process, "poll", f"[[:poll {{{', '.join(by_key)}}}]]", more)

    def _assignment(self, who: int, kind: int, rows: list[Row]) -> Iterator[str]:
        """The member's assignment from now on: the checker expects continuity only for these keys."""
        owned = self._owned.setdefault(who, set())
        changed = {row[KEY] for row in rows}
        if kind == EventKind.ASSIGNED:
            owned |= changed - {-1}
        elif -1 in changed:
            owned.clear()
        else:
            owned -= changed
        yield from self._assign(self._processes.of_member(who), sorted(owned))

    def _assign(self, process: int, keys: list[int], more: str = "") -> Iterator[str]:
        value = f"[{' '.join(map(str, keys))}]"
        yield self._line("invoke", process, "assign", value, more)
        yield self._line("ok", process, "assign", value, more)

    def _drain(self) -> Iterator[str]:
        """Polls of a fresh reader that reads every partition from beginning to end."""
        self._last_ns = max(self._last_ns, self._ended_ns or self._last_ns)
        process = self._processes.of_member(-1)
        keys = list(range(len(self._events.names.keys)))
        yield from self._assign(process, keys, ", :seek-to-beginning? true")
        rows = self._rows(self._events.drain_events())
        while some := list(islice(rows, _DRAIN_POLL_RECORDS)):
            yield from self._poll(process, some)

    def _error(self, number: int) -> str:
        """An error as an EDN string, which has the same escapes as JSON; non-ASCII is not escaped."""
        return json.dumps(self._events.names.texts[number], ensure_ascii=False)

    def _line(self, kind: str, process: int, f: str, value: str, more: str = "") -> str:
        index, self.operations = self.operations, self.operations + 1
        ns = self._last_ns - self._started_ns
        head = f":index {index}, :time {ns}, :type :{kind}, :process {process}"
        return f"{{{head}, :f :{f}, :value {value}{more}}}\n"


def _value(row: Row) -> int:
    """The value of a message: a unique number."""
    return (row[PRODUCER] << PRODUCER_SHIFT) + row[SEQ]


class _Processes:
    """Assigns the process numbers of operations. A process has one operation at a time.

    A process sends to one partition. Jepsen compares the offsets of consecutive sends of a process: of the
    free processes, the one with the highest offset sends next, so that a send whose offset is below one
    acknowledged before its attempt is always noticed.
    """

    def __init__(self) -> None:
        self._count = 0
        self._members: dict[int, int] = {}
        self._free: dict[Sender, list[tuple[int, int]]] = {}  # heap of (minus its last offset, process)
        self._busy: dict[tuple[int, int], tuple[Sender, int, int]] = {}

    def _new(self) -> int:
        self._count += 1
        return self._count - 1

    def of_member(self, who: int) -> int:
        """The process of a member: always the same."""
        if who not in self._members:
            self._members[who] = self._new()
        return self._members[who]

    def begin(self, sender: Sender, message: tuple[int, int]) -> int:
        """Starts a send. Returns a free process of the sender."""
        free = self._free.setdefault(sender, [])
        behind, process = heapq.heappop(free) if free else (0, self._new())
        self._busy[message] = sender, behind, process
        return process

    def end(self, message: tuple[int, int], offset: int, free: bool) -> int:
        """Ends the send of a message. Returns its process, which is reused only if `free`."""
        sender, behind, process = self._busy.pop(message)
        if free:
            at = behind if offset == NULL_LONG else -offset
            heapq.heappush(self._free[sender], (at, process))
        return process
