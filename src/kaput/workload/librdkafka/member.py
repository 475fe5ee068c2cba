"""One member of a consumer group, in its own process: `python -m kaput.workload.librdkafka.member SPEC.json`.

Polls, processes each record, records it, flushes, and only then commits, unless the scenario has it commit
before: so a SIGKILL at any moment loses no delivery whose offset was committed. Reports `ready` when it has
joined its group, even without partitions, and `done` at its end; ends at SIGTERM or when stdin closes.

It can be made to go elsewhere in its partitions (`seek`). It can be moved to another cluster: it leaves its
group, and joins the one of the same name there, wherever that group's offsets have been set
(runner/mirrors/watching.py). Of an unreachable cluster, commits and the leave are given up after a while.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.core import TopicPartition
from kaput.evidence.recorder import Recorder
from kaput.evidence.schemas import SEEK, SKIPPED
from kaput.workload.client_spec import MemberSpec, client_settings, notify, run_client
from kaput.workload.librdkafka.client_setup import (
    AuthorizationErrors,
    committed_offsets,
    is_fatal,
    notify_ready,
    quiet_logger,
    text_of,
    tune_garbage_collection,
)
from kaput.workload.librdkafka.deliveries import CommitRecorder, DeliveryRecorder, positions_after
from kaput.workload.librdkafka.member_process import GroupMembership, Pace, run_member
from kaput.workload.moving import Destination, Hold, Instructions, MoveTo
from kaput.workload.payload import Codec

if TYPE_CHECKING:
    from kaput.scenario.values import Goal

AT_ONCE = 2048  # the most messages taken from the client at once
AT_ONCE_WORKING = 500  # when records take processing time: the default of the Java client's max.poll.records
POLL_S = 0.05
FLUSH_ROWS = 8192
FLUSH_S = 0.1
_error: Any = Message.error
_TICK_S = 0.02
_ASK_S = 10.0
_ASSIGNED_S = 5.0
_LOW, _HIGH = 0, 1
_AT_THE_END = ("latest", "end", "largest")


class _Seek(NamedTuple):
    """An instruction to go somewhere else. In a rebalance it waits for partitions until then."""

    goal: Goal
    until_s: float


class GroupMember:
    """Reads as one member of one group and records its deliveries."""

    def __init__(self, spec: MemberSpec) -> None:
        self.spec = spec
        folder, writer = Path(spec.folder), spec.writer
        self.recorder = Recorder(folder, "deliveries", writer, spec.cluster)
        self.events = Recorder(folder, "group_events", writer, spec.cluster)
        self.deliveries = DeliveryRecorder(self.recorder, spec, Codec(uuid.UUID(spec.run_id)))
        self.stopping = threading.Event()
        self.pace = Pace(spec.processing_ms)
        self.move = MemberMove(self)
        self._ready, self._joined_ns = False, 0
        self._client_number = 0  # how often it has moved
        self._flushed_at = time.monotonic()
        self._assigned: set[TopicPartition] = set()
        self._revoked_since_poll = False  # whether a partition was taken away since the last delivery
        self._commits = CommitRecorder(
            spec, lambda at: self._event("committed", at), lambda at: self._event("refused", at)
        )
        self._positions: dict[TopicPartition, int] = {}  # the next offset of each partition that it has read
        self._begun: set[TopicPartition] = set()  # partitions whose start offset was reported
        self._seeks: deque[_Seek] = deque()
        self._last_error: tuple[int, str] | None = None
        self.client: Any = None
        self._open_client()

    def _open_client(self) -> None:
        settings = client_settings(self.spec)
        self._authorization = AuthorizationErrors(settings)
        number = self._client_number

        def answered(error: Any, partitions: list[PartitionOffset]) -> None:
            if number == self._client_number:
                self._commits.answered(error, partitions)

        callbacks = {"on_commit": answered, "error_cb": self._on_error}
        config = {**settings, **callbacks, "enable.auto.offset.store": False}
        self.client = self._commits.client = Consumer(config, logger=quiet_logger())

    def _subscribe(self) -> None:
        self.client.subscribe(
            self.spec.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._membership = GroupMembership(self.client) if self.spec.type == "consumer" else None

    def leave(self, hold: Hold) -> dict[TopicPartition, int]:
        """Leaves its group; returns the next offset of each partition that it has read there."""
        self._flush()
        try:
            settle_commits(self.client, self._commits, hold, self._assigned)
        except KafkaException as failure:
            self._stop_if_fatal(failure)
        left, self.client = self.client, None  # its callbacks are ignored from now on
        self._on_removed("revoked", [PartitionOffset(*place) for place in sorted(self._assigned)])
        close_in_time(left, hold.settle_s)
        self._client_number += 1
        self._event("left")
        self._flush()
        positions, self._positions = self._positions, {}
        return positions

    def join(self, to: Destination) -> None:
        """Joins the group of the same name in that cluster; reports `moved` once it has."""
        self.spec = to.applied_to(self.spec)
        self.recorder.cluster = self.events.cluster = to.cluster
        self._begun.clear()
        self._ready = self._revoked_since_poll = False
        self._open_client()
        self._subscribe()

    def take(self, message: Mapping[str, Any]) -> None:
        """Takes an instruction from another thread."""
        if message["kind"] == "seek":
            from kaput.scenario.values import Goal  # with pydantic, which few members need

            goal = Goal(message["by"], message["to"], message["time_ms"])
            self._seeks.append(_Seek(goal, time.monotonic() + _ASSIGNED_S))
        else:
            self.move.instructions.take(message)

    def _seek(self, goal: Goal) -> None:
        """Goes there in each partition, commits that, and reports it. Between two polls, when it has worked
        on everything that it polled.
        """
        moves, error = [], ""
        paused = [PartitionOffset(*place) for place in self._assigned]
        try:
            self._settle_commits(paused)
            moves, at_ns = self._goals(goal), time.time_ns()
            if moves:
                self._commits.go_to({place: to for place, _, to in moves})
            for place, begin, to in moves:
                if to > begin:
                    self._event(SKIPPED, PartitionOffset(*place, begin), at_ns=at_ns, until=to)
            self._flush()  # before anything is polled there; if it goes back after all, it commits that, too
            for place, _, to in moves:
                self._event(SEEK, PartitionOffset(*place, to))
                self._flush()
                self.client.seek(PartitionOffset(*place, to))
                self._positions[place] = to
        except KafkaException as failure:
            # What was committed of it is committed anew, where the member still is.
            self._commits.note({place: begin for place, begin, _ in moves}, 0)
            moves, error = [], str(failure)
        with suppress(KafkaException):
            self.client.resume(paused)  # also what was revoked: it would be paused when it is assigned again
        places = [[*place, begin, to] for place, begin, to in moves]
        notify("sought", at_ns=time.time_ns(), moves=places, error=error)

    def _settle_commits(self, owned: list[PartitionOffset]) -> None:
        """Pauses these partitions, commits what was processed, and waits for every answer."""
        limit = time.monotonic() + _ASK_S
        self._flush()
        self.client.pause(owned)
        while self._commits.outstanding and time.monotonic() < limit and not self.stopping.is_set():
            self._commits.now(wait=False)
            if messages := self._receive():  # of partitions that were assigned meanwhile
                self._handle(messages, time.time_ns())

    def _goals(self, goal: Goal) -> list[tuple[TopicPartition, int, int]]:
        """(partition, its position, the other one to go to). Raises KafkaException."""
        owned = [PartitionOffset(*place) for place in sorted(self._assigned)]
        begins = {
            TopicPartition(at.topic, at.partition): at.offset
            for at in committed_or_initial(self.client, self.spec, owned)
            if at.offset >= 0
        }
        begins |= {place: offset for place, offset in self._positions.items() if place in self._assigned}
        ends = {place: self._ends(place) for place in begins}
        timed: dict[TopicPartition, int] = {}
        if goal.time_ms is not None:
            asked = [PartitionOffset(*place, goal.time_ms) for place in begins]
            for at in self.client.offsets_for_times(asked, _ASK_S):
                if at.error is not None:
                    raise KafkaException(at.error)
                timed[TopicPartition(at.topic, at.partition)] = at.offset
        every = [
            (place, begin, goal.offset(begin, ends[place][_LOW], ends[place][_HIGH], timed.get(place)))
            for place, begin in begins.items()
        ]
        return [(place, begin, to) for place, begin, to in every if to != begin]

    def _ends(self, place: TopicPartition) -> tuple[int, int]:
        """The first offset of a partition, and its high watermark. Raises KafkaException."""
        ends: tuple[int, int] | None = self.client.get_watermark_offsets(PartitionOffset(*place), _ASK_S)
        if ends is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return ends

    def run(self) -> None:
        """Polls until stopped, then leaves the group."""
        self._subscribe()
        while not self.stopping.is_set():
            if self.move.instructions.waiting:
                self.move.follow()
                continue
            if self._seeks and (self._assigned or time.monotonic() > self._seeks[0].until_s):
                self._seek(self._seeks.popleft().goal)
            self.pace.settle()
            messages = self._receive()
            if messages:
                self._handle(messages, time.time_ns())
            self._housekeeping(idle=not messages)
            if self._membership is not None and (self._ready or self._membership.settled()):
                self._joined()
                self._membership = None
        self._flush()
        if self.client is not None:
            self._commits.now(wait=True)
            self.client.close()
            self._event("left")
        self.recorder.close()
        self.events.close()

    def _receive(self) -> list[Message]:
        """The next messages, after a wait for the first; without partitions revoked meanwhile."""
        try:
            first = self.client.poll(POLL_S)
            if first is None:
                return []
            # With timeout 0 it returns what is already fetched.
            more = self.client.consume(self._at_once() - 1, 0) if self._at_once() > 1 else []
        except KafkaException as failure:
            self._stop_if_fatal(failure)
            return []
        messages = [first, *more]
        if any(map(_error, messages)):
            for error in filter(None, map(_error, messages)):
                self._stop_at(error)
            messages = [message for message in messages if message.error() is None]
        if self._revoked_since_poll:
            # A rebalance between the two calls may have revoked the partitions of some messages.
            messages = [m for m in messages if (m.topic(), m.partition()) in self._assigned]
            self._revoked_since_poll = False
        return messages

    def _at_once(self) -> int:
        """The most records per poll: when committing before processing, at most `commit_every`."""
        most = AT_ONCE_WORKING if self.pace.ms else AT_ONCE
        return min(most, self.spec.commit_every or most) if self.spec.commit == "before" else most

    def _stop_at(self, error: KafkaError) -> None:
        """Stops at a fatal error (such as another member with the same instance id), after which no message
        comes, and at an authorization error, which the client would retry forever.
        """
        refused = self._authorization.of_member(error, self.spec.group, self.spec.topics)
        self._on_error(error)
        if (refused or is_fatal(error)) and not self.stopping.is_set():
            notify("trouble", message=refused or text_of(error))
            self.stopping.set()

    def _stop_if_fatal(self, failure: KafkaException) -> None:
        """Stops at a fatal error that belongs to no message. Raises any other."""
        error: KafkaError = failure.args[0]
        if not is_fatal(error):
            raise failure
        self._stop_at(error)

    def _on_error(self, error: KafkaError) -> None:
        """librdkafka's error_cb, too: reports an error that the client handles by itself, once in a row. Its
        text has times and counts; the first word is the broker, if it comes from one.
        """
        kind = error.code(), error.str().partition(" ")[0]
        if kind != self._last_error:
            self._last_error = kind
            notify("error", message=text_of(error))

    def _handle(self, messages: list[Message], polled_ns: int) -> None:
        """Processes messages just delivered, and commits before or after that."""
        before, sync = self.spec.commit == "before", self.spec.commit_sync
        if before:
            self._commits.note(positions_after(messages), len(messages))
            self._commits.now(wait=sync)
        at = 0
        while at < len(messages):
            if (self.stopping.is_set() or self.move.instructions.waiting) and not before:
                return  # the rest goes to other members: it was not committed
            size = 1 if self.pace.ms else (None if before else self._commits.records_left()) or len(messages)
            part = messages[at : at + size]
            # A nanosecond apart, in order of delivery. A record that waits for the one before it to be
            # processed is not handed over yet, unless it is committed already.
            handed_ns = time.time_ns() if self.pace.ms and not before else 0
            self.delivered(part, max(handed_ns, polled_ns + at))
            at += len(part)
            if at < len(messages):
                self._housekeeping(idle=False)

    def delivered(self, messages: list[Message], polled_ns: int) -> None:
        """Processes and records messages that were delivered together."""
        if self.pace.ms:
            for _ in messages:
                self.pace.work()
        positions = self.deliveries.take(messages, polled_ns)
        self._positions.update(positions)
        if self.spec.commit != "before":
            self._commits.note(positions, len(messages))
        elif self.pace.ms:
            self._flush()  # so that committed but unrecorded records were not processed

    def _housekeeping(self, idle: bool) -> None:
        now = time.monotonic()
        pending = self.deliveries.pending
        if pending and (idle or pending >= FLUSH_ROWS or now - self._flushed_at >= FLUSH_S):
            self._flush()
            self._flushed_at = now
        if self._commits.due(idle):
            self._flush()
            self._commits.now(wait=self.spec.commit_sync)

    def _flush(self) -> None:
        self.deliveries.flush()
        self.events.flush()

    def _event(self, kind: str, at: PartitionOffset | None = None, **more: Any) -> None:
        place: dict[str, Any] = {}
        if at is not None:
            place = {
                "topic": at.topic,
                "partition": at.partition,
                "offset": at.offset if at.offset >= 0 else None,
            }
        spec, now = self.spec, time.time_ns()
        if kind == "joined":
            self._joined_ns = now
        row = {"group": spec.group, "member": spec.member, "kind": kind, "at_ns": now, **place, **more}
        self.events.row(**row)

    def _joined(self) -> None:
        """Reports `ready` once it has joined, with or without partitions."""
        if self._ready:
            return
        self._ready = True
        if not self._assigned:
            self._event("joined")
            self._event("assigned")
        self._flush()
        self._report_owned()
        if self._client_number:
            notify("moved", cluster=self.spec.cluster, at_ns=time.time_ns())
        else:
            notify_ready(self._joined_ns)

    def _report_start_offsets(self, partitions: list[PartitionOffset]) -> list[PartitionOffset]:
        """After a move, reports each partition's start offset once: only the member knows it. Returns the
        partitions with their start offsets.
        """
        new = [at for at in partitions if TopicPartition(at.topic, at.partition) not in self._begun]
        if not self._client_number or not new:
            return partitions
        starts = {(at.topic, at.partition): at for at in start_offsets(self.client, self.spec, new)}
        self._begun |= {TopicPartition(*place) for place in starts}
        places = [[at.topic, at.partition, at.offset] for at in starts.values() if at.offset >= 0]
        notify("began", cluster=self.spec.cluster, places=places, at_ns=time.time_ns())
        return [starts.get((at.topic, at.partition), at) for at in partitions]

    def _on_assign(self, client: Consumer, partitions: list[PartitionOffset]) -> None:
        if client is not self.client:
            return
        if not self._ready and partitions:
            self._event("joined")
        for at in self._report_start_offsets(partitions):
            place = TopicPartition(at.topic, at.partition)
            self._assigned.add(place)
            self._commits.forget(place)
            self._positions.pop(place, None)  # another member may have read on
            self._event("assigned", at)
        if self._ready and not self._assigned:
            self._event("assigned")
        self._flush()
        if self._ready:
            self._report_owned()
        self._joined()

    def _on_revoke(self, client: Consumer, partitions: list[PartitionOffset]) -> None:
        if client is self.client:
            self._flush()
            self._commits.now(wait=True)
            self._on_removed("revoked", partitions)

    def _on_lost(self, client: Consumer, partitions: list[PartitionOffset]) -> None:
        if client is self.client:
            self._on_removed("lost", partitions)

    def _on_removed(self, kind: str, partitions: list[PartitionOffset]) -> None:
        self._revoked_since_poll = True
        for at in partitions:
            place = TopicPartition(at.topic, at.partition)
            self._assigned.discard(place)
            self._commits.forget(place)
            self._event(kind, PartitionOffset(*place))
        self._flush()
        self._report_owned()

    def _report_owned(self) -> None:
        notify("owns", partitions=sorted(self._assigned), at_ns=time.time_ns())


class MemberMove:
    """Carries out one member's instructions, which `instructions` receives."""

    def __init__(self, member: GroupMember) -> None:
        self._member, self.instructions = member, Instructions()
        self.held = False

    def follow(self) -> None:
        """Carries out pending instructions; returns when it may poll again, or is stopping."""
        while not self._member.stopping.is_set() and (self.instructions.waiting or self.held):
            match self.instructions.next(_TICK_S):
                case Hold() as hold:
                    self._hold(hold)
                case MoveTo() as move:
                    if not self.held:
                        self._hold(Hold())
                    self._member.join(move.to)
                    self.held = False

    def _hold(self, hold: Hold) -> None:
        began_ns = time.time_ns()
        positions = self._member.leave(hold)
        self.held = True
        places = [[*place, offset] for place, offset in sorted(positions.items())]
        notify("held", began_ns=began_ns, at_ns=time.time_ns(), positions=places)


