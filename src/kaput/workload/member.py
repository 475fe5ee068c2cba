"""One member of a consumer group, a process of its own: `python -m kaput.workload.member ORDER.json`.

Polls, works on each record, records it, flushes, and only then commits, unless the scenario has it commit
before: so a SIGKILL at any moment loses no delivery whose offset was committed. Says `ready` when it has its
place in the group, also one without partitions, and `done` at its end; ends at SIGTERM or when stdin closes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.evidence.identity import Codec
from kaput.evidence.recorder import Recorder
from kaput.processes.lean import leave_out_pandas
from kaput.workload.commits import Commits
from kaput.workload.deliveries import Deliveries, positions_after
from kaput.workload.garbage import collect_seldom
from kaput.workload.order import MemberOrder, say, settings_of
from kaput.workload.pace import Pace
from kaput.workload.quiet import quiet_logger
from kaput.workload.refusals import Refusals
from kaput.workload.serving import serve
from kaput.workload.standing import Standing

AT_ONCE = 2048  # messages taken from the client together
AT_ONCE_WORKING = 500  # where each takes its time: the Java client's max.poll.records
POLL_S = 0.05
FLUSH_ROWS = 8192
FLUSH_S = 0.1
_error: Any = Message.error


class Member:
    """Reads as one member of one group and records what it was handed."""

    def __init__(self, order: MemberOrder) -> None:
        self.order = order
        folder, writer = Path(order.folder), order.writer
        self.recorder = Recorder(folder, "deliveries", writer)
        self.events = Recorder(folder, "group_events", writer)
        self.deliveries = Deliveries(self.recorder, order, Codec(uuid.UUID(order.run_id)))
        self.stopping = threading.Event()
        self.pace = Pace(order.processing_ms)
        self._ready = False
        self._flushed_at = time.monotonic()
        self._assigned: set[TopicPartition] = set()
        self._gave_up = False  # whether a partition was taken away since the last delivery
        self._commits = Commits(
            order, lambda at: self._event("committed", at), lambda at: self._event("refused", at)
        )
        settings = settings_of(order)
        self._refusals = Refusals(settings)
        config = {**settings, "on_commit": self._commits.answered, "enable.auto.offset.store": False}
        self.client = self._commits.client = Consumer(config, logger=quiet_logger())

    def run(self) -> None:
        """Polls until told to stop, then leaves the group in good order."""
        self.client.subscribe(
            self.order.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        standing = self._standing()
        while not self.stopping.is_set():
            self.pace.settle()
            messages = self._receive()
            if messages:
                self._handle(messages, time.time_ns())
            self._housekeeping(idle=not messages)
            if standing is not None and (self._ready or standing.idle()):
                self._enter()
                standing = None
        self._flush()
        self._commits.now(wait=True)
        self.client.close()
        self._event("left")
        self.recorder.close()
        self.events.close()

    def _standing(self) -> Standing | None:
        return Standing(self.client) if self.order.type == "consumer" else None

    def _receive(self) -> list[Message]:
        """What the client has for us, after a wait for the first; nothing of partitions it took away."""
        first = self.client.poll(POLL_S)
        if first is None:
            return []
        # With timeout 0 it gives what it has fetched already and waits for nothing.
        messages = [first, *self.client.consume(self._at_once() - 1, 0)] if self._at_once() > 1 else [first]
        if any(map(_error, messages)):
            self._stop_at_the_end(messages)
            messages = [message for message in messages if message.error() is None]
        if self._gave_up:
            # A rebalance within the two calls may come after some of their messages.
            messages = [m for m in messages if (m.topic(), m.partition()) in self._assigned]
            self._gave_up = False
        return messages

    def _at_once(self) -> int:
        """How many records a poll takes: no more than are committed together, where that comes first."""
        most = AT_ONCE_WORKING if self.pace.ms else AT_ONCE
        return min(most, self.order.commit_every or most) if self.order.commit == "before" else most

    def _stop_at_the_end(self, messages: list[Message]) -> None:
        """A client with a fatal error, such as another member with its instance id, is given nothing more.
        One that is refused would ask again for ever.
        """
        for message in messages:
            error = message.error()
            if error is None:
                continue
            refused = self._refusals.of_member(error, self.order.group, self.order.topics)
            if (refused or error.fatal()) and not self.stopping.is_set():
                say("trouble", message=refused or f"{error.name()}: {error.str()}")
                self.stopping.set()

    def _handle(self, messages: list[Message], polled_ns: int) -> None:
        """Everything that was handed to us just now: committed before or after it is worked on."""
        before, sync = self.order.commit == "before", self.order.commit_sync
        if before:
            self._commits.note(positions_after(messages), len(messages))
            self._commits.now(wait=sync)
        at = 0
        while at < len(messages):
            if self.stopping.is_set() and not before:
                return  # the rest is for others: nothing of it was committed
            size = 1 if self.pace.ms else (None if before else self._commits.room()) or len(messages)
            part = messages[at : at + size]
            # A nanosecond apart, in the order in which they were handed to us.
            self.delivered(part, polled_ns + at)
            at += len(part)
            if at < len(messages):
                self._housekeeping(idle=False)

    def delivered(self, messages: list[Message], polled_ns: int) -> None:
        """Works on messages that were handed to us together, and takes them down."""
        if self.pace.ms:
            for _ in messages:
                self.pace.work()
        positions = self.deliveries.take(messages, polled_ns)
        if self.order.commit != "before":
            self._commits.note(positions, len(messages))
        elif self.pace.ms:
            self._flush()  # what is committed and not on record was not worked on

    def _housekeeping(self, idle: bool) -> None:
        now = time.monotonic()
        pending = self.deliveries.pending
        if pending and (idle or pending >= FLUSH_ROWS or now - self._flushed_at >= FLUSH_S):
            self._flush()
            self._flushed_at = now
        if self._commits.due(idle):
            self._flush()
            self._commits.now(wait=self.order.commit_sync)

    def _flush(self) -> None:
        self.deliveries.flush()
        self.events.flush()

    def _event(self, kind: str, at: PartitionOffset | None = None) -> None:
        if at is None:
            self.events.row(self.order.group, self.order.member, kind, None, None, None, time.time_ns())
        else:
            offset = at.offset if at.offset >= 0 else None
            self.events.row(
                self.order.group, self.order.member, kind, at.topic, at.partition, offset, time.time_ns()
            )

    def _enter(self) -> None:
        """The group counts us in: once, with partitions or without."""
        if self._ready:
            return
        self._ready = True
        if not self._assigned:
            self._event("joined")
            self._event("assigned")
        self._flush()
        self._say_owned()
        say("ready")

    def _on_assign(self, _client: Consumer, partitions: list[PartitionOffset]) -> None:
        if not self._ready and partitions:
            self._event("joined")
        for at in partitions:
            place = TopicPartition(at.topic, at.partition)
            self._assigned.add(place)
            self._commits.forget(place)
            self._event("assigned", at)
        if self._ready and not self._assigned:
            self._event("assigned")
        self._flush()
        if self._ready:
            self._say_owned()
        self._enter()

    def _on_revoke(self, _client: Consumer, partitions: list[PartitionOffset]) -> None:
        self._flush()
        self._commits.now(wait=True)
        self._gone("revoked", partitions)

    def _on_lost(self, _client: Consumer, partitions: list[PartitionOffset]) -> None:
        self._gone("lost", partitions)

    def _gone(self, kind: str, partitions: list[PartitionOffset]) -> None:
        self._gave_up = True
        for at in partitions:
            place = TopicPartition(at.topic, at.partition)
            self._assigned.discard(place)
            self._commits.forget(place)
            self._event(kind, PartitionOffset(*place))
        self._flush()
        self._say_owned()

    def _say_owned(self) -> None:
        say("owns", partitions=sorted(self._assigned), at_ns=time.time_ns())


def main() -> None:
    """Runs one order until told to stop."""
    leave_out_pandas()
    collect_seldom()
    serve(Member(MemberOrder(**json.loads(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    main()
