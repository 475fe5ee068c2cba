"""The course of the run: what happened in each step of time, and how long it took, at several widths of
steps.

Not here: seconds below the requested rate (rates.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from kaput.analysis.engine import steps
from kaput.analysis.engine.question import Find, Question, SumPart
from kaput.analysis.engine.steps import count_ns, counted
from kaput.analysis.engine.sums import Sum
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import ACKED
from kaput.analysis.runs.run import NULL, nullable
from kaput.analysis.views.places import Places
from kaput.analysis.views.rows import Rows

TABLE_ROWS = 200  # maximum rows of a table for a reader
COUNTS = {
    "sent": "attempted",
    "acked": "acked",
    "failed": "failed",
    "unknown": "unknown",
    "lost": "lost",
    "delivered": "delivered",
}
LATENCIES = {"ack": "acked", "end_to_end": "delivered"}
_SUMS = {
    "steps": (steps.COUNTS, ("steps", "steps_lost")),
    "graded": (steps.GRADES, ("graded_acks", "graded_deliveries")),
    "longest": (steps.LONGEST, ("longest_acks", "longest_deliveries")),
}


class TimeSeries(Question):
    """Counts what happened in each step. Sends whose outcome has no known time count at the attempt."""

    needs = {"places": ("contradicted_acks",)}
    sums = {
        "steps": steps.COUNTS,
        "steps_lost": steps.COUNTS,
        "sent": Sum(
            ("producer", "topic", "place"), (), ("begin_ns",), ("last_attempt_ns", "end_ns", "last_ack_ns")
        ),
        "delivered": Sum(("group", "member", "place"), ("records",), ("low", "first_ns"), ("last_ns",)),
    }

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Counts of sends, outcomes and deliveries, and their first and last times."""
        if rows.table == "sends":
            yield SumPart("sent", _sent(rows))
            yield SumPart("steps", _steps(rows))
        elif rows.table == "deliveries":
            width_ns = count_ns(rows.known.step_ns)
            yield SumPart("steps", counted("delivered", rows.coded.rows["polls"], width_ns))
            first = {
                "records": "n",
                "low": "offset",
                "first_ns": "polled_ns_first",
                "last_ns": "polled_ns_last",
            }
            yield SumPart("delivered", rows.coded.runs.select("group", "member", "place", **first))

    def of_places(self, places: Places) -> Iterator[Find]:
        """Counts lost messages by the time of their acknowledgement, else of their attempt."""
        at_ns = places.lost.select(pl.coalesce("done_ns", "attempt_ns")).to_series().to_numpy()
        yield SumPart("steps_lost", counted("lost", at_ns, count_ns(places.known.step_ns)))


def _sent(rows: Rows) -> pl.DataFrame:
    """The columns of the sum `sent`, one row per run."""
    sends = rows.coded
    begin, attempts, dones = sends.runs["row"].to_numpy(), sends.rows["attempts"], sends.rows["dones"]
    return sends.runs.with_columns(
        pl.Series("begin_ns", np.minimum.reduceat(attempts, begin)),
        pl.Series("last_attempt_ns", np.maximum.reduceat(attempts, begin)),
        nullable("done_ns", np.maximum.reduceat(dones, begin)),
    ).select(
        "producer",
        "topic",
        "place",
        "begin_ns",
        "last_attempt_ns",
        end_ns=pl.max_horizontal("last_attempt_ns", "done_ns"),
        last_ack_ns=pl.when(ACKED).then("done_ns"),
    )


def _steps(rows: Rows) -> pl.DataFrame:
    """Counts of sends and outcomes in each step. Outcomes without a known time count at the attempt."""
    sends, graded, step_ns = rows.coded, rows.graded[0], rows.known.step_ns
    width_ns = count_ns(step_ns)
    kinds, counts = [("attempted", sends.rows["attempts"])], []
    outcomes = set(sends.runs["outcome"].unique())
    if width_ns == step_ns and graded["times"].sum() == len(rows.acked.rows["dones"]):
        # Already counted by grade.
        outcomes.discard("acked")
        counts.append(graded.select(steps.COUNTS.columns))
    for outcome in outcomes:
        chosen = sends.where(pl.col("outcome") == outcome).rows
        done = chosen["dones"]
        if len(done) and done.min() == NULL:
            done = np.where(done == NULL, chosen["attempts"], done)
        kinds.append((outcome, done))
    return pl.concat([*counts, *(counted(what, at_ns, width_ns) for what, at_ns in kinds)])


class Level(NamedTuple):
    """The run at one width of steps: a row for each step in which anything happened, by time. Columns: at_ns,
    its begin; COUNTS; p50, p99 and max of LATENCIES in ms (ack_p50_ms and so on), null without a measurement.
    Sends count when they were attempted; outcomes, `lost` and ack_* when they became known; deliveries and
    end_to_end_* when a member received them.
    """

    width_ns: int
    rows: pl.DataFrame


def levels(run: Run) -> Iterator[Level]:
    """Levels, each ten times as wide as the one before; the last has at most TABLE_ROWS rows."""
    width_ns, first = run.work.step_ns, True
    sums: Mapping[str, pl.DataFrame] = {
        name: pl.concat([run.sums[part] for part in parts]) for name, (_, parts) in _SUMS.items()
    }
    while True:
        # Times that are not multiples of the finest width are damaged; any step will do for them.
        begin = pl.col("at_ns") // width_ns * width_ns
        sums = {name: kind.of(sums[name].with_columns(begin)) for name, (kind, _) in _SUMS.items()}
        rows = _rows(sums)
        yield Level(width_ns, rows)
        if not first and rows.height <= TABLE_ROWS:
            return
        first, width_ns = False, width_ns * 10


def _rows(sums: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    counts = (
        pl.col("times").filter(pl.col("what") == what).sum().alias(name) for name, what in COUNTS.items()
    )
    rows = sums["steps"].group_by("at_ns").agg(*counts)
    times = steps.percentiles(sums["graded"], sums["longest"])
    for name, what in LATENCIES.items():
        mine = times.filter(what=what).select(
            "at_ns", *(pl.col(share).alias(f"{name}_{share}_ms") for share in ("p50", "p99", "max"))
        )
        rows = rows.join(mine, on="at_ns", how="left")
    return rows.sort("at_ns")
