"""The analysis from a sealed run folder to its findings: an overview.

    row groups -- encode --> runs -- messages --> fates, acknowledgements that the log contradicts
                                  -- places ----> order, polls, commits, causes of losses
                                  -- sends -----> what depends on the whole run
    finds of all tasks -- added up --> totals -- report --> findings

Tasks ask questions (questions/) of views (views/) of runs (runs/); the driver adds up and reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaput.analysis import document, outputs
from kaput.analysis.engine.asking import RunTotals
from kaput.analysis.engine.question import STAGES, prepared
from kaput.analysis.engine.spark_jobs import Progress, ignored, readable, watched
from kaput.analysis.facts import inputs
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.job import Job
from kaput.analysis.plan import Plan, plan
from kaput.analysis.questions import questions
from kaput.analysis.run import Run
from kaput.evidence.findings import Findings
from kaput.evidence.folder import LedgerRows
from kaput.evidence.reading import Evidence
from kaput.processes.signals import end_interrupted_calls

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
    outputs.clear(given)
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
    outputs.write(run)
    return run
