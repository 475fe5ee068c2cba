"""The drain: once the healed cluster has settled, reads every partition to its end into the log table.

Settled means: every replica is in the ISR, and the high watermark equals the leader's log end; with
transactions, that none is open. A partition that does not settle in time is read as far as possible, and is
`unread`.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import Admin
from kaput.core import NULL_INT, NULL_LONG, TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import Recorder
from kaput.scenario.model import Group
from kaput.scenario.vocabulary import Isolation
from kaput.workload.librdkafka.client_setup import offset_of, partition_of, quiet_logger
from kaput.workload.payload import Codec


class VisibleOffsets:
    def __init__(self) -> None:
        self._ranges: defaultdict[TopicPartition, list[list[int]]] = defaultdict(list)  # [first, last + 1]
        self._at: defaultdict[TopicPartition, int] = defaultdict(int)

    def add(self, place: TopicPartition, offset: int) -> None:
        """Adds the record at that offset; call in offset order."""
        ranges = self._ranges[place]
        if ranges and ranges[-1][1] == offset:
            ranges[-1][1] = offset + 1
        else:
            ranges.append([offset, offset + 1])

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether that offset is visible; call in offset order."""
        ranges, at = self._ranges[place], self._at[place]
        while at < len(ranges) and ranges[at][1] <= offset:
            at += 1
        self._at[place] = at
        return at < len(ranges) and ranges[at][0] <= offset

    def end(self, place: TopicPartition) -> int:
        """The offset after the last visible one; 0 if there is none."""
        ranges = self._ranges[place]
        return ranges[-1][1] if ranges else 0


DeadLetters = Counter[tuple[TopicPartition, int]]  # by place and offset of the record
_OF = "__dlq.errors."  # headers of a dead letter
_BATCH = 5000
_POLL_S = 0.1
_START_S = 10.0  # for a leader to return its log start offset


@dataclass(frozen=True)
class Settled:
    """The leaders' log ends, and sentences about partitions that did not settle."""

    ends: dict[TopicPartition, int]
    unsettled: list[str]


def await_settled(
    admin: Admin, topics: Iterable[str], timeout_s: float, transactional: bool = False
) -> Settled:
    """Waits until every partition of `topics` has settled, for at most `timeout_s`."""
    names, limit = list(topics), time.monotonic() + timeout_s
    if not names:
        return Settled({}, [])
    ends: dict[TopicPartition, int] = {}
    why: dict[TopicPartition | None, str] = {None: "the cluster did not answer"}
    while True:
        try:
            ends, why = _unsettled(admin, names, transactional)
        except LabError as error:
            why = {None: str(error)}
        if not why or time.monotonic() >= limit:
            return Settled(ends, [f"not settled after {timeout_s:.0f} s: {text}" for text in why.values()])
        time.sleep(_POLL_S)


def _unsettled(
    admin: Admin, topics: list[str], transactional: bool
) -> tuple[dict[TopicPartition, int], dict[TopicPartition | None, str]]:
    ends: dict[TopicPartition, int] = {}
    why: dict[TopicPartition | None, str] = {}
    states = admin.partitions(topics)
    for place, state in states.items():
        if state.leader is None:
            why[place] = f"{place} has no leader"
        elif set(state.isr) != set(state.replicas):
            why[place] = f"{place} has ISR {sorted(state.isr)} of {state.replicas}"
    led = [place for place, state in states.items() if state.leader is not None]
    log_ends = admin.log_end_offsets(led)
    watermarks = admin.stable_offsets(led) if transactional else admin.high_watermarks(led)
    for place in led:
        ends[place] = log_ends[place]
        if watermarks[place] != log_ends[place]:
            why.setdefault(
                place, f"{place} shows {watermarks[place]} of its leader's {log_ends[place]} offsets"
            )
    return ends, why


