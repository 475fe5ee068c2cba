"""The Spark job of the fates alone: outcome, times stored, times delivered, and nothing else of any message.

As engine.py, with times (times.py) in the place of rows: three columns of each table are read, and topics and
partitions only where some partition was not read to its end.
"""

from __future__ import annotations

import math
import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense import memory, times
from kaput.analysis.dense.columns import Columns, of_row_group
from kaput.analysis.dense.context import OUTCOME
from kaput.analysis.dense.fate_sums import (
    DELIVERED,
    LOG,
    READ,
    SENDS,
    STORED,
    UNPLACED,
    UNREAD,
    Asked,
    Blob,
    Sums,
    no_sums,
)
from kaput.analysis.dense.homes import END, Key
from kaput.analysis.dense.pack import NULL, Ints, pack, unpack
from kaput.analysis.dense.split import by_key
from kaput.analysis.dense.times import DENSE_BITS, Bytes, Times
from kaput.analysis.dense.work import TABLES, Plan, Unit, cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kaput.evidence.reading import Evidence

_SUMS = -3
_CHUNK_BITS = 16
_TASK_ROWS = 8_000_000
_PART_ROWS = 24_000_000
_HELD_BYTES = 64 << 20  # times that a reading task holds before it hands them on
_LONG_RUN = 64  # rows that follow one another from which on no place is told but the first
Told = tuple[slice | Ints, Ints]  # of some messages of one chunk: places and states
Chunks = dict[Key, dict[int, list[Any]]]  # by source: `Told`s of sends, else `Packed`s


def plan(evidence: Evidence, cores: int | None = None) -> Plan:
    """Fewer and larger tasks than those of the whole analysis: a message takes two bytes at most."""
    cores = cores or os.cpu_count() or 1
    rows = sum(evidence.tables[table].rows for table in TABLES)
    small = rows <= _TASK_ROWS // 16
    parts = 1 if small else max(cores, math.ceil(rows / _PART_ROWS))
    tasks = 1 if small else max(cores, math.ceil(rows / _TASK_ROWS))
    return cut(evidence, parts, tasks, least_bits=_CHUNK_BITS, by_seq=True)


def run(spark: SparkSession, work: Plan, asked: Asked) -> Sums:
    """Counts the fates."""
    tasks = spark.sparkContext.parallelize(list(enumerate(work.tasks)), max(1, len(work.tasks)))
    blobs = tasks.mapPartitions(_reading(asked))
    parts = blobs.partitionBy(asked.context.homes.parts, _itself)
    total = no_sums(asked)
    for payload in parts.mapPartitionsWithIndex(_laying(asked)).collect():
        total.add(pickle.loads(payload))
    return total


def _itself(part: int) -> int:
    return part


def _reading(asked: Asked) -> Callable[[Iterable[tuple[int, Sequence[Unit]]]], Iterator[tuple[int, Blob]]]:
    def read(tasks: Iterable[tuple[int, Sequence[Unit]]]) -> Iterator[tuple[int, Blob]]:
        for number, units in tasks:
            for blob in count(units, asked):
                # Sums go anywhere.
                alone = blob.source == _SUMS
                yield (
                    (
                        number % asked.context.homes.parts
                        if alone
                        else asked.context.part(blob.producer, blob.chunk)
                    ),
                    blob,
                )

    return read


def count(units: Sequence[Unit], asked: Asked) -> Iterator[Blob]:
    """One task: what it found in each chunk, and at last its sums."""
    memory.keep()
    sums, held = no_sums(asked), Times(asked.context.bits)
    files: dict[str, Any] = {}
    for unit in units:
        if unit.path not in files:
            files = {unit.path: asked.open(unit.table, unit.path)}
        columns = of_row_group(files[unit.path], unit, asked.columns(unit.table))
        if unit.table == "sends":
            for who, chunk, (at, state) in told(columns, asked, sums):
                yield Blob(SENDS, who, chunk, pack((_each(at), state)))
        else:
            _times(columns, unit.table, asked, held, sums)
        if held.room > _HELD_BYTES:
            yield from _handed_on(held)
    yield from _handed_on(held)
    yield Blob(_SUMS, 0, 0, pickle.dumps(sums))


def _handed_on(held: Times) -> Iterator[Blob]:
    for (source, who, chunk), packed in held.take():
        yield Blob(source, who, chunk, packed)


def _times(columns: Columns, table: str, asked: Asked, held: Times, sums: Sums) -> None:
    """Counts the records, or each group's deliveries, that are messages."""
    _places(columns, asked, sums)
    producer, seq = columns.raw("producer"), columns.raw("seq")
    who, intact = columns.known("producer", "seq"), columns.flags("intact")
    named = who & intact
    if table == "log":
        sums.foreign += int(np.count_nonzero(intact & ~who))
        held.count(LOG, producer, seq, named)
        return
    for (group,), rows in by_key(columns.codes("group", asked.context.groups)):
        held.count(group, producer[rows], seq[rows], named[rows])


def _places(columns: Columns, asked: Asked, sums: Sums) -> Ints | None:
    """The place of each row, where that is asked; those that there are go into the sums."""
    if not asked.places:
        return None
    places = asked.context.places(columns, columns.codes("topic", asked.context.topics))
    some = places[:1] if places.strides[0] == 0 else np.unique(places)
    sums.places.update(some[some != NULL].tolist())
    return places


