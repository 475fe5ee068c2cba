"""The analysis from a sealed run folder to its findings: an overview.

    row groups -- encode --> runs -- messages --> fates, acknowledgements that the log contradicts
                                  -- places ----> order, polls, commits, causes of losses
                                  -- sends -----> what depends on the whole run
    finds of all tasks -- added up --> totals -- report --> findings

Tasks ask questions (questions/) of views (views/) of runs (runs/); the driver adds up and reports. Also
writes the tables of RUN_DIR/analysis: the tasks write the ledger and `lost`, this module the others, and an
empty one where no task had rows. What is in them: docs/RUN_FOLDER.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis import document
from kaput.analysis.engine.asking import RunTotals
from kaput.analysis.engine.question import STAGES, prepared
from kaput.analysis.engine.spark_jobs import Progress, ignored, readable, watched
from kaput.analysis.engine.steps import SECOND_NS
from kaput.analysis.engine.tables import write as write_table
from kaput.analysis.facts import inputs
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import in_order
from kaput.analysis.facts.mirrors import lag_over_time
from kaput.analysis.job import Job
from kaput.analysis.questions import kept, ledger, losses, questions, time_series
from kaput.analysis.run import Plan, Run, plan
from kaput.evidence.findings import Findings
from kaput.evidence.reading import Evidence
from kaput.processes.signals import end_interrupted_calls
from kaput.scenario.vocabulary import LedgerRows

if TYPE_CHECKING:
    from pyspark import SparkContext

end_interrupted_calls()  # by now Polars is loaded


def analyse(
    evidence: Evidence, spark: SparkContext, progress: Progress = ignored, ledger: LedgerRows = "stretches"
) -> Findings:
    """Judges a checked run folder and writes its analysis/. `progress` is called with tasks done and total.
    `ledger`: the rows of analysis/ledger; "none" deletes that of an earlier analysis. Raises EvidenceError,
    AccountingError.
    """
    given = inputs.read(evidence)
    work = plan(evidence)
    with readable(), watched(spark, len(work.tasks) + work.parts.sums, progress):
        return document.findings(count(spark, given, work, ledger), questions())


def count(spark: SparkContext, given: Inputs, work: Plan, ledger: LedgerRows = "stretches") -> Run:
    """Counts a run folder, and writes its analysis/. Raises EvidenceError, AccountingError."""
    _clear(given)
    every = questions()
    run = Run(given, work, RunTotals.of(every), ledger)
    job = Job(spark, work.tasks, run.to_encode(), every)
    for stage in STAGES:
        asked = prepared(every, stage, run, again=False)
        while asked:
            known = run.to_encode() if stage == "rows" else run.known(stage)
            finds = job.look(stage, asked, known, run.totals.pieces, lambda: run.sums["steps"])
            run.totals.add(finds, asked, run.names)
            run.totals.conclude(asked, stage, run)
            asked = prepared(asked, stage, run, again=True) if stage in ("keys", "sends") else []
    _write(run)
    return run


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
_EVENT_ORDER = ("kind", "topic", "partition", "broker", "group", "member")  # within the same ns


def _clear(given: Inputs) -> None:
    """Deletes the tables of an earlier analysis. Raises OSError."""
    for name in ("ledger", "lost", "windows", "rates", "timeline", "lag", "stores", "mirror_lag", "events"):
        directory = given.evidence.folder.analysis / name
        if directory.exists():
            shutil.rmtree(directory)


def _write(run: Run) -> None:
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
        rows = [(at_ns, mirror, value) for (mirror, at_ns), value in lag_over_time(given).items()]
        mirrors = pl.DataFrame(rows, schema=_MIRROR_LAG, orient="row")
        write_table(mirrors, str(folder / "mirror_lag"), 0)
    if given.stores:
        write_table(kept.over_time(run), str(folder / "stores"), 0)
    write_table(_events(run), str(folder / "events"), 0)


def _events(run: Run) -> pl.DataFrame:
    given, known, place = run.given, run.partitions.complete, itemgetter("topic", "partition")
    first = [row for row in given.evidence.rows("group_events") if row["kind"] != "committed"]
    first += [row for row in given.cluster_events if row["topic"] is None]
    of_places = sorted((row for row in given.cluster_events if place(row) in known), key=place)
    then = [row for _, rows in groupby(of_places, key=place) for row in in_order(rows)]
    others, changes = (
        pl.DataFrame([{name: row.get(name) for name in _EVENTS} for row in rows], schema=_EVENTS)
        for rows in (first, then)
    )
    return pl.concat([others.sort(_EVENT_ORDER, maintain_order=True), changes]).sort(
        "at_ns", maintain_order=True
    )


def _by_second(steps: pl.DataFrame) -> pl.DataFrame:
    counts = (pl.col("times").filter(pl.col("what") == name).sum().alias(name) for name in _RATES)
    second = (pl.col("at_ns") // SECOND_NS).alias("second")
    return steps.group_by(second).agg(counts).sort("second")
