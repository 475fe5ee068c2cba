"""Evidence as events: rows of numbers in the order of time, from which a history is written (jepsen.py).

Partitions and members are numbers here; what they stand for is in `Names`. Not here: the order (merging.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kaput.evidence.nulls import NULL_LONG
from kaput.evidence.parquet import open_file
from kaput.evidence.reading import Evidence
from kaput.export.merging import Rows

FOREVER = 2**63 - 1
_BATCH_ROWS = 1 << 16


class Kind(IntEnum):
    """What happened; of one moment in this order."""

    ATTEMPT = 0
    GIVEN_UP = 1
    ASSIGNED = 2
    DELIVERED = 3
    ACKED = 4
    FAILED = 5
    UNKNOWN = 6
    STORED = 7


# The columns of a row of numbers. `who` is a producer, or a member's number.
TIME, KIND, WHO, KEY, OFFSET, PRODUCER, SEQ, ERROR = range(8)
_COLUMNS = 8
_TRANSACTIONS = {"committed": Kind.ACKED, "aborted": Kind.FAILED, "unknown": Kind.UNKNOWN}
_OUTCOMES = {"acked": Kind.ACKED, "failed": Kind.FAILED, "unknown": Kind.UNKNOWN}


@dataclass
class Names:
    """What numbers stand for: keys for topic-partitions, members, and errors; all from 0."""

    keys: dict[tuple[str, int], int] = field(default_factory=dict)
    members: dict[tuple[str, str], int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def key(self, topic: str, partition: int) -> int:
        """The number of a partition."""
        return self.keys.setdefault((topic, partition), len(self.keys))

    def member(self, group: str, member: str) -> int:
        """The number of a member of a group."""
        return self.members.setdefault((group, member), len(self.members))

    def error(self, text: str) -> int:
        """The number of an error; `texts` has the way back."""
        if text not in self.errors:
            self.errors[text] = len(self.texts)
            self.texts.append(text)
        return self.errors[text]


class Events:
    """The events of one run folder. `strangers`: records that are no intact message, which are left out."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.names = Names()
        self.strangers = 0
        for topic, partition in sorted(self._places()):
            self.names.key(topic, partition)

    def _places(self) -> set[tuple[str, int]]:
        """Every partition that anybody names: whatever the order of rows, keys are the same."""
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

    def of_clients(self) -> Iterator[Rows]:
        """Everything but the drain, in no order."""
        yield from self._sends()
        yield from self._deliveries()
        yield from self._assignments()

    def of_the_drain(self) -> Iterator[Rows]:
        """What is stored: `time` is the key and `kind` always the same, so that it goes by key and offset."""
        names = ["topic", "partition", "offset", "producer", "seq", "intact"]
        told = "visible" not in self._evidence.tables["log"].lacking
        for batch in self._batches("log", [*names, "visible"] if told else names):
            # Of an aborted transaction nothing is there for a reader.
            known = self._known(batch.filter(pc.fill_null(batch["visible"], True)) if told else batch)
            rows = _rows(len(known))
            rows[TIME] = rows[KEY] = self._keys(known)
            rows[KIND] = Kind.STORED
            rows[WHO] = rows[OFFSET] = _ints(known, "offset")
            rows[PRODUCER], rows[SEQ] = _ints(known, "producer"), _ints(known, "seq")
            yield rows

    def _sends(self) -> Iterator[Rows]:
        elsewhere = self._places_of_the_unplaced()
        names = [
            "producer",
            "seq",
            "topic",
            "partition",
            "attempt_ns",
            "done_ns",
            "outcome",
            "offset",
            "error",
        ]
        for batch in self._batches("sends", names):
            rows = _rows(len(batch))
            rows[KIND] = Kind.ATTEMPT
            rows[TIME] = _ints(batch, "attempt_ns")
            rows[WHO] = rows[PRODUCER] = _ints(batch, "producer")
            rows[SEQ] = _ints(batch, "seq")
            rows[KEY] = self._keys(batch, elsewhere)
            rows[OFFSET] = _ints(batch, "offset")
            yield rows.copy()
            done = _ints(batch, "done_ns")
            rows[TIME] = np.maximum(np.where(done == NULL_LONG, FOREVER, done), rows[TIME])
            rows[KIND] = _mapped(batch, "outcome", lambda word: _OUTCOMES[word])
            self._judge_transactions(rows)
            rows[ERROR] = _mapped(batch, "error", self.names.error)
            yield rows

    def _judge_transactions(self, rows: Rows) -> None:
        """What was acknowledged within a transaction became of it what became of the transaction."""
        for producer, (first, last, kind) in self._transactions.items():
            acked = np.flatnonzero((rows[PRODUCER] == producer) & (rows[KIND] == Kind.ACKED))
            seqs = rows[SEQ, acked]
            at = np.searchsorted(first, seqs, side="right") - 1
            inside = (at >= 0) & (seqs <= last[at])
            rows[KIND, acked[inside]] = kind[at[inside]]

    @cached_property
    def _transactions(self) -> dict[int, tuple[Rows, Rows, Rows]]:
        """By producer: first and last seq of its transactions in order, and how a message in each ended."""
        parts: list[Rows] = []
        for batch in self._batches("transactions", ["producer", "first_seq", "last_seq", "outcome"]):
            kinds = _mapped(batch, "outcome", lambda word: _TRANSACTIONS[word])
            parts.append(np.stack([_ints(batch, n) for n in ("producer", "first_seq", "last_seq")] + [kinds]))
        if not parts:
            return {}
        every = np.concatenate(parts, axis=1)
        every = every[:, every[2] >= every[1]]
        every = every[:, np.argsort(every[1], kind="stable")]
        own = {int(producer): every[1:, every[0] == producer] for producer in np.unique(every[0])}
        return {producer: (rows[0], rows[1], rows[2]) for producer, rows in own.items()}

    def _places_of_the_unplaced(self) -> dict[tuple[int, int], int]:
        """By message that was sent to no known partition: the key under which it is stored nevertheless."""
        unplaced: list[Rows] = []
        for batch in self._batches("sends", ["producer", "seq", "partition"]):
            none = batch.filter(_nowhere(batch))
            if len(none):
                unplaced.append(np.stack((_ints(none, "producer"), _ints(none, "seq"))))
        if not unplaced:
            return {}
        wanted = np.sort(_identity(*np.concatenate(unplaced, axis=1)))
        found: dict[tuple[int, int], int] = {}
        for batch in self._batches("log", ["topic", "partition", "producer", "seq", "intact"]):
            known = batch.filter(pc.and_(batch["intact"], pc.is_valid(batch["seq"])))
            producer, seq = _ints(known, "producer"), _ints(known, "seq")
            hits = np.flatnonzero(np.isin(_identity(producer, seq), wanted))
            keys = self._keys(known)
            for at in hits.tolist():
                found.setdefault((int(producer[at]), int(seq[at])), int(keys[at]))
        return found

    def _deliveries(self) -> Iterator[Rows]:
        names = ["group", "member", "topic", "partition", "offset", "producer", "seq", "intact", "polled_ns"]
        for batch in self._batches("deliveries", names):
            known = self._known(batch)
            rows = _rows(len(known))
            rows[TIME], rows[KIND] = _ints(known, "polled_ns"), Kind.DELIVERED
            rows[WHO] = self._members(known)
            rows[KEY], rows[OFFSET] = self._keys(known), _ints(known, "offset")
            rows[PRODUCER], rows[SEQ] = _ints(known, "producer"), _ints(known, "seq")
            yield rows

    def _assignments(self) -> Iterator[Rows]:
        """What each member had from when on; a key of -1 stands for all that it had."""
        kinds = dict.fromkeys(("revoked", "lost"), Kind.GIVEN_UP) | {"assigned": Kind.ASSIGNED}
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
        """A big table piece by piece. Raises EvidenceError."""
        found = self._evidence.tables[table]
        schema = pa.schema([found.table.schema.field(name) for name in names])
        for path in found.files:
            for batch in open_file(path).iter_batches(_BATCH_ROWS, columns=list(names), use_threads=False):
                yield pa.Table.from_batches([batch]).select(names).cast(schema)

    def _known(self, batch: pa.Table) -> pa.Table:
        """The intact messages of this run."""
        known = batch.filter(pc.and_(batch["intact"], pc.is_valid(batch["seq"])))
        self.strangers += len(batch) - len(known)
        return known

    def _keys(self, batch: pa.Table, elsewhere: dict[tuple[int, int], int] | None = None) -> Rows:
        topics = batch["topic"].combine_chunks().dictionary_encode()
        words, partition = topics.dictionary.to_pylist(), _ints(batch, "partition")
        topic = topics.indices.to_numpy(zero_copy_only=False)
        keys = np.zeros(len(batch), np.int64)
        for number, word in enumerate(words):
            for each in np.unique(partition[topic == number]).tolist():
                keys[(topic == number) & (partition == each)] = self.names.key(word, max(each, 0))
        if elsewhere:
            for at in np.flatnonzero(partition < 0).tolist():
                message = batch["producer"][at].as_py(), batch["seq"][at].as_py()
                keys[at] = elsewhere.get(message, keys[at])
        return keys

    def _members(self, batch: pa.Table) -> Rows:
        pairs = pc.binary_join_element_wise(batch["group"], batch["member"], "\0").combine_chunks()
        encoded = pairs.dictionary_encode()
        words = [word.partition("\0") for word in encoded.dictionary.to_pylist()]
        numbers = np.array([self.names.member(group, member) for group, _, member in words], np.int64)
        return numbers[encoded.indices.to_numpy(zero_copy_only=False)] if len(batch) else numbers


def _rows(count: int) -> Rows:
    return np.full((_COLUMNS, count), NULL_LONG, np.int64)


def _ints(batch: pa.Table, name: str) -> Rows:
    """A column of numbers; NULL_LONG for null."""
    found: Rows = batch[name].cast(pa.int64()).fill_null(NULL_LONG).to_numpy()
    return found


def _nowhere(batch: pa.Table) -> Any:
    return pc.or_kleene(pc.is_null(batch["partition"]), pc.less(batch["partition"], 0))


def _mapped(batch: pa.Table, name: str, number: Any) -> Rows:
    """The numbers of a column's words; NULL_LONG for null."""
    encoded = batch[name].combine_chunks().dictionary_encode()
    words = np.array([*(int(number(word)) for word in encoded.dictionary.to_pylist()), NULL_LONG], np.int64)
    found: Rows = words[encoded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]
    return found


def _identity(producer: Rows, seq: Rows) -> Rows:
    """One number for a message, of which two are alike too seldom to matter: what is found is compared."""
    return producer * np.int64(1 << 40) ^ seq
