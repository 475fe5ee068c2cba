"""Writes the tables of RUN_DIR/analysis other than the ledger, as Parquet.

rates     what happened in each second
timeline  the same, and how long it took, in steps of 100 ms, 1 s and so on (questions/time_series.py)
lag       what each group had not committed, at each sampled time
mirror_lag  how many records each mirror had not copied, at each sampled time, if there are mirrors
events    events of brokers, partitions and members of groups (except commits), by time
lost      one row per lost message: its send, cause, fault, and the epoch that overwrote it
windows   runs of lost messages without a stored one in between, for each producer and partition

The tasks write ledger and lost; this module writes the others, and an empty one where no task had rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import polars as pl

from kaput.analysis.engine.steps import SECOND_NS
from kaput.analysis.engine.tables import write as write_table
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.mirrors import events_of, lag_over_time
from kaput.analysis.questions import kept, ledger, losses, time_series
from kaput.analysis.run import Run

_RATES = ("attempted", "acked", "failed", "unknown", "delivered")
_EVENTS: Mapping[str, type[pl.DataType] | pl.DataType] = {
    "at_ns": pl.Int64,
    "kind": pl.String,
    "broker": pl.Int32,
    "topic": pl.String,
    "partition": pl.Int32,
    "leader": pl.Int32,
    "leader_epoch": pl.Int32,
    "isr": pl.List(pl.Int32),
    "group": pl.String,
    "member": pl.String,
}
_LAG = {"at_ns": pl.Int64, "group": pl.String, "lag": pl.Int64}
_MIRROR_LAG = {"at_ns": pl.Int64, "mirror": pl.String, "lag": pl.Int64}
_EVENT_ORDER = (
    "leader_epoch",
    "kind",
    "topic",
    "partition",
    "broker",
    "group",
    "member",
)  # within the same ns


def clear(given: Inputs) -> None:
    """Deletes the tables of an earlier analysis. Raises OSError."""
    for name in ("ledger", "lost", "windows", "rates", "timeline", "lag", "stores", "mirror_lag", "events"):
        directory = given.evidence.folder.analysis / name
        if directory.exists():
            shutil.rmtree(directory)


def write(run: Run) -> None:
    """Writes every table that the tasks have not written. Raises OSError."""
    given, names, folder = run.given, run.names, run.given.evidence.folder.analysis
    write_table(losses.windows_table(run.sums["loss_windows"], names), str(folder / "windows"), 0)
    write_table(_by_second(run.sums["steps"]), str(folder / "rates"), 0)
    if not (folder / "lost").exists():
        write_table(losses.empty_table(names), str(folder / "lost"), 0)
    if run.ledger != "none" and not (folder / "ledger").exists():
        ledger.write_empty(names, str(folder / "ledger"), run.ledger)
    for level in time_series.levels(run):
        write_table(level.rows, str(folder / "timeline" / f"step_ms={level.width_ns // 1_000_000}"), 0)
    rows = sorted((one.at_ns, group, one.lag) for group, lags in given.lags.items() for one in lags)
    write_table(pl.DataFrame(rows, schema=_LAG, orient="row"), str(folder / "lag"), 0)
    if run.mirrors:
        rows = [(at_ns, mirror, value) for (mirror, at_ns), value in lag_over_time(events_of(given)).items()]
        mirrors = pl.DataFrame(rows, schema=_MIRROR_LAG, orient="row")
        write_table(mirrors, str(folder / "mirror_lag"), 0)
    if given.stores:
        write_table(kept.over_time(run), str(folder / "stores"), 0)
    write_table(_events(run), str(folder / "events"), 0)


def _events(run: Run) -> pl.DataFrame:
    given, known = run.given, run.partitions.complete
    every = given.cluster_events
    cluster = (row for row in every if row["topic"] is None or (row["topic"], row["partition"]) in known)
    groups = (row for row in given.evidence.rows("group_events") if row["kind"] != "committed")
    rows = [{name: row.get(name) for name in _EVENTS} for row in (*cluster, *groups)]
    return pl.DataFrame(rows, schema=_EVENTS).sort("at_ns", *_EVENT_ORDER, maintain_order=True)


def _by_second(steps: pl.DataFrame) -> pl.DataFrame:
    counts = (pl.col("times").filter(pl.col("what") == name).sum().alias(name) for name in _RATES)
    second = (pl.col("at_ns") // SECOND_NS).alias("second")
    return steps.group_by(second).agg(counts).sort("second")
