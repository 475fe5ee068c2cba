"""Writes a run as a history in EDN, one operation per line, for Jepsen's Kafka checker (jepsen.tests.kafka).

Each message is a transaction of one send; records that a member received together are one poll; the drain's
reading of the whole log is the last polls. A process has one operation in progress at a time, so a producer
has as many processes per partition as it had messages in flight there. Times are ns since the start of the
run. Events are read in batches, and sorted by time in memory of a fixed size.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.core import FOREVER_NS, NULL_LONG
from kaput.evidence.parquet import open_file, with_clusters
from kaput.evidence.reading import Evidence
from kaput.evidence.schemas import CLUSTER, TABLES

Rows = np.ndarray[Any, np.dtype[np.int64]]
Row = list[int]

CHUNK_ROWS = 1 << 19  # sorted together in memory
_BLOCK_ROWS = 1 << 14  # of each chunk in memory while merging
KEYS = 3


def in_order(batches: Iterable[Rows], scratch: Path, chunk_rows: int = CHUNK_ROWS) -> Iterator[Row]:
    """The rows sorted by their first KEYS numbers. `scratch`: for temporary files. Raises OSError."""
    chunks: list[Path] = []
    try:
        for rows in _chunks(batches, chunk_rows):
            chunks.append(scratch / f"{len(chunks)}.npy")
            np.save(chunks[-1], rows[:, np.lexsort(rows[KEYS - 1 :: -1])].T.copy())
        yield from heapq.merge(*map(_saved_rows, chunks), key=itemgetter(*range(KEYS)))
    finally:
        for path in chunks:
            path.unlink(missing_ok=True)


def _chunks(batches: Iterable[Rows], rows: int) -> Iterator[Rows]:
    gathered: list[Rows] = []
    for batch in batches:
        gathered.append(batch)
        if sum(each.shape[1] for each in gathered) >= rows:
            yield np.concatenate(gathered, axis=1)
            gathered = []
    if gathered:
        yield np.concatenate(gathered, axis=1)


def _saved_rows(path: Path) -> Iterator[Row]:
    rows = np.load(path, mmap_mode="r")
    for begin in range(0, len(rows), _BLOCK_ROWS):
        yield from rows[begin : begin + _BLOCK_ROWS].tolist()


def ints(batch: pa.Table, name: str) -> Rows:
    """A numeric column as int64; NULL_LONG for null."""
    column: Rows = batch[name].cast(pa.int64()).fill_null(NULL_LONG).to_numpy()
    return column


def mapped(batch: pa.Table, name: str, number: Any) -> Rows:
    """A text column mapped to numbers by `number`; NULL_LONG for null."""
    encoded = batch[name].combine_chunks().dictionary_encode()
    words = np.array([*(int(number(word)) for word in encoded.dictionary.to_pylist()), NULL_LONG], np.int64)
    numbers: Rows = words[encoded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]
    return numbers


def nowhere(batch: pa.Table) -> Any:
    return pc.or_kleene(pc.is_null(batch["partition"]), pc.less(batch["partition"], 0))


def identity(producer: Rows, seq: Rows) -> Rows:
    """A hash of a message's identity. Collisions are rare, and matches are compared in full."""
    return producer * np.int64(1 << 40) ^ seq


def among(firsts: Rows, lasts: Rows, numbers: Rows) -> Rows:
    """The index of the stretch that contains each number, -1 for none. Stretches must be sorted."""
    at = np.searchsorted(firsts, numbers, side="right") - 1
    return np.where((at >= 0) & (numbers <= lasts[at]), at, -1)


Mask = np.ndarray[Any, np.dtype[np.bool_]]


