"""Generated partitions and mirrors of them with planted differences, and a comparison of both by hashes in
plain Python, written from the definitions (docs/COMPARE.md) and not from kaput.compare.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kaput.cluster.protocol import DefaultRecordBatchBuilder
from kaput.cluster.record_batches import Batch, batches
from kaput.compare.reading import SCHEMA, PartitionFacts, columns

Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Record:
    """One record at an offset; `aborted`: of a transaction that was aborted."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    aborted: bool = False


@dataclass
class Pair:
    """A partition and its mirror, and how many differences of each kind were planted."""

    source: list[Record]
    target: list[Record]
    planted: Counter[str] = field(default_factory=Counter)


def generate(seed: int, count: int, distinct: int | None = None) -> Pair:
    """`distinct`: so many different contents; None: every record is another one."""
    draw = random.Random(seed)
    source, offset = [], draw.randrange(3) * 100
    for number in range(count):
        what = number if distinct is None else draw.randrange(distinct)
        key = None if what % 7 == 3 else b"key %d" % (what % 50)
        value = None if what % 11 == 5 and key else b"value %d" % what
        headers = (("h", b"%d" % what), ("h", None)) if what % 3 == 0 else ()
        aborted = distinct is None and number % 40 > 36
        source.append(Record(offset, 1_700_000_000_000 + what * 5, key, value, headers, aborted))
        offset += 1 if draw.random() < 0.97 else draw.randrange(2, 5)
    return _mirrored(source, draw, plain=distinct is None)


def _mirrored(source: Sequence[Record], draw: random.Random, plain: bool) -> Pair:
    """The mirror, with an offset of its own for each record."""
    planted: Counter[str] = Counter()
    copies: list[Record] = []
    visible = [record for record in source if not record.aborted]
    for record in source:
        if record.aborted:
            if draw.random() < 0.3:
                copies.append(replace(record, aborted=False))
                planted["exposed"] += 1
            continue
        kind = draw.choices(("same", *_CHANGES), (60, *[1] * len(_CHANGES)))[0]
        # What is between the first and the last matched record is compared: these two stay as they are.
        if record in (visible[0], visible[-1]):
            kind = "same"
        planted[kind] += 1
        copies += _CHANGES[kind](record) if kind != "same" else [record]
    for _ in range(draw.randrange(4) if plain else 2):
        at = draw.randrange(1, len(copies) - 2)
        if copies[at] != copies[at + 1]:
            copies[at], copies[at + 1] = copies[at + 1], copies[at]
            planted["swapped"] += 1
    return Pair(
        list(source), [replace(record, offset=number * 2) for number, record in enumerate(copies)], planted
    )


_CHANGES: dict[str, Any] = {
    "missing": lambda record: [],
    "copy": lambda record: [record, record],
    "foreign": lambda record: [record, Record(0, record.timestamp + 3, b"other", b"new %d" % record.offset)],
    "timestamps": lambda record: [replace(record, timestamp=record.timestamp + 1)],
    "headers": lambda record: [replace(record, headers=(*record.headers, ("more", b"x")))],
    "values": lambda record: [replace(record, value=b"changed %d" % record.offset)],
    "keys": lambda record: [replace(record, key=b"changed %d" % record.offset)],
}  # fmt: skip


def write(records: Sequence[Record], path: Path, draw: random.Random) -> PartitionFacts:
    """The rows that a reader of the cluster would have written: through Kafka's own batches."""
    found: list[tuple[Batch, bool]] = []
    at = 0
    while at < len(records):
        size = draw.randrange(1, 30)
        first = records[at]
        some = [r for r in records[at : at + size] if r.aborted == first.aborted]
        some = some[: next((i for i, r in enumerate(some) if r != records[at + i]), len(some))]
        (batch,) = batches(_encoded(some))
        found.append((batch._replace(head=batch.head._replace(base_offset=first.offset)), first.aborted))
        at += len(some)
    table = columns(found)
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for begin in range(0, table.num_rows, 100):
            writer.write_table(table.slice(begin, 100))
    start = records[0].offset if records else 0
    end = records[-1].offset + 1 if records else 0
    return PartitionFacts(start, end, records=sum(not r.aborted for r in records))


def _encoded(records: Sequence[Record]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 24)
    for record in records:
        builder.append(
            record.offset - records[0].offset,
            record.timestamp,
            record.key,
            record.value,
            list(record.headers),
        )
    return bytes(builder.build())


def by_hashes(pair: Pair) -> dict[str, int]:
    """Counts by kind, from SHA-256 of contents, dictionaries and sorting."""
    source = [r for r in pair.source if not r.aborted]
    target = list(pair.target)
    matches: list[tuple[Record, Record]] = []
    found: Counter[str] = Counter()
    source, target = _take(source, target, ("key", "value", "headers", "timestamp"), matches)
    aborted = [r for r in pair.source if r.aborted]
    exposed: list[tuple[Record, Record]] = []
    known = {_hash(r, ("key", "value", "headers", "timestamp")) for r in pair.source if not r.aborted}
    copies = [r for r in target if _hash(r, ("key", "value", "headers", "timestamp")) in known]
    target = [r for r in target if r not in copies]
    _, target = _take(aborted, target, ("key", "value", "headers", "timestamp"), exposed)
    for names, changed in (
        (("key", "value", "headers"), ("timestamps",)),
        (("key", "value", "timestamp"), ("headers",)),
        (("key", "value"), ("timestamps", "headers")),
        (("key", "headers", "timestamp"), ("values",)),
        (("value", "headers", "timestamp"), ("keys",)),
    ):
        new: list[tuple[Record, Record]] = []
        if changed == ("timestamps",):
            known = {_hash(r, ("key", "value")) for r in source}
        if changed == ("values",):
            more = [r for r in target if _hash(r, ("key", "value")) in known]
            copies += more
            target = [r for r in target if r not in more]
        source, target = _take(source, target, names, new)
        found.update({kind: len(new) for kind in changed})
        matches += new
    first, last = min(t.offset for _, t in matches), max(t.offset for _, t in matches)
    last_source = max(s.offset for s, _ in matches)
    found["exposed"], found["copy"] = len(exposed), len(copies)
    found["missing"] = sum(r.offset <= last_source for r in source)
    found["behind"] = len(source) - found["missing"]
    begins = pair.source[0].offset > 0
    for record in target:
        older = begins and record.offset < first
        found["newer" if record.offset > last else "older" if older else "foreign"] += 1
    matches.sort(key=lambda each: each[0].offset)
    highest = -1
    for _, record in matches:
        found["reordered"] += record.offset < highest
        highest = max(highest, record.offset)
    found["matched"] = len(matches)
    return {kind: count for kind, count in found.items() if count}


def _take(
    source: Sequence[Record],
    target: Sequence[Record],
    names: Sequence[str],
    into: list[tuple[Record, Record]],
) -> tuple[list[Record], list[Record]]:
    """Pairs the n-th of the one with the n-th of the other; returns what is left."""
    waiting: defaultdict[bytes, list[Record]] = defaultdict(list)
    for record in reversed(target):
        waiting[_hash(record, names)].append(record)
    left = []
    for record in source:
        same = waiting[_hash(record, names)]
        if same:
            into.append((record, same.pop()))
        else:
            left.append(record)
    rest = {record.offset for same in waiting.values() for record in same}
    return left, [record for record in target if record.offset in rest]


def _hash(record: Record, names: Sequence[str]) -> bytes:
    return hashlib.sha256(repr([getattr(record, name) for name in names]).encode()).digest()
