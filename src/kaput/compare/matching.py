"""Matches target records to source records: frames in, frames out, without Spark.

Records are matched by content, as multisets: the k-th copy in the source is the k-th copy in the target. The
rest is matched by the fields that are equal. Not here: shuffling rows (rounds.py), order (positions.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.compare.decoding import ABORTED, LOG_APPEND_TIME

SOURCE, TARGET = 0, 1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# The differences between two matched records, as bits.
TIMESTAMP, HEADERS, VALUE, KEY, EXPOSED, TYPE = 1, 2, 4, 8, 16, 32
# The aspects that positions.py counts, with a row each; EXPOSED is counted separately.
CHANGES = {
    "timestamps": TIMESTAMP,
    "headers": HEADERS,
    "values": VALUE,
    "keys": KEY,
    "timestamp types": TYPE,
}
CONTENT = ("key", "value", "headers", "timestamp")
ROWS = pl.Schema(
    {
        "pair": pl.Int32,
        "side": pl.Int8,
        "offset": pl.Int64,
        "timestamp": pl.Int64,
        "key": pl.Int64,
        "value": pl.Int64,
        "headers": pl.Int64,
        "flags": pl.UInt8,
        "copy": pl.Boolean,  # target records: the source has the same record, but fewer copies
    }
)
MATCHED = pl.Schema(
    {
        "pair": pl.Int32,
        "source": pl.Int64,
        "target": pl.Int64,
        "source_timestamp": pl.Int64,
        "target_timestamp": pl.Int64,
        "change": pl.UInt8,
    }
)


def change_name(aspect: str) -> str:
    """The name of the count and examples of records that differ in an aspect."""
    return f"change_{CHANGES[aspect]}"


class Step(NamedTuple):
    """Rows that are equal in the columns `by` are the same record, with the differences `change`. `aborted`:
    match aborted source records, which must not be in the target.
    """

    by: tuple[str, ...]
    change: int
    aborted: bool = False


class Round(NamedTuple):
    """Steps between rows that are equal in `by`, so that a task needs only those."""

    by: tuple[str, ...]
    steps: tuple[Step, ...]
    marks_copies: bool = False


ROUNDS = (
    Round(CONTENT, (Step(CONTENT, 0), Step(CONTENT, EXPOSED, aborted=True)), marks_copies=True),
    Round(
        ("key", "value"),
        (
            Step(("key", "value", "headers"), TIMESTAMP),
            Step(("key", "value", "timestamp"), HEADERS),
            Step(("key", "value"), TIMESTAMP | HEADERS),
            Step(("key", "value", "headers"), TIMESTAMP | EXPOSED, aborted=True),
        ),
        marks_copies=True,
    ),
    Round(("key", "headers", "timestamp"), (Step(("key", "headers", "timestamp"), VALUE),)),
    Round(("value", "headers", "timestamp"), (Step(("value", "headers", "timestamp"), KEY),)),
)


def match(rows: pl.DataFrame, wanted: Round) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The matched pairs of offsets, and the rows that remain."""
    aborted = pl.col("flags") & ABORTED > 0
    source = rows.filter(pl.col("side") == SOURCE).sort("offset")
    left = {False: source.filter(~aborted), True: source.filter(aborted)}
    # No reader sees what the target itself aborted.
    target = rows.filter(pl.col("side") == TARGET, ~aborted).sort("offset")
    # A surplus copy of a record must not match another record as a changed one.
    unmatched, copies = target.filter(~pl.col("copy")), target.filter(pl.col("copy"))
    known = np.sort(_content_hashes(left[False], wanted.by))
    found = []
    for step in wanted.steps:
        mine = left[step.aborted]
        source_rows, target_rows = _match_indexes(
            _content_hashes(mine, step.by), _content_hashes(unmatched, step.by)
        )
        if len(source_rows):
            found.append(_matched_rows(mine[source_rows], unmatched[target_rows], step.change))
            left[step.aborted], unmatched = _drop_rows(mine, source_rows), _drop_rows(unmatched, target_rows)
    if wanted.marks_copies:
        unmatched = unmatched.with_columns(
            copy=pl.Series(_is_in(_content_hashes(unmatched, wanted.by), known))
        )
    matched = pl.concat(found) if found else pl.DataFrame(schema=MATCHED)
    return matched, pl.concat([left[False], left[True], unmatched, copies])


def _content_hashes(rows: pl.DataFrame, by: Sequence[str]) -> np.ndarray:
    """A 64-bit hash of these columns for each row."""
    mixed = rows["pair"].to_numpy().astype(np.uint64)
    for name in by:
        mixed = (mixed ^ rows[name].to_numpy().view(np.uint64)) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _match_indexes(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indexes of matching rows: the n-th of a content in `source` with the n-th in `target`."""
    if not len(source) or not len(target):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    source_rows, target_rows = np.argsort(source, kind="stable"), np.argsort(target, kind="stable")
    contents, others = source[source_rows], target[target_rows]
    index = np.arange(len(contents))
    first = np.r_[True, contents[1:] != contents[:-1]]
    nth = index - np.maximum.accumulate(np.where(first, index, 0))
    at = np.searchsorted(others, contents) + nth
    inside = np.minimum(at, len(others) - 1)
    same = (at < len(others)) & (others[inside] == contents)
    return source_rows[same], target_rows[at[same]]


def _is_in(contents: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether each is in `known`, which is sorted."""
    if not len(known):
        return np.zeros(len(contents), dtype=bool)
    at = np.minimum(np.searchsorted(known, contents), len(known) - 1)
    found: np.ndarray = known[at] == contents
    return found


def _drop_rows(rows: pl.DataFrame, gone: np.ndarray) -> pl.DataFrame:
    stays = np.ones(len(rows), dtype=bool)
    stays[gone] = False
    return rows.filter(pl.Series(stays))


def _matched_rows(source: pl.DataFrame, target: pl.DataFrame, change: int) -> pl.DataFrame:
    types = (source["flags"] ^ target["flags"]) & LOG_APPEND_TIME > 0
    return pl.DataFrame(
        {
            "pair": source["pair"],
            "source": source["offset"],
            "target": target["offset"],
            "source_timestamp": source["timestamp"],
            "target_timestamp": target["timestamp"],
            "change": change + TYPE * types.cast(pl.UInt8),
        },
        schema=MATCHED,
    )
