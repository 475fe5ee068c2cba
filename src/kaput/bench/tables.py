"""Writes a slab's arrays as tables of kaput.evidence/1: one Parquet file per producer, partition and member;
and generates the deliveries to members.

File names sort by time. Not here: the small files of the folder (generate.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kaput.bench.plan import START_NS, STORE, TOPIC, Longs, PlantingPlan, PlantKind, Plants, commits_in
from kaput.bench.slabs import ACKED, FAILED, KEPT, NOBODY, Log, Slab
from kaput.core import MS, SECOND
from kaput.evidence.folder import RunFolder
from kaput.evidence.recorder import whole_column
from kaput.evidence.schemas import TABLES
from kaput.evidence.sealing import ROW_GROUP_ROWS, parquet_writer
from kaput.processes.signals import check_interrupted
from kaput.scenario.vocabulary import OUTCOMES

_ERRORS = (None, "MSG_SIZE_TOO_LARGE", "_TIMED_OUT", "_TIMED_OUT", "_QUEUE_FULL")  # by outcome


def write_slab(plan: PlantingPlan, number: int, path: Path) -> tuple[int, int, int]:
    """Writes one slab to the run folder `path`. Returns the numbers of rows of sends, log and deliveries."""
    folder, slab = RunFolder(path), Slab(plan, number)
    sent = _write(folder, "sends", _sends(slab))
    stored = _write(folder, "log", (_log(slab, log) for log in slab.logs))
    for name, messages in (("kept", np.flatnonzero(slab.outcome == KEPT)), ("left_in_store", slab.waiting)):
        _write(folder, name, iter([(f"{STORE}-{number:06d}", _in_store(slab, messages))]))
    delivered = 0
    for group in range(plan.shape.groups):
        for member in range(plan.shape.members):
            name = plan.shape.member(group, member)
            deliveries, events = _member(slab, group, member)
            words = {"group": plan.shape.group(group), "member": name, "topic": TOPIC}
            file = f"{name}-{number:06d}"
            delivered += _write(folder, "deliveries", iter([(file, words | deliveries)]))
            _write(folder, "group_events", iter([(file, words | events)]))
    return sent, stored, delivered


def _write(folder: RunFolder, name: str, files: Iterator[tuple[str, dict[str, Any]]]) -> int:
    """Writes files of one table from arrays, or one value for all rows. Returns the number of rows."""
    table, written = TABLES[name], 0
    for file, columns in files:
        check_interrupted()
        rows = max(len(column) for column in columns.values() if not isinstance(column, str | int))
        arrays = [
            column.cast(field.type) if isinstance(column, pa.Array) else whole_column(column, field, rows)
            for field in table.schema
            for column in (columns.get(field.name),)
        ]
        if rows:
            with parquet_writer(table, folder.table(name) / f"{file}.parquet") as writer:
                whole = pa.table(arrays, schema=table.schema)
                writer.write_table(whole, row_group_size=ROW_GROUP_ROWS)
        written += rows
    return written


def _sends(slab: Slab) -> Iterator[tuple[str, dict[str, Any]]]:
    for producer in range(slab.shape.producers):
        order, done_ns = slab.completed(producer)
        outcome = slab.outcome[order]
        partition = np.repeat(slab.batches.partition, slab.batches.size)[order]
        yield (
            f"producer-{producer:05d}-{slab.number:06d}",
            {
                "producer": producer,
                "seq": slab.seq[order],
                "topic": TOPIC,
                # Messages that the client itself rejected never had a partition.
                "partition": _nullable(partition, outcome == FAILED),
                "attempt_ns": slab.attempt_ns[order],
                "done_ns": done_ns,
                "outcome": _words(outcome, OUTCOMES),
                "offset": _nullable(slab.offset[order], outcome != ACKED),
                "error": _words(outcome, _ERRORS),
            },
        )


def _in_store(slab: Slab, messages: Longs) -> dict[str, Any]:
    """All columns that any table of stores has."""
    return {
        "producer": np.repeat(slab.batches.producer, slab.batches.size)[messages],
        "seq": slab.seq[messages],
        "store": STORE,
        "error": "_TIMED_OUT",
        "tries": 1,
        "in_doubt": False,
        "at_ns": slab.attempt_ns[messages] + SECOND,
    }


def _log(slab: Slab, log: Log) -> tuple[str, dict[str, Any]]:
    nameless = log.producer < 0
    columns = {
        "topic": TOPIC,
        "partition": log.partition,
        "offset": log.offset,
        "leader_epoch": 0,
        "timestamp_ms": log.timestamp_ms,
        "producer": _nullable(log.producer, nameless),
        "seq": _nullable(log.seq, nameless),
        "intact": log.intact,
        "visible": True,
    }
    return f"partition-{log.partition:05d}-{slab.number:06d}", columns


def _nullable(values: Longs, null: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=null if null.any() else None)


def _words(numbers: npt.NDArray[Any], words: tuple[str | None, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(words, pa.string()))


_POLL_NS = 5_000_000
_STEP_NS = 200  # approximate time between two records of a poll
_MIN_STEP_NS = 8  # events of plants are placed in half of this time in between
JOINED, ASSIGNED, REVOKED, COMMITTED, LEFT = range(5)
EVENT_KINDS = ("joined", "assigned", "revoked", "committed", "left")
NOTHING = -1  # instead of a partition or offset: none


@dataclass(frozen=True)
class _PartitionDeliveries:
    """One partition's deliveries to the group, before they are sorted into polls: their `columns`, and the
    number of the `poll` of each. `planted`: positions of the plants' (first) deliveries; `commits`: positions
    of deliveries followed by a commit.
    """

    partition: int
    columns: dict[str, npt.NDArray[Any]]
    poll: Longs
    plants: Plants
    planted: Longs
    commits: Longs


def _member(slab: Slab, group: int, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of the deliveries and of the events of one member in the slab."""
    parts = [_part(slab, log, group) for log in slab.logs[number :: slab.shape.members]]
    poll = np.concatenate([part.poll for part in parts])
    order = np.argsort(poll, kind="stable")
    times = np.empty(len(order), np.int64)
    times[order] = _polled_ns(poll[order], slab.rng)
    bounds = np.cumsum([0, *(len(part.poll) for part in parts)])
    partition = np.repeat([part.partition for part in parts], np.diff(bounds))
    whole = {name: np.concatenate([part.columns[name] for part in parts])[order] for name in parts[0].columns}
    nameless = whole["producer"] < 0
    ids = {name: _nullable(whole[name], nameless) for name in ("producer", "seq")}
    deliveries = {**whole, **ids, "partition": partition[order], "polled_ns": times[order]}
    last_ns = int(times.max(initial=slab.shape.starts_ns(slab.number)))
    events: list[Longs] = []
    if slab.number == 0:
        before_ns = START_NS - 100 * MS
        events.append(_event(JOINED, NOTHING, NOTHING, [before_ns - MS]))
        events.append(_event(ASSIGNED, [part.partition for part in parts], 0, before_ns))
    for part, low, high in zip(parts, bounds, bounds[1:], strict=False):
        events += _group_events(part, times[low:high])
        if high > low:
            events.append(
                _event(
                    COMMITTED,
                    part.partition,
                    slab.plan.offsets[slab.number + 1, part.partition],
                    [last_ns + MS],
                )
            )
    if slab.number == slab.shape.slabs - 1:
        events.append(_event(LEFT, NOTHING, NOTHING, [last_ns + 2 * MS]))
    return deliveries, _events(np.concatenate(events, axis=1))