class SentIdentities:
    """The identities of all messages as stretches; `keys`: where those of unknown partitions were found."""

    def __init__(self) -> None:
        self.keys: dict[tuple[int, int], int] = {}
        self._stretches: dict[int, Rows] = {}  # by producer: first and last seqs, in order
        self._unplaced = np.empty(0, np.int64)

    def add(self, producer: Rows, seq: Rows, unplaced: Mask) -> None:
        """Adds messages. `unplaced`: whether each was sent to an unknown partition."""
        for each in np.unique(producer).tolist():
            own = seq[producer == each]
            known = self._stretches.get(each, np.empty((2, 0), np.int64))
            self._stretches[each] = _merged(np.concatenate((known, np.stack((own, own))), axis=1))
        if unplaced.any():
            self._unplaced = np.union1d(self._unplaced, identity(producer[unplaced], seq[unplaced]))

    @property
    def all_placed(self) -> bool:
        return not len(self._unplaced)

    def find(self, producer: Rows, seq: Rows, key: Rows, keys: dict[tuple[int, int], int]) -> None:
        """Sets the lowest key of each message that may have been sent to an unknown partition."""
        for at, message in self._possibly_unplaced(producer, seq):
            keys[message] = min(keys.get(message, int(key[at])), int(key[at]))

    def has(self, producer: Rows, seq: Rows, key: Rows) -> Mask:
        """Whether each message was sent; if its partition was unknown, only under the key found for it."""
        sent = np.zeros(len(seq), np.bool_)
        for each in np.unique(producer).tolist():
            if each in self._stretches:
                own = np.flatnonzero(producer == each)
                firsts, lasts = self._stretches[each]
                sent[own] = among(firsts, lasts, seq[own]) >= 0
        for at, message in self._possibly_unplaced(producer, seq):
            sent[at] &= self.keys.get(message, key[at]) == key[at]
        return sent

    def _possibly_unplaced(self, producer: Rows, seq: Rows) -> Iterator[tuple[int, tuple[int, int]]]:
        for at in np.flatnonzero(np.isin(identity(producer, seq), self._unplaced)).tolist():
            yield at, (int(producer[at]), int(seq[at]))


def _merged(stretches: Rows) -> Rows:
    """Sorts stretches and merges those that touch or overlap."""
    stretches = stretches[:, np.argsort(stretches[0], kind="stable")]
    firsts, reached = stretches[0], np.maximum.accumulate(stretches[1])
    before = np.concatenate(([NULL_LONG], reached[:-1]))
    begins = np.flatnonzero((before == NULL_LONG) | (firsts - 1 > before))
    return np.stack((firsts[begins], reached[np.append(begins[1:], len(firsts)) - 1]))


_BATCH_ROWS = 1 << 16


class EventKind(IntEnum):
    """The kind of an event. Events at the same time are sorted by it."""

    ATTEMPT = 0
    GIVEN_UP = 1
    ASSIGNED = 2
    DELIVERED = 3
    ACKED = 4
    FAILED = 5
    UNKNOWN = 6
    STORED = 7


# The columns of a row of numbers. WHO is a producer, or the number of a member.
TIME, KIND, WHO, KEY, OFFSET, PRODUCER, SEQ, ERROR = range(8)
_COLUMNS = 8
_TRANSACTIONS = {"committed": EventKind.ACKED, "aborted": EventKind.FAILED, "unknown": EventKind.UNKNOWN}
_OUTCOMES = {
    "acked": EventKind.ACKED,
    "failed": EventKind.FAILED,
    "unknown": EventKind.UNKNOWN,
    "kept": EventKind.UNKNOWN,  # a replay may still store it
    "refused": EventKind.FAILED,
}