class LogReader:
    """A new consumer, without a group, that writes the log and end_offsets tables. `transactional`: reads
    twice, first with read_committed, to know which records are visible. `starts`: where it starts, if not at
    0: earlier records do not belong to the run. `cluster`: its name, if there are several.
    """

    def __init__(
        self,
        folder: RunFolder,
        run_id: uuid.UUID,
        bootstrap_servers: str,
        transactional: bool = False,
        access: Access = OPEN,
        *,
        starts: Mapping[TopicPartition, int] | None = None,
        cluster: str | None = None,
    ) -> None:
        self._starts = starts or {}
        self._cluster, self._writer = cluster, "drain" if cluster is None else f"drain-{cluster}"
        self._log_starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._folder, self._run_id = folder, run_id
        self._settings = {"bootstrap.servers": bootstrap_servers, "client.id": "kaput", **access.librdkafka()}
        self._codec = Codec(run_id)
        self._transactional = transactional
        self._shown, self._stored = VisibleOffsets(), VisibleOffsets()

    def read(
        self, ends: dict[TopicPartition, int], timeout_s: float, progress: Callable[[int, int], None]
    ) -> list[str]:
        """Reads every partition to its end; returns sentences about those not read in time. A second reading
        replaces the first.
        """
        for name in ("log", "end_offsets") if self._ends else ():
            (self._folder.table(name) / f"{self._writer}.arrows").unlink()
        self._shown, self._stored = VisibleOffsets(), VisibleOffsets()
        self._ends = ends
        limit, total = time.monotonic() + timeout_s, sum(ends.values())
        self._limit = limit
        reached = {}
        if self._transactional:
            reached = self._read_all("read_committed", limit, self._mark_visible, lambda _: None)
        with Recorder(self._folder.path, "log", self._writer, self._cluster) as log:
            self._bind_columns(log)
            stored = self._read_all(
                "read_uncommitted", limit, lambda messages: self._record(log, messages),
                lambda done: progress(done, total),
            )  # fmt: skip
        # Visibility is known only for records that were read twice.
        to = {place: min(stored[place], reached.get(place, end), end) for place, end in ends.items()}
        with Recorder(self._folder.path, "end_offsets", self._writer, self._cluster) as table:
            for place, end in ends.items():
                table.row(
                    *place, end_offset=end, drained_to=to[place], start_offset=self._log_starts.get(place)
                )
        return [f"{place} was read to {to[place]} of {end}" for place, end in ends.items() if to[place] < end]

    def dead_letters(self, group: str, ends: dict[TopicPartition, int], timeout_s: float) -> DeadLetters:
        """How many dead letters of this group each record has, in a dead-letter topic with these ends."""
        self._ends, letters = ends, list[Message]()
        self._read_all("read_uncommitted", time.monotonic() + timeout_s, letters.extend, lambda _: None)
        headers = [dict[str, bytes](letter.headers() or ()) for letter in letters]  # type: ignore[arg-type]
        return Counter(
            (
                TopicPartition(each[_OF + "topic"].decode(), int(each[_OF + "partition"])),
                int(each[_OF + "offset"]),
            )
            for each in headers
            if each.get(_OF + "group") == group.encode()
        )

    def is_outdated(self, starts: Mapping[TopicPartition, int]) -> bool:
        """Whether records that it has read are gone. `starts`: of the logs now."""
        return any(
            start > max(self._log_starts.get(at, 0), self._starts.get(at, 0)) for at, start in starts.items()
        )

    def removed(self) -> list[str]:
        """Sentences about partitions removed in part before the drain read them: no trouble."""
        return [
            f"{place} begins at offset {start:,} at the end: retention or delete-records removed "
            f"{start - self._starts.get(place, 0):,} offsets before the drain read them"
            for place, start in self._log_starts.items()
            if start > self._starts.get(place, 0)
        ]

    def readable_ends(self, group: Group) -> dict[TopicPartition, int]:
        """The offset after the last record that a group can read, by partition: transaction markers and, with
        read_committed, aborted messages do not count.
        """
        if not self._transactional:
            return self._ends
        ends = self._shown if group.isolation == "read_committed" else self._stored
        return {place: ends.end(place) for place in self._ends}

    def _read_all(
        self,
        isolation: Isolation,
        limit: float,
        take: Callable[[list[Message]], None],
        progress: Callable[[int], None],
    ) -> dict[TopicPartition, int]:
        """Reads every partition to its end, or until `limit`; returns the offsets reached."""
        config: dict[str, str | bool] = {
            **self._settings,
            "group.id": f"kaput-drain-{self._run_id}",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
        }
        client = Consumer(config, logger=quiet_logger())
        reached = {place: self._begin(client, place, end) for place, end in self._ends.items()}
        unread = [place for place, end in self._ends.items() if end > reached[place]]
        client.assign([PartitionOffset(*place, reached[place]) for place in unread])
        while time.monotonic() < limit and any(reached[place] < end for place, end in self._ends.items()):
            messages = client.consume(_BATCH, timeout=_POLL_S)
            take([message for message in messages if message.error() is None])
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    # The log start moved past the next offset.
                    place = partition_of(message)
                    reached[place] = max(reached[place], self._begin(client, place, self._ends[place]))
                    # After this error seek does not work: the partition is assigned again.
                    client.incremental_unassign([PartitionOffset(*place)])
                    client.incremental_assign([PartitionOffset(*place, reached[place])])
                elif error is None or error.code() == KafkaError._PARTITION_EOF:
                    place, offset = partition_of(message), offset_of(message)
                    # EOF may lie beyond records that are not messages (transaction markers).
                    reached[place] = max(reached[place], offset + (error is None))
            progress(sum(reached.values()))
        client.close()
        return reached

    def _begin(self, client: Consumer, place: TopicPartition, end: int) -> int:
        """The first offset to read: the log start, if that is after the start of the run."""
        first = self._starts.get(place, 0)
        if not end:  # never written to, or of a topic that was deleted
            self._log_starts.setdefault(place, 0)
            return first
        try:
            # Even with many leaderless partitions, stay within the drain's timeout.
            left_s = max(_POLL_S, min(_START_S, self._limit - time.monotonic()))
            low, _ = client.get_watermark_offsets(PartitionOffset(*place), timeout=left_s)
        except KafkaException:
            return first  # unknown: reading will show
        self._log_starts[place] = max(low, self._log_starts.get(place, 0))
        return max(first, low)

    def _mark_visible(self, messages: list[Message]) -> None:
        for message in messages:
            self._shown.add(partition_of(message), offset_of(message))

    def _bind_columns(self, log: Recorder) -> None:
        self._column = {name: log.appender(name) for name in log.schema.names}

    def _record(self, log: Recorder, messages: list[Message]) -> None:
        for message in messages:
            place, offset = partition_of(message), offset_of(message)
            self._row(log, message, place, offset)
            if self._transactional:
                self._stored.add(place, offset)
        log.flush(len(messages))

    def _row(self, log: Recorder, message: Message, place: TopicPartition, offset: int) -> None:
        payload = message.value()
        decoded = self._codec.decode(payload if isinstance(payload, bytes) else None)
        who, epoch = decoded.identity, message.leader_epoch()
        column = self._column
        column["topic"](log.word("topic", place.topic))
        column["partition"](place.partition)
        column["offset"](offset)
        column["leader_epoch"](NULL_INT if epoch is None or epoch < 0 else epoch)
        column["timestamp_ms"](message.timestamp()[1])
        column["producer"](who.producer if who else NULL_INT)
        column["seq"](who.seq if who else NULL_LONG)
        column["intact"](decoded.intact)
        column["visible"](not self._transactional or self._shown.has(place, offset))