def settle_commits(
    client: Any, commits: CommitRecorder, hold: Hold, places: Collection[TopicPartition]
) -> None:
    """Commits what was processed, if asked to, and waits for the answer; then nothing is left to commit."""
    limit = time.monotonic() + hold.settle_s
    if hold.commit:
        with suppress(KafkaException):  # no deliveries while it waits
            client.pause([PartitionOffset(*place) for place in places])
        while commits.outstanding and time.monotonic() < limit:
            commits.now(wait=False)
            client.poll(_TICK_S)
    commits.forget_all()


def close_in_time(client: Any, limit_s: float) -> None:
    """Closes a client; abandons one that does not close in time."""
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(limit_s)


def start_offsets(client: Any, spec: MemberSpec, places: Sequence[PartitionOffset]) -> list[PartitionOffset]:
    """Where a member that was assigned these partitions starts: at the group's committed offsets, or by
    auto.offset.reset; an offset below 0 if the cluster does not answer.
    """
    try:
        return committed_or_initial(client, spec, places)
    except KafkaException:
        return [PartitionOffset(at.topic, at.partition) for at in places]


def committed_or_initial(
    client: Any, spec: MemberSpec, places: Sequence[PartitionOffset]
) -> list[PartitionOffset]:
    """The same. Raises KafkaException if the coordinator does not answer."""
    committed = committed_offsets(client, places, _ASK_S)
    return [at if at.offset >= 0 else _by_reset_policy(client, spec, at) for at in committed]


def _by_reset_policy(client: Any, spec: MemberSpec, at: PartitionOffset) -> PartitionOffset:
    late = str(spec.config.get("auto.offset.reset", "earliest")).lower() in _AT_THE_END
    try:
        offsets = client.get_watermark_offsets(at, timeout=_ASK_S)
    except KafkaException:
        offsets = None
    offset = -1 if offsets is None else offsets[_HIGH if late else _LOW]
    return PartitionOffset(at.topic, at.partition, offset)


def main() -> None:
    tune_garbage_collection()
    member = GroupMember(MemberSpec(**json.loads(Path(sys.argv[1]).read_text())))
    run_member(member, member.take)


if __name__ == "__main__":
    run_client(main)
