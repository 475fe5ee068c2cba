"""What the analysis leaves in RUN_DIR/analysis beside the ledger, as Parquet.

rates     what happened in each second
lost      one row a lost message: its send, cause, fault, and the epoch that overwrote it
windows   runs of lost messages without one stored in between, for each producer and partition

The ledger itself is written where it is counted (dense/ledger_file.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kaput.analysis.closer.losses import Explained
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import RATES
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import SHIFT
from kaput.scenario.vocabulary import CAUSES

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_LOST = pa.schema(
    [
        ("producer", _INT),
        ("seq", _LONG),
        ("topic", _TEXT),
        ("partition", _INT),
        ("offset", _LONG),
        ("attempt_ns", _LONG),
        ("done_ns", _LONG),
        ("cause", _TEXT),
        ("fault", _TEXT),
        ("ack_epoch", _INT),
        ("later_epoch", _INT),
        ("later_start", _LONG),
    ]
)
_WINDOWS = pa.schema(
    [
        ("producer", _INT),
        ("topic", _TEXT),
        ("partition", _INT),
        ("cause", _TEXT),
        ("fault", _TEXT),
        ("first_seq", _LONG),
        ("last_seq", _LONG),
        ("lost", _LONG),
        ("first_ack_ns", _LONG),
        ("last_ack_ns", _LONG),
    ]
)


def write(given: Inputs, rates: Mapping[int, Ints], explained: Explained, islands: Ints) -> None:
    """Replaces the three tables. `islands`: of each astray acknowledgement."""
    _save(given, "rates", _rates(rates))
    lost = np.flatnonzero(explained.lost)
    order = np.lexsort((explained.rows["seq"][lost], explained.rows["producer"][lost]))
    columns = _lost(given, explained, lost[order])
    _save(given, "lost", columns)
    _save(given, "windows", _windows(columns, explained.rows["place"][lost[order]], islands[lost[order]]))


def _rates(rates: Mapping[int, Ints]) -> pa.Table:
    seconds = sorted(rates)
    counts = np.array([rates[second] for second in seconds], np.int64).reshape(len(seconds), len(RATES))
    columns = {"second": pa.array(seconds, _LONG)}
    return pa.table(columns | {name: pa.array(counts[:, i]) for i, name in enumerate(RATES)})


def _lost(given: Inputs, explained: Explained, at: Ints) -> pa.Table:
    rows, place = explained.rows, explained.rows["place"][at]
    columns: dict[str, pa.Array] = {
        "producer": pa.array(rows["producer"][at]),
        "seq": pa.array(rows["seq"][at]),
        "topic": _words(rows["topic"][at], given.names.topics),
        "partition": _nullable(np.where(place == NULL, NULL, place % SHIFT)),
        "cause": _words(explained.cause[at], CAUSES),
        "fault": _words(explained.fault[at], explained.faults),
    }
    columns |= {name: _nullable(rows[name][at]) for name in ("offset", "attempt_ns", "done_ns")}
    columns |= {
        name: _nullable(getattr(explained, name)[at]) for name in ("ack_epoch", "later_epoch", "later_start")
    }
    return pa.table([columns[field.name].cast(field.type) for field in _LOST], schema=_LOST)


def _windows(lost: pa.Table, place: Ints, islands: Ints) -> pa.Table:
    """Islands: neighbours of one producer and partition that are all lost; by cause and fault."""
    producer = lost["producer"].to_numpy().astype(np.int64)
    kinds = [lost[name].combine_chunks().dictionary_encode().indices for name in ("topic", "cause", "fault")]
    codes = [kind.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for kind in kinds]
    seq, done = lost["seq"].to_numpy(), lost["done_ns"].fill_null(NULL).to_numpy()
    found: list[dict[str, Any]] = []
    for _, here in grouped(producer, codes[0], place, islands, codes[1], codes[2]):
        first = int(np.arange(len(seq))[here][0])
        told = done[here][done[here] != NULL]
        same = ("producer", "topic", "partition", "cause", "fault")
        found.append(
            {
                **{name: lost[name][first].as_py() for name in same},
                "first_seq": int(seq[here].min()),
                "last_seq": int(seq[here].max()),
                "lost": len(seq[here]),
                "first_ack_ns": int(told.min()) if len(told) else None,
                "last_ack_ns": int(told.max()) if len(told) else None,
            }
        )
    found.sort(key=lambda row: (row["producer"], row["topic"], row["partition"] or -1, row["first_seq"]))
    return pa.Table.from_pylist(found, schema=_WINDOWS)


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == NULL)


def _words(numbers: Ints, words: Sequence[str]) -> pa.Array:
    known = [*words, None]
    return pa.array([known[number] for number in numbers.tolist()], _TEXT)


def _save(given: Inputs, name: str, table: pa.Table) -> None:
    directory = given.evidence.folder.analysis / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    pq.write_table(table, directory / "part-00000.parquet", compression="zstd")