def await_groups(
    admin: Admin,
    groups: Iterable[Group],
    ends: Callable[[Group], dict[TopicPartition, int]],
    timeout_s: float,
) -> dict[str, bool]:
    """Waits until each group has processed everything up to its `ends`; returns which have in time. Processed
    means committed (which members do only after recording), or in a share group that every record was
    accepted, rejected or archived.
    """
    limit = time.monotonic() + timeout_s
    waiting, drained = list(groups), {}
    while True:
        for group in waiting:
            wanted = {
                place: end for place, end in ends(group).items() if place.topic in group.topics and end > 0
            }
            over = _nothing_left if group.type == "share" else _committed_all
            drained[group.id] = False
            with suppress(LabError):
                drained[group.id] = over(admin, group.id, wanted)
        waiting = [group for group in waiting if not drained[group.id]]
        if not waiting or time.monotonic() >= limit:
            return drained
        time.sleep(_POLL_S)


def _committed_all(admin: Admin, group: str, wanted: dict[TopicPartition, int]) -> bool:
    committed = admin.committed(group)
    return all(committed.get(place, -1) >= end for place, end in wanted.items())


def _nothing_left(admin: Admin, group: str, wanted: dict[TopicPartition, int]) -> bool:
    lags = admin.share_lags(group)
    return all(lags.get(place) == 0 for place in wanted)
