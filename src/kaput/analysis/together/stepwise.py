"""The course of the run, put together: what happened in each step, finely and for a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from kaput.analysis.questions import steps
from kaput.analysis.stages.by_place import PlaceResults
from kaput.analysis.stages.job import Tables
from kaput.analysis.sums import total

IN_A_TABLE = 200  # rows that somebody reads
COUNTS = {
    "sent": "attempted",
    "acked": "acked",
    "failed": "failed",
    "unknown": "unknown",
    "lost": "lost",
    "delivered": "delivered",
}
LATENCIES = {"ack": "acked", "end_to_end": "delivered"}
_SUMS = {"steps": steps.COUNTS, "graded": steps.GRADES, "longest": steps.LONGEST}


class Level(NamedTuple):
    """The run at one width of steps, a row for each in which anything happened, in the order of time.

    Columns: at_ns, its begin; COUNTS; of LATENCIES p50, p99 and max in ms (ack_p50_ms and so on), null where
    there is nothing to measure. Sends count where they were attempted, outcomes, `lost` and ack_* where they
    became known, deliveries and end_to_end_* where a member got them.
    """

    width_ns: int
    rows: pl.DataFrame


def levels(
    of_sends: Tables, of_messages: Tables, results: Sequence[PlaceResults], width_ns: int
) -> Iterator[Level]:
    """From `width_ns` on ten times as wide each, at least two, the last with few enough steps for a table."""
    parts = [of_sends, of_messages, *({"steps": part.sums["steps"]} for part in results)]
    found = total([{name: part[name] for name in _SUMS if name in part} for part in parts], _SUMS)
    first = True
    while True:
        found = {name: _wider(found[name], name, width_ns) for name in _SUMS}
        rows = _rows(found)
        yield Level(width_ns, rows)
        if not first and rows.height <= IN_A_TABLE:
            return
        first, width_ns = False, width_ns * 10


def _wider(frame: pl.DataFrame, name: str, width_ns: int) -> pl.DataFrame:
    # What the width does not go into is damaged, and as good in its own step as elsewhere.
    return _SUMS[name].of(frame.with_columns(pl.col("at_ns") // width_ns * width_ns))


def _rows(found: Tables) -> pl.DataFrame:
    counts = (
        pl.col("times").filter(pl.col("what") == what).sum().alias(name) for name, what in COUNTS.items()
    )
    rows = found["steps"].group_by("at_ns").agg(*counts)
    times = steps.percentiles(found["graded"], found["longest"])
    for name, what in LATENCIES.items():
        mine = times.filter(what=what).select(
            "at_ns", *(pl.col(share).alias(f"{name}_{share}_ms") for share in ("p50", "p99", "max"))
        )
        rows = rows.join(mine, on="at_ns", how="left")
    return rows.sort("at_ns")
