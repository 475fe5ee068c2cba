"""What the tasks of the fates' job do: some count times in row groups, others lay chunks of them together."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaput.analysis.dense import memory, times
from kaput.analysis.dense.columns import Columns, of_row_group, open_parquet
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
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.own_sends import own_sends
from kaput.analysis.dense.pack import pack, unpack
from kaput.analysis.dense.split import by_key
from kaput.analysis.dense.times import DENSE_BITS, Bytes, Times
from kaput.analysis.dense.work import Unit

_SUMS = -3
_HELD_BYTES = 64 << 20  # times that a reading task holds before it hands them on
_LONG_RUN = 64  # rows that follow one another from which on no place is told but the first
Told = tuple[slice | Ints, Ints]  # of some messages of one chunk: places and states
Chunks = dict[Key, dict[int, list[Any]]]  # by source: `Told`s of sends, else `Packed`s


def count(units: Sequence[Unit], asked: Asked) -> Iterator[Blob]:
    """One task: what it found in each chunk, and at last its sums."""
    memory.keep()
    sums, held = no_sums(asked), Times(asked.context.bits)
    files: dict[str, Any] = {}
    for unit in units:
        if unit.path not in files:
            files = {unit.path: open_parquet(unit.path, asked.texts(unit.table))}
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


def part(blob: Blob, number: int, asked: Asked) -> int:
    """Where a blob of the task of that number goes. Sums go anywhere."""
    context = asked.context
    return number % context.homes.parts if blob.source == _SUMS else context.part(blob.producer, blob.chunk)


def lay_part(part: int, blobs: Iterable[Blob], asked: Asked) -> Sums:
    """The sums of one part's messages, and those that tasks have sent it."""
    memory.keep()
    sums, chunks = no_sums(asked), _chunks()
    for blob in blobs:
        if blob.source == _SUMS:
            sums.add(pickle.loads(blob.payload))
        else:
            payload = tuple(unpack([blob.payload], 2)) if blob.source == SENDS else blob.payload
            chunks[blob.producer, blob.chunk][blob.source].append(payload)
    for columns, safe in own_sends(part, asked.context, asked.columns("sends"), asked.texts("sends")):
        for who, chunk, some in told(columns, asked, sums):
            chunks[who, chunk][SENDS].append(some)
        _lay_below(safe, chunks, asked, sums)
    _lay_below(END, chunks, asked, sums)
    return sums


def _lay_below(safe: Key, chunks: Chunks, asked: Asked, sums: Sums) -> None:
    for key in [key for key in chunks if key < safe]:
        _lay(key, chunks.pop(key), asked, sums)


def _chunks() -> Chunks:
    return defaultdict(lambda: defaultdict(list))


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
