"""One member of a consumer group, a process of its own: `python -m kaput.workload.member ORDER.json`.

Polls, records, flushes, and only then commits: a SIGKILL at any moment loses no delivery whose offset was
committed. Says `ready` at its first assignment and `done` at its end; ends at SIGTERM or when stdin closes.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kaput.evidence.identity import Codec
from kaput.evidence.recorder import Recorder
from kaput.workload.deliveries import Deliveries, Place
from kaput.workload.garbage import collect_seldom
from kaput.workload.order import MemberOrder, say
from kaput.workload.quiet import quiet_logger

AT_ONCE = 2048  # messages taken from the client together
POLL_S = 0.05
FLUSH_ROWS = 8192
FLUSH_S = 0.1
COMMIT_S = 0.5
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
        self._ready = False
        self._flushed_at = self._committed_at = time.monotonic()
        self._assigned: set[Place] = set()
        self._gave_up = False  # whether a partition was taken away since the last delivery
        self._positions: dict[Place, int] = {}
        # Commits are ours alone, unless the scenario asks for the client's own.
        self._commits = not order.config.get("enable.auto.commit", False)
        config = {**order.config, "on_commit": self._on_commit, "enable.auto.offset.store": False}
        self.client = Consumer(config, logger=quiet_logger())

    def run(self) -> None:
        """Polls until told to stop, then leaves the group in good order."""
        self.client.subscribe(
            self.order.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        while not self.stopping.is_set():
            messages = self._receive()
            if messages:
                self.delivered(messages, time.time_ns())
            self._housekeeping(idle=not messages)
        self._flush()
        self._commit(wait=True)
        self.client.close()
        self._event("left")
        self.recorder.close()
        self.events.close()

    def _receive(self) -> list[Message]:
        """What the client has for us, after a wait for the first; nothing of partitions it took away."""
        first = self.client.poll(POLL_S)
        if first is None:
            return []
        # With timeout 0 it gives what it has fetched already and waits for nothing.
        messages = [first, *self.client.consume(AT_ONCE - 1, 0)]
        if any(map(_error, messages)):
            messages = [message for message in messages if message.error() is None]
        if self._gave_up:
            # A rebalance within the two calls may come after some of their messages.
            messages = [m for m in messages if (m.topic(), m.partition()) in self._assigned]
            self._gave_up = False
        return messages

    def delivered(self, messages: list[Message], polled_ns: int) -> None:
        """Takes down messages that were all handed to us just now."""
        self._positions.update(self.deliveries.take(messages, polled_ns))

    def _housekeeping(self, idle: bool) -> None:
        now = time.monotonic()
        pending = self.deliveries.pending
        if pending and (idle or pending >= FLUSH_ROWS or now - self._flushed_at >= FLUSH_S):
            self._flush()
            self._flushed_at = now
        # An idle member commits at once: the drain waits for its committed offsets.
        if self._positions and (idle or now - self._committed_at >= COMMIT_S):
            self._flush()
            self._commit(wait=False)
            self._committed_at = now

    def _flush(self) -> None:
        self.deliveries.flush()
        self.events.flush()

    def _commit(self, wait: bool) -> None:
        """Commits what has been flushed; `_on_commit` records the answer of both kinds."""
        offsets = [TopicPartition(t, p, o) for (t, p), o in self._positions.items()]
        self._positions.clear()
        if not offsets:
            return
        try:
            if not self._commits:
                self.client.store_offsets(offsets=offsets)
            elif wait:
                self._on_commit(None, self.client.commit(offsets=offsets, asynchronous=False) or [])
            else:
                self.client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            # A commit may be refused in a rebalance or a failover: the records are handed out again.
            return

    def _on_commit(self, error: Any, partitions: list[TopicPartition]) -> None:
        if error is not None:
            # The offsets stay uncommitted; try again with the next commit unless newer ones took their place.
            for at in partitions:
                self._positions.setdefault((at.topic, at.partition), at.offset)
            return
        for at in partitions:
            if at.error is None and at.offset >= 0:
                self._event("committed", at)

    def _event(self, kind: str, at: TopicPartition | None = None) -> None:
        if at is None:
            self.events.row(self.order.group, self.order.member, kind, None, None, None, time.time_ns())
        else:
            offset = at.offset if at.offset >= 0 else None
            self.events.row(
                self.order.group, self.order.member, kind, at.topic, at.partition, offset, time.time_ns()
            )

    def _on_assign(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._ready:
            self._event("joined")
        for at in partitions:
            self._assigned.add((at.topic, at.partition))
            self._event("assigned", at)
        self._flush()
        if not self._ready:
            self._ready = True
            say("ready")

    def _on_revoke(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self._flush()
        self._commit(wait=True)
        self._gone("revoked", partitions)

    def _on_lost(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        self._gone("lost", partitions)

    def _gone(self, kind: str, partitions: list[TopicPartition]) -> None:
        self._gave_up = True
        for at in partitions:
            self._assigned.discard((at.topic, at.partition))
            self._positions.pop((at.topic, at.partition), None)
            self._event(kind, TopicPartition(at.topic, at.partition))
        self._flush()


def main() -> None:
    """Runs one order until told to stop."""
    collect_seldom()
    member = Member(MemberOrder(**json.loads(Path(sys.argv[1]).read_text())))
    signal.signal(signal.SIGTERM, lambda *_: member.stopping.set())

    def stop_when_abandoned() -> None:
        sys.stdin.read()
        member.stopping.set()

    threading.Thread(target=stop_when_abandoned, daemon=True).start()
    member.run()
    say("done")


if __name__ == "__main__":
    main()