def _event(kind: int, partition: npt.ArrayLike, offset: npt.ArrayLike, at_ns: npt.ArrayLike) -> Longs:
    """Events as columns: kind, partition, offset and time. NOTHING stands for null."""
    return np.stack(
        np.broadcast_arrays(*(np.asarray(each, np.int64) for each in (kind, partition, offset, at_ns)))
    )


def _events(rows: Longs) -> dict[str, Any]:
    """Events by time; at equal times in the order in which they are given."""
    kind, partition, offset, at_ns = rows[:, np.argsort(rows[3], kind="stable")]
    return {
        "kind": _words(kind, EVENT_KINDS),
        "topic": _words(np.where(partition < 0, 1, 0), (TOPIC, None)),
        "partition": _nullable(partition, partition < 0),
        "offset": _nullable(offset, offset < 0),
        "at_ns": at_ns,
    }


def _part(slab: Slab, log: Log, group: int) -> _PartitionDeliveries:
    mine = log.plants.group == group
    plants, at = log.plants.only(mine), log.planted[mine]
    log_index = np.arange(len(log.offset))

    def of(kind: PlantKind) -> Longs:
        found: Longs = at[plants.kind == kind]
        return found

    swapped = of(PlantKind.SWAPPED_POLL)
    log_index[swapped], log_index[swapped + 1] = swapped + 1, swapped
    times = np.ones(len(log_index), np.int64)
    times[of(PlantKind.UNSEEN)] = times[of(PlantKind.UNSEEN) + 1] = 0
    times[of(PlantKind.FOREIGN_SKIPPED) + 1] = 0
    times[of(PlantKind.REDELIVERED)] = times[of(PlantKind.REDELIVERED_AFTER_REASSIGNMENT)] = 2
    times[of(PlantKind.VANISHED)] += 1  # before the record after the hole
    producer, seq, intact = log.producer.copy(), log.seq.copy(), log.intact.copy()
    misread, damaged = of(PlantKind.MISREAD), of(PlantKind.DAMAGED_DELIVERY)
    producer[misread], seq[misread] = log.producer[misread - 1], log.seq[misread - 1]
    producer[damaged] = seq[damaged] = NOBODY
    intact[damaged] = False
    fetched_ns = slab.appended_ns + slab.delays_ns(len(slab.appended_ns), median_ms=2.0, spread=0.7)
    poll = np.maximum.accumulate(-(-fetched_ns[log.batch] // _POLL_NS))
    position = np.cumsum(times) - times
    log_index = np.repeat(log_index, times)
    offset, producer, seq = log.offset[log_index], producer[log_index], seq[log_index]
    gone = plants.only(plants.kind == PlantKind.VANISHED)
    first = position[of(PlantKind.VANISHED)]
    offset[first] -= 1
    producer[first], seq[first] = gone.producer, gone.batch * slab.shape.batch + gone.at
    return _PartitionDeliveries(
        log.partition,
        {"offset": offset, "producer": producer, "seq": seq, "intact": intact[log_index]},
        poll[log_index],
        plants,
        position[at],
        position[log.ends[_committed(slab, log, group)]],
    )


def _committed(slab: Slab, log: Log, group: int) -> Longs:
    """The batches followed by a commit, except the one at the end."""
    batches = len(log.ends)
    count = int(commits_in(np.array(batches)))
    if slab.plan.owes_from[group, log.partition] == slab.number:
        count = 0
    return (np.arange(count) + 1) * batches // (count + 1) - 1


def _polled_ns(poll: Longs, rng: np.random.Generator) -> Longs:
    """Times of deliveries, from the ascending numbers of their polls."""
    if not len(poll):
        return poll
    begins = np.flatnonzero(np.diff(poll, prepend=poll[0] - 1))
    sizes = np.diff(begins, append=len(poll))
    step = min(_STEP_NS, _POLL_NS // int(sizes.max() + 1))
    assert step >= _MIN_STEP_NS, "more records in a poll than there is time for"
    in_poll = np.arange(len(poll)) - np.repeat(begins, sizes)
    return poll * _POLL_NS + in_poll * step + rng.integers(0, step // 2, len(poll), np.int64)


def _group_events(part: _PartitionDeliveries, times: Longs) -> Iterator[Longs]:
    """The events of a partition's plants and commits. `times`: of its deliveries."""
    where, offset = part.partition, part.columns["offset"]

    def of(kind: PlantKind) -> Longs:
        planted: Longs = part.planted[part.plants.kind == kind]
        return planted

    yield _event(COMMITTED, where, offset[part.commits] + 1, times[part.commits] + 1)
    early = of(PlantKind.COMMIT_AHEAD)
    yield _event(COMMITTED, where, offset[early] + 3, times[early] + 1)
    again = of(PlantKind.REDELIVERED_AFTER_REASSIGNMENT)
    yield _event(REVOKED, where, NOTHING, times[again] + 1)
    yield _event(ASSIGNED, where, offset[again], times[again] + 2)
    unassigned = of(PlantKind.UNASSIGNED)
    yield _event(REVOKED, where, NOTHING, times[unassigned] - 2)
    yield _event(ASSIGNED, where, offset[unassigned] + 1, times[unassigned] + 1)
