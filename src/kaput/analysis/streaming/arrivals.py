"""A micro-batch as runs: the sends, log records and deliveries that arrived since the previous one.

Records of the log are encoded in Spark's tasks, with the second of their timestamps; what clients recorded is
encoded where it is read. Not here: the ledger that takes them (ledger.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from kaput.analysis.runs import encoding
from kaput.analysis.runs.columns import NAMED
from kaput.analysis.runs.names import EVENTS
from kaput.analysis.runs.run import encode, in_order
from kaput.analysis.runs.tables import of_frame, type_of

SENDS = ("producer", "topic", "place", "outcome")
LOG = ("producer", "place", "epoch", "intact", "visible")
DELIVERIES = ("group", "producer", "place")
_STEPS = ("seq", "offset", "n")


def no_runs(same: Sequence[str]) -> pl.DataFrame:
    """A frame of runs without rows. `same`: SENDS, LOG or DELIVERIES."""
    return pl.DataFrame(schema={name: type_of(name) for name in (*same, *_STEPS)})


@dataclass(frozen=True)
class Arrivals:
    """Runs of each table; those of the log may have `at_ns`, the second of their records. `positions`: by
    place, the offset after the last record that was read.
    """

    sends: pl.DataFrame = field(default_factory=lambda: no_runs(SENDS))
    log: pl.DataFrame = field(default_factory=lambda: no_runs(LOG))
    deliveries: pl.DataFrame = field(default_factory=lambda: no_runs(DELIVERIES))
    positions: Mapping[int, int] = field(default_factory=dict)


def arrivals(
    sends: pl.DataFrame | None = None,
    log: pl.DataFrame | None = None,
    deliveries: pl.DataFrame | None = None,
) -> Arrivals:
    """The runs of these frames (runs/tables.py); None: no rows of that table arrived."""
    found: dict[str, pl.DataFrame] = {}
    positions: dict[int, int] = {}
    if sends is not None:
        found["sends"] = encoding.sends(of_frame(sends)).runs.select(*SENDS, *_STEPS)
    if log is not None:
        found["log"] = log_runs(log)
        positions = positions_after(found["log"])
    if deliveries is not None:
        runs = encoding.deliveries(of_frame(deliveries), pl.DataFrame(schema=EVENTS)).runs
        found["deliveries"] = runs.filter(NAMED).select(*DELIVERIES, *_STEPS)
    return Arrivals(**found, positions=positions)


def log_runs(log: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Runs of the log, in which the columns `more` are constant, too."""
    frame = in_order(log, ("place", "offset")).with_columns(pl.col("visible").fill_null(True))
    return encode(frame, (*LOG, *more)).select(*LOG, *more, *_STEPS)


def positions_after(log: pl.DataFrame) -> dict[int, int]:
    """By place, the offset after the last of these runs of the log."""
    ends = log.group_by("place").agg((pl.col("offset") + pl.col("n")).max())
    return {place: end for place, end in ends.iter_rows() if place is not None}
