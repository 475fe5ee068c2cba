"""Three filters that recognize duplicates: what each remembers, when it is correct, and where it fails; their
state, in memory or on disk; and a consumer with a filter.

A filter does not drop records or run effects; the consumer does, because the order of effect and mark
determines the effect of a crash between them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from sortedcontainers import SortedList

Id = int | bytes
Mark = tuple[int, int]  # (epoch, number); the epoch is 0 if there is none
NO_MARK: Mark = (0, -1)


class Ids(Protocol):
    """A set of ids that only grows."""

    def __contains__(self, one: Id) -> bool: ...
    def add(self, one: Id) -> None:
        """Adds an id, unless it is there already."""

    def commit(self) -> None:
        """Makes all changes survive a restart, if the store can."""


class Marks(Protocol):
    """A mark by name."""

    def get(self, name: str, default: Mark) -> Mark: ...
    def put(self, name: str, mark: Mark) -> None:
        """Replaces the mark of that name."""

    def commit(self) -> None:
        """Makes all changes survive a restart, if the store can."""


class SortedIds:
    """Ids in memory: sorted lists of sorted lists, like the leaves of a B-tree. Lost on restart."""

    def __init__(self) -> None:
        self._ids = SortedList()

    def __contains__(self, one: Id) -> bool:
        return one in self._ids

    def add(self, one: Id) -> None:
        if one not in self._ids:
            self._ids.add(one)

    def commit(self) -> None:
        """Does nothing: memory does not survive."""


class MemoryMarks:
    """Marks in memory. Lost on restart."""

    def __init__(self) -> None:
        self._marks = dict[str, Mark]()

    def get(self, name: str, default: Mark) -> Mark:
        return self._marks.get(name, default)

    def put(self, name: str, mark: Mark) -> None:
        self._marks[name] = mark

    def commit(self) -> None:
        """Does nothing: memory does not survive."""


class Database:
    """One SQLite file, in WAL mode: `commit` is durable, all of it or nothing."""

    def __init__(self, path: Path, cache_mb: int = 64) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        # A commit is on disk when it returns. NORMAL is faster, but a power loss may undo the last commits.
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(f"PRAGMA cache_size = {-1024 * cache_mb}")

    def commit(self) -> None:
        """Makes everything written to this file so far survive a crash."""
        self.connection.commit()

    def close(self) -> None:
        """Closes without a commit: uncommitted changes are lost, as after a crash."""
        self.connection.close()


class DiskIds:
    """Ids on disk: they are the B-tree itself. A restart opens the file and reads nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._execute = database.connection.execute
        self._execute("CREATE TABLE IF NOT EXISTS ids (id PRIMARY KEY NOT NULL) WITHOUT ROWID")

    def __contains__(self, one: Id) -> bool:
        return self._execute("SELECT 1 FROM ids WHERE id = ?", (one,)).fetchone() is not None

    def add(self, one: Id) -> None:
        self._execute("INSERT OR IGNORE INTO ids VALUES (?)", (one,))

    def commit(self) -> None:
        self._database.commit()


class DiskMarks(MemoryMarks):
    """Marks on disk, with a copy in memory. A commit writes changed marks; a restart reads all."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._execute = database.connection.execute
        self._execute("CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, epoch INT, number INT)")
        rows = self._execute("SELECT name, epoch, number FROM marks")
        self._marks = {name: (epoch, number) for name, epoch, number in rows}
        self._changed: set[str] = set()

    def put(self, name: str, mark: Mark) -> None:
        super().put(name, mark)
        self._changed.add(name)

    def commit(self) -> None:
        for name in self._changed:
            self._execute("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (name, *self._marks[name]))
        self._changed.clear()
        self._database.commit()


class NumberedRecord(NamedTuple):
    """A record as a consumer reads it: its place in the log, and the headers that its producer set.

    `id`: of the message, given by the application, the same in every copy. `seq`: the producer's own count of
    its messages, over all topics. `number`: of the message in the source that feeds this partition (a file, a
    queue, another log), the same whichever producer sends it. `epoch`: how many times the partition had
    changed producers, as far as this record's producer knew.
    """

    topic: str
    partition: int
    offset: int
    id: Id
    producer: int
    seq: int
    epoch: int = 0
    number: int = 0


class Filter(Protocol):
    """Decides whether a record's message had its effect before."""

    def is_new(self, record: NumberedRecord) -> bool:
        """Whether to run the record's effect. Changes nothing."""

    def mark(self, record: NumberedRecord) -> None:
        """Remembers the record, whether new or not. Idempotent."""

    def commit(self) -> None:
        """Makes all marks survive a restart, if the filter's store can."""


class EveryId:
    """The first way: remember the id of every message.

    A record is new if its id was never seen.

    State: one id per message, forever (or for as long as duplicates may arrive). Correct in any order and for
    any producer. Wrong if a copy has another id, as when ids are created on sending by a producer that
    forgets what it has sent. With a store in memory, everything is new after a restart.
    """

    def __init__(self, ids: Ids | None = None) -> None:
        self._ids = SortedIds() if ids is None else ids

    def is_new(self, record: NumberedRecord) -> bool:
        return record.id not in self._ids

    def mark(self, record: NumberedRecord) -> None:
        self._ids.add(record.id)

    def commit(self) -> None:
        """Makes all marks survive a restart, if the store can."""
        self._ids.commit()


