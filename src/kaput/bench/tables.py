"""Writes a slab's arrays as tables of kaput.evidence/1: one Parquet file per producer, partition and member.

File names sort by time. Not here: the small files of the folder (generate.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kaput.bench import deliveries
from kaput.bench.plan import SlabPlan
from kaput.bench.shape import STORE, TOPIC, Longs
from kaput.bench.slabs import ACKED, FAILED, KEPT, Log, Slab
from kaput.core import SECOND
from kaput.evidence.folder import RunFolder
from kaput.evidence.schemas import CLUSTER, TABLES
from kaput.evidence.sealing import ROW_GROUP_ROWS, parquet_writer
from kaput.scenario.vocabulary import OUTCOMES

_ERRORS = (None, "MSG_SIZE_TOO_LARGE", "_TIMED_OUT", "_TIMED_OUT", "_QUEUE_FULL")  # by outcome


def write_slab(plan: SlabPlan, path: Path) -> tuple[int, int, int]:
    """Writes one slab to the run folder `path`. Returns the numbers of rows of sends, log and deliveries."""
    folder, slab = RunFolder(path), Slab(plan)
    sent = _write(folder, "sends", _sends(slab))
    stored = _write(folder, "log", (_log(slab, log) for log in slab.logs))
    for name, messages in (("kept", np.flatnonzero(slab.outcome == KEPT)), ("left_in_store", slab.waiting)):
        _write(folder, name, iter([(f"{STORE}-{plan.slab:06d}", _in_store(slab, messages))]))
    delivered = 0
    for group in range(plan.shape.groups):
        for number in range(plan.shape.members):
            name = plan.shape.member(group, number)
            stream, events = deliveries.member(slab, group, number)
            words = {"group": plan.shape.group(group), "member": name}
            file = f"{name}-{plan.slab:06d}"
            delivered += _write(folder, "deliveries", iter([(file, words | _delivered(stream))]))
            _write(folder, "group_events", iter([(file, words | _events(events))]))
    return sent, stored, delivered


def _write(folder: RunFolder, name: str, files: Iterator[tuple[str, dict[str, Any]]]) -> int:
    """Writes files of one table from columns: arrays, or one value for all rows. Returns the number
    of rows.
    """
    table, written = TABLES[name], 0
    for file, columns in files:
        rows = max(len(column) for column in columns.values() if not isinstance(column, str | int))
        arrays = [
            pa.repeat(pa.scalar(column, field.type), rows)
            if isinstance(column, str | int)
            else pa.array(column, field.type)
            if isinstance(column, np.ndarray)
            else column.cast(field.type)
            for field in table.schema
            for column in (columns[field.name] if field.name != CLUSTER else pa.nulls(rows),)
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
            f"producer-{producer:05d}-{slab.plan.slab:06d}",
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
    return f"partition-{log.partition:05d}-{slab.plan.slab:06d}", columns


def _delivered(stream: deliveries.Stream) -> dict[str, Any]:
    nameless = stream.producer < 0
    return {
        "topic": TOPIC,
        "partition": stream.partition,
        "offset": stream.offset,
        "producer": _nullable(stream.producer, nameless),
        "seq": _nullable(stream.seq, nameless),
        "intact": stream.intact,
        "polled_ns": stream.polled_ns,
    }


def _events(events: deliveries.DeliveryEvents) -> dict[str, Any]:
    return {
        "kind": _words(events.kind, deliveries.EVENT_KINDS),
        "topic": _words(np.where(events.partition < 0, 1, 0), (TOPIC, None)),
        "partition": _nullable(events.partition, events.partition < 0),
        "offset": _nullable(events.offset, events.offset < 0),
        "at_ns": events.at_ns,
    }


def _nullable(values: Longs, null: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=null if null.any() else None)


def _words(numbers: npt.NDArray[Any], words: tuple[str | None, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(words, pa.string()))