@dataclass
class EventNames:
    """The numbers of topic-partitions (keys), members and errors, each from 0."""

    keys: dict[tuple[str, int], int] = field(default_factory=dict)
    members: dict[tuple[str, str], int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def key(self, topic: str, partition: int) -> int:
        return self.keys.setdefault((topic, partition), len(self.keys))

    def member(self, group: str, member: str) -> int:
        return self.members.setdefault((group, member), len(self.members))

    def of_groups(self, groups: Collection[str]) -> frozenset[int]:
        return frozenset(number for (group, _), number in self.members.items() if group in groups)

    def error(self, text: str) -> int:
        return self.errors.setdefault(text, len(self.errors))


class EventReader:
    """Reads the events of one run folder. `skipped`: records left out: not intact messages of this run."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.names = EventNames()
        self.skipped = 0
        for topic, partition in sorted(self._places()):
            self.names.key(topic, partition)

    def _places(self) -> set[tuple[str, int]]:
        """Every partition in the evidence. Numbered first, so keys do not depend on the order of rows."""
        places = {(row["topic"], row["partition"]) for row in self._evidence.rows("end_offsets")}
        for table in ("sends", "log", "deliveries"):
            for batch in self._batches(table, ["topic", "partition"]):
                known = batch.group_by(["topic", "partition"]).aggregate([]).to_pylist()
                places |= {
                    (row["topic"], row["partition"])
                    for row in known
                    if row["partition"] is not None and row["partition"] >= 0
                }
        return places

    @property
    def share_group_members(self) -> frozenset[int]:
        """The members of share groups, which promise no order."""
        return self.names.of_groups(self._evidence.words["share_events", "group"])

    def client_events(self) -> Iterator[Rows]:
        """All events except the drain's, unsorted."""
        yield from self._sends()
        yield from self._deliveries()
        yield from self._assignments()

    def drain_events(self) -> Iterator[Rows]:
        """The stored records. TIME is the key and KIND constant, so that they sort by key and offset."""
        names = ["topic", "partition", "offset", "producer", "seq", "intact"]
        has_visible = "visible" not in self._evidence.tables["log"].lacking
        for batch in self._batches("log", [*names, "visible"] if has_visible else names):
            # Records of aborted transactions are not visible to readers.
            known = self._known(batch.filter(pc.fill_null(batch["visible"], True)) if has_visible else batch)
            rows = _rows(len(known))
            rows[TIME] = rows[KEY] = self._keys(known)
            rows[KIND] = EventKind.STORED
            rows[WHO] = rows[OFFSET] = ints(known, "offset")
            rows[PRODUCER], rows[SEQ] = ints(known, "producer"), ints(known, "seq")
            yield self._messages(rows)

    def _sends(self) -> Iterator[Rows]:
        names = [column.name for column in TABLES["sends"].columns if not column.optional]
        for batch in self._batches("sends", names):
            rows = _rows(len(batch))
            rows[KIND] = EventKind.ATTEMPT
            rows[TIME] = ints(batch, "attempt_ns")
            rows[WHO] = rows[PRODUCER] = ints(batch, "producer")
            rows[SEQ] = ints(batch, "seq")
            rows[KEY] = self._keys(batch, self._sent.keys)
            rows[OFFSET] = ints(batch, "offset")
            yield rows.copy()
            done = ints(batch, "done_ns")
            rows[TIME] = np.maximum(np.where(done == NULL_LONG, FOREVER_NS, done), rows[TIME])
            rows[KIND] = mapped(batch, "outcome", lambda word: _OUTCOMES[word])
            ends = self._ends(rows)
            in_transaction = (rows[KIND] == EventKind.ACKED) & (ends != NULL_LONG)
            rows[KIND, in_transaction] = ends[in_transaction]
            rows[ERROR] = mapped(batch, "error", self.names.error)
            yield rows

    def _ends(self, rows: Rows) -> Rows:
        """The outcome of each message's transaction; NULL_LONG without one."""
        ends = np.full(rows.shape[1], NULL_LONG, np.int64)
        for producer, (first, last, kind) in self._transactions.items():
            own = np.flatnonzero(rows[PRODUCER] == producer)
            at = among(first, last, rows[SEQ, own])
            ends[own[at >= 0]] = kind[at[at >= 0]]
        return ends

    @cached_property
    def _transactions(self) -> dict[int, tuple[Rows, Rows, Rows]]:
        """By producer: first and last seq of its transactions, sorted, and their outcomes."""
        parts: list[Rows] = []
        for batch in self._batches("transactions", ["producer", "first_seq", "last_seq", "outcome"]):
            kinds = mapped(batch, "outcome", lambda word: _TRANSACTIONS[word])
            parts.append(np.stack([ints(batch, n) for n in ("producer", "first_seq", "last_seq")] + [kinds]))
        if not parts:
            return {}
        every = np.concatenate(parts, axis=1)
        every = every[:, every[2] >= every[1]]
        every = every[:, np.argsort(every[1], kind="stable")]
        own = {int(producer): every[1:, every[0] == producer] for producer in np.unique(every[0])}
        return {producer: (rows[0], rows[1], rows[2]) for producer, rows in own.items()}

    @cached_property
    def _sent(self) -> SentIdentities:
        """Every message that was sent. Those with an unknown partition get the key where they were found."""
        sent = SentIdentities()
        for batch in self._batches("sends", ["producer", "seq", "partition"]):
            unplaced = nowhere(batch).to_numpy().astype(np.bool_)
            sent.add(ints(batch, "producer"), ints(batch, "seq"), unplaced)
        for table in () if sent.all_placed else ("log", "deliveries"):
            keys: dict[tuple[int, int], int] = {}
            for batch in self._batches(table, ["topic", "partition", "producer", "seq", "intact"]):
                known = _intact(batch)
                sent.find(ints(known, "producer"), ints(known, "seq"), self._keys(known), keys)
            sent.keys = keys | sent.keys
        return sent

    def _deliveries(self) -> Iterator[Rows]:
        names = ["group", "member", "topic", "partition", "offset", "producer", "seq", "intact", "polled_ns"]
        for batch in self._batches("deliveries", names):
            known = self._known(batch)
            rows = _rows(len(known))
            rows[TIME], rows[KIND] = ints(known, "polled_ns"), EventKind.DELIVERED
            rows[WHO] = self._members(known)
            rows[KEY], rows[OFFSET] = self._keys(known), ints(known, "offset")
            rows[PRODUCER], rows[SEQ] = ints(known, "producer"), ints(known, "seq")
            # Groups with read_uncommitted may read aborted messages.
            groups = {g.group for g in self._evidence.manifest.groups if g.isolation == "read_uncommitted"}
            uncommitted = np.isin(rows[WHO], list(self.names.of_groups(groups)))
            aborted = uncommitted & (self._ends(rows) == EventKind.FAILED)
            yield self._messages(rows[:, ~aborted])

    def _assignments(self) -> Iterator[Rows]:
        """Changes of members' assignments; key -1 stands for everything that the member had."""
        kinds = dict.fromkeys(("revoked", "lost"), EventKind.GIVEN_UP) | {"assigned": EventKind.ASSIGNED}
        for row in self._evidence.rows("group_events"):
            kind = kinds.get(row["kind"])
            if kind is None:
                continue
            rows = _rows(1)
            rows[TIME], rows[KIND] = row["at_ns"], kind
            rows[WHO] = self.names.member(row["group"], row["member"])
            known = row["topic"] is not None and row["partition"] is not None
            rows[KEY] = self.names.key(row["topic"], row["partition"]) if known else -1
            yield rows

    def _batches(self, table: str, names: Sequence[str]) -> Iterator[pa.Table]:
        """A big table in batches, with qualified topic names. Raises EvidenceError."""
        files = self._evidence.tables[table]
        read = [*names, *([CLUSTER] if "topic" in names and CLUSTER not in files.lacking else [])]
        schema = pa.schema([files.table.schema.field(name) for name in read])
        for path in files.files:
            for batch in open_file(path).iter_batches(_BATCH_ROWS, columns=read, use_threads=False):
                yield _with_cluster_names(pa.Table.from_batches([batch]).select(read).cast(schema)).select(
                    names
                )

    def _known(self, batch: pa.Table) -> pa.Table:
        """The intact messages of a batch; counts the others as skipped."""
        known = _intact(batch)
        self.skipped += len(batch) - len(known)
        return known

    def _messages(self, rows: Rows) -> Rows:
        """The rows of messages that were sent to this key in this run; counts the others as skipped."""
        sent = self._sent.has(rows[PRODUCER], rows[SEQ], rows[KEY])
        self.skipped += int((~sent).sum())
        return rows[:, sent]

    def _keys(self, batch: pa.Table, keys_by_message: dict[tuple[int, int], int] | None = None) -> Rows:
        topics = batch["topic"].combine_chunks().dictionary_encode()
        words, partition = topics.dictionary.to_pylist(), ints(batch, "partition")
        topic = topics.indices.to_numpy(zero_copy_only=False)
        keys = np.zeros(len(batch), np.int64)
        for number, word in enumerate(words):
            for each in np.unique(partition[topic == number]).tolist():
                keys[(topic == number) & (partition == each)] = self.names.key(word, max(each, 0))
        if keys_by_message:
            for at in np.flatnonzero(partition < 0).tolist():
                message = batch["producer"][at].as_py(), batch["seq"][at].as_py()
                keys[at] = keys_by_message.get(message, keys[at])
        return keys

    def _members(self, batch: pa.Table) -> Rows:
        pairs = pc.binary_join_element_wise(batch["group"], batch["member"], "\0").combine_chunks()
        encoded = pairs.dictionary_encode()
        words = [word.partition("\0") for word in encoded.dictionary.to_pylist()]
        numbers = np.array([self.names.member(group, member) for group, _, member in words], np.int64)
        return numbers[encoded.indices.to_numpy(zero_copy_only=False)] if len(batch) else numbers


def _rows(count: int) -> Rows:
    return np.full((_COLUMNS, count), NULL_LONG, np.int64)


def _intact(batch: pa.Table) -> pa.Table:
    return batch.filter(pc.and_(batch["intact"], pc.is_valid(batch["seq"])))


def _with_cluster_names(batch: pa.Table) -> pa.Table:
    if CLUSTER not in batch.column_names or batch[CLUSTER].null_count == len(batch):
        return batch
    at = batch.column_names.index("topic")
    return batch.set_column(at, "topic", with_clusters(batch[CLUSTER], batch["topic"]))


PRODUCER_SHIFT = 40  # a message's value is producer * 2**40 + seq
_DRAIN_POLL_RECORDS = 500
_TYPES = {int(EventKind.ACKED): "ok", int(EventKind.FAILED): "fail", int(EventKind.UNKNOWN): "info"}

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
    def _error_texts(self) -> list[str]:
        """By number. Evaluated after all errors are known."""
        return list(self._events.names.errors)

    @cached_property
    def _share_members(self) -> frozenset[int]:
        """Members of share groups. Evaluated after all members are known."""
        return self._events.share_group_members

    def _rows(self, batches: Iterable[Rows]) -> Iterator[Row]:
        return in_order(batches, self._scratch, self._chunk_rows)

    def _attempt(self, row: Row) -> str:
        process = self._processes.begin((row[PRODUCER], row[KEY]), (row[PRODUCER], row[SEQ]))
        return self._line("invoke", process, "send", f"[[:send {row[KEY]} {_value(row)}]]")

    def _outcome(self, row: Row) -> str:
        kind = _TYPES[row[1]]
        process = self._processes.end((row[PRODUCER], row[SEQ]), row[OFFSET], free=kind != "info")
        value = f"{_value(row)}"
        if kind == "ok":
            value = f"[{'nil' if row[OFFSET] == NULL_LONG else row[OFFSET]} {value}]"
        error = ""
        if row[ERROR] != NULL_LONG:  # an EDN string has the same escapes as JSON; non-ASCII is not escaped
            error = f", :error {json.dumps(self._error_texts[row[ERROR]], ensure_ascii=False)}"
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

    def _line(self, kind: str, process: int, f: str, value: str, more: str = "") -> str:
        index, self.operations = self.operations, self.operations + 1
        ns = self._last_ns - self._started_ns
        head = f":index {index}, :time {ns}, :type :{kind}, :process {process}"
        return f"{{{head}, :f :{f}, :value {value}{more}}}\n"


def _value(row: Row) -> int:
    """The value of a message: a unique number."""
    return (row[PRODUCER] << PRODUCER_SHIFT) + row[SEQ]


class _Processes:
    """Assigns the process numbers of operations. A process has one operation at a time. A process sends to
    one partition. Jepsen compares the offsets of consecutive sends of a process: of the free processes, the
    one with the highest offset sends next, so that a send whose offset is below one acknowledged before its
    attempt is always noticed.
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