class Scope(Enum):
    """The scope in which each producer has one mark."""

    PARTITION = "partition"
    TOPIC = "topic"
    PRODUCER = "producer"

    def name_for(self, record: NumberedRecord) -> str:
        """The name of the mark that applies to a record."""
        match self:
            case Scope.PARTITION:
                return f"{record.producer}/{record.topic}/{record.partition}"
            case Scope.TOPIC:
                return f"{record.producer}/{record.topic}"
            case Scope.PRODUCER:
                return f"{record.producer}"


class HighWaterMark:
    """The second way: producers number their messages; remember the last number of each, its high-water mark.

    A record is new if its number is above the mark.

    State: one mark per producer, or per producer and topic, or per producer and topic-partition, for any
    number of messages. Gaps are allowed. Correct if each producer's messages are read in the order of their
    numbers within the scope of a mark, and a restarted producer continues its numbers. Wrong if:

    - a message is read after a later one of the same mark: it is dropped. Several requests in flight cause
      that, as does a scope of several partitions, which are not read in the order in which they were written;
    - a copy is written where another mark applies: it passes. A narrower scope makes that more likely;
    - a producer starts again at 0: everything up to its mark is dropped. If it gets a new producer number
      instead, all that it sends again passes.

    The scope also determines who must share the marks: per topic-partition, they move with the partition from
    consumer to consumer. With a wider scope, all consumers need the same marks.
    """

    def __init__(self, scope: Scope = Scope.PARTITION, marks: Marks | None = None) -> None:
        self._name_for = scope.name_for
        self._marks = MemoryMarks() if marks is None else marks

    def is_new(self, record: NumberedRecord) -> bool:
        """Whether the record's number is above the mark."""
        return record.seq > self._marks.get(self._name_for(record), NO_MARK)[1]

    def mark(self, record: NumberedRecord) -> None:
        """Raises the mark to the record's number."""
        if self.is_new(record):
            self._marks.put(self._name_for(record), (0, record.seq))

    def commit(self) -> None:
        """Makes all marks survive a restart, if the store can."""
        self._marks.commit()


class OneProducer:
    """The third way: a topic-partition has one producer at a time; remember its epoch and the last number.

    A record is new if it has its partition's newest epoch, and a number above the mark.

    State: one mark per topic-partition. Messages are numbered in the source that feeds the partition, so that
    a producer that takes over or restarts sends the same message with the same number. Each time the
    partition moves, its epoch goes up by one, and the new producer claims it: it writes a record with the new
    epoch and number -1 before anything else. From there on, a record of an older epoch is a zombie's: its
    producer has lost the partition, does not know it yet, and the new one sends that message as well.

    Correct with one producer per partition, one request in flight, and a source that keeps its numbers. Wrong
    if two producers share a partition: everything that the older epoch writes is dropped. Without fencing,
    and before the claim, a zombie's record raises the mark past messages that the new producer has yet to
    send: these are dropped. Fenced records are dropped silently here, whereas Kafka's brokers refuse them
    with an error.
    """

    def __init__(self, marks: Marks | None = None, fencing: bool = True) -> None:
        self._marks = MemoryMarks() if marks is None else marks
        self._fencing = fencing

    def is_new(self, record: NumberedRecord) -> bool:
        """Whether the record's producer still owns the partition, and its number is above the mark."""
        epoch, number = self._mark_for(record)
        return not self._fenced(record, epoch) and record.number > number

    def mark(self, record: NumberedRecord) -> None:
        """Raises epoch and number; a duplicate of a newer epoch only raises the epoch."""
        epoch, number = before = self._mark_for(record)
        after = (max(epoch, record.epoch), max(number, record.number))
        if after != before and not self._fenced(record, epoch):
            self._marks.put(_name_for(record), after)

    def commit(self) -> None:
        """Makes all marks survive a restart, if the store can."""
        self._marks.commit()

    def _mark_for(self, record: NumberedRecord) -> tuple[int, int]:
        return self._marks.get(_name_for(record), NO_MARK)

    def _fenced(self, record: NumberedRecord, epoch: int) -> bool:
        return self._fencing and record.epoch < epoch


def _name_for(record: NumberedRecord) -> str:
    return f"{record.topic}/{record.partition}"


Effect = Callable[[NumberedRecord], object]


class Order(Enum):
    """The order of effect and mark."""

    EFFECT_THEN_MARK = "effect, then mark"
    MARK_THEN_EFFECT = "mark, then effect"


class FilteringConsumer:
    """Reads batches, and commits after each one: its marks, then its position.

    A new one continues after a crash if it gets the old one's `position` and its filter's store.
    """

    def __init__(
        self,
        accepts: Filter,
        effect: Effect,
        order: Order = Order.EFFECT_THEN_MARK,
        batch: int = 1,
        position: int = 0,
    ) -> None:
        self.position = position  # the next record to read, as committed
        self._filter, self._effect = accepts, effect
        self._order, self._batch = order, batch

    def read(self, log: Sequence[NumberedRecord]) -> None:
        while batch := list(log[self.position : self.position + self._batch]):
            match self._order:
                case Order.EFFECT_THEN_MARK:
                    self._effects_first(batch)
                case Order.MARK_THEN_EFFECT:
                    self._marks_first(batch)
            self.position += len(batch)

    def _effects_first(self, batch: list[NumberedRecord]) -> None:
        for record in batch:
            if self._filter.is_new(record):
                self._effect(record)
            self._filter.mark(record)
        self._filter.commit()

    def _marks_first(self, batch: list[NumberedRecord]) -> None:
        new = []
        for record in batch:
            if self._filter.is_new(record):
                new.append(record)
            self._filter.mark(record)
        self._filter.commit()
        for record in new:
            self._effect(record)