def told(columns: Columns, asked: Asked, sums: Sums) -> Iterator[tuple[int, int, Told]]:
    """(producer, chunk, places and states) of sends. Places are one array, or a slice."""
    bits = asked.context.bits
    producer, seq = columns.numbers("producer"), columns.numbers("seq")
    state = _states(columns, asked, sums)
    found = times.runs(producer, seq, np.broadcast_to(np.True_, (columns.rows,)))
    if len(found.row) * _LONG_RUN <= columns.rows:
        found = times.split(found, bits)
        for row, who, first, length in zip(*(column.tolist() for column in found), strict=True):
            place = first & ((1 << bits) - 1)
            yield who, first >> bits, (slice(place, place + length), state[row : row + length])
        return
    rel = seq & ((1 << bits) - 1)
    for (who, chunk), rows in by_key(producer, seq >> bits):
        yield who, chunk, (rel[rows], state[rows])


def _states(columns: Columns, asked: Asked, sums: Sums) -> npt.NDArray[Any]:
    """1 + kind of partition * outcomes + outcome: 0 is left to what was not sent."""
    state = columns.bytes_of("outcome", {word: 1 + number for word, number in OUTCOME.items()})
    places = _places(columns, asked, sums)
    if places is None:
        return state
    read = np.isin(places, np.array(sorted(asked.context.complete), np.int64))
    kind = np.where(read, READ, UNREAD)
    unplaced = places == NULL
    if unplaced.any():
        topics = columns.codes("topic", asked.context.topics)
        kind[unplaced] = UNPLACED + topics[unplaced]
    states: Ints = state + kind * len(OUTCOME)
    return states


def _laying(asked: Asked) -> Callable[[int, Iterable[tuple[int, Blob]]], Iterator[bytes]]:
    def lay(part: int, blobs: Iterable[tuple[int, Blob]]) -> Iterator[bytes]:
        yield pickle.dumps(lay_part(part, (blob for _, blob in blobs), asked))

    return lay


def lay_part(part: int, blobs: Iterable[Blob], asked: Asked) -> Sums:
    """The sums of one part's messages, and those that tasks have sent it."""
    memory.keep()
    sums, chunks = no_sums(asked), _chunks()
    for blob in blobs:
        if blob.source == _SUMS:
            sums.add(pickle.loads(blob.payload))
        else:
            payload = tuple(unpack(blob.payload, 2)) if blob.source == SENDS else blob.payload
            chunks[blob.producer, blob.chunk][blob.source].append(payload)
    for safe in _with_own_sends(chunks, part, asked, sums):
        for key in [key for key in chunks if key < safe]:
            _lay(key, chunks.pop(key), asked, sums)
    return sums


def _chunks() -> Chunks:
    return defaultdict(lambda: defaultdict(list))


def _with_own_sends(chunks: Chunks, part: int, asked: Asked, sums: Sums) -> Iterator[Key]:
    """Adds the sends that this part reads by itself; after each row group, below which key all is there."""
    files: dict[str, Any] = {}
    for unit, safe in asked.context.homes.own[part] if asked.context.homes.own else ():
        if unit.path not in files:
            files = {unit.path: asked.open("sends", unit.path)}
        columns = of_row_group(files[unit.path], unit, asked.columns("sends"))
        for who, chunk, some in told(columns, asked, sums):
            # Row groups lie across the borders of parts.
            if asked.context.part(who, chunk) == part:
                chunks[who, chunk][SENDS].append(some)
        yield safe
    yield END


def _lay(key: Key, found: dict[int, list[Any]], asked: Asked, sums: Sums) -> None:
    """One chunk's messages among their fates. Nobody sent a phantom: it has none."""
    sends: list[Told] = found.get(SENDS, [])
    if not sends:
        return
    bits = asked.context.bits
    if bits > DENSE_BITS:
        known, state, twice = _by_position(sends)
        size = len(known)

        def lay(source: int) -> Bytes:
            return times.found_at(found.get(source, []), known)
    else:
        state, twice = _dense(sends, 1 << bits, asked.states)
        size = 1 << bits

        def lay(source: int) -> Bytes:
            return times.laid(found.get(source, []), size)

    if twice is not None:
        sums.refuse((key[0], (key[1] << bits) + twice))
    stored = state * STORED + lay(LOG)
    groups = len(asked.context.names.groups)
    if groups == 0:
        sums.fates += np.bincount(stored, minlength=len(sums.fates))
        return
    stored *= DELIVERED
    for group in range(groups):
        cells = np.bincount(stored + lay(group), minlength=len(sums.fates) * DELIVERED)
        sums.cells[group] = sums.cells[group] + cells if group in sums.cells else cells
    sums.fates += cells.reshape(-1, DELIVERED).sum(axis=1)


def _dense(sends: Sequence[Told], size: int, states: int) -> tuple[npt.NDArray[Any], int | None]:
    """The state of each place, 0 where nothing was sent; and the first place that has two."""
    kind = np.min_scalar_type(states * STORED * DELIVERED)
    state: npt.NDArray[Any] = np.zeros(size, kind)
    twice = []
    for at, said in sends:
        if state[at].any():
            twice.append(int(_each(at)[state[at] != 0].min()))
        if not isinstance(at, slice):
            twice += np.flatnonzero(np.bincount(at) > 1)[:1].tolist()
        state[at] = said
    return state, min(twice, default=None)


def _each(at: slice | Ints) -> Ints:
    """Places one by one."""
    return np.arange(at.start, at.stop) if isinstance(at, slice) else at


def _by_position(sends: Sequence[Told]) -> tuple[Ints, Ints, int | None]:
    """The places of a wide chunk's messages, ascending, their states, and the first that is there twice."""
    at = np.concatenate([_each(at) for at, _ in sends])
    said = np.concatenate([said for _, said in sends])
    order = np.argsort(at, kind="stable")
    known, state = at[order], said[order]
    again = known[1:][known[1:] == known[:-1]]
    return known, state, int(again[0]) if len(again) else None
