"""From a sealed run folder to its findings: the whole way on one page.

    row groups -- encode --> runs -- by_message --> fates, acknowledgements that the log does not bear out
                                  -- by_place ----> order, polls, commits, causes of losses
                                  -- over_sends --> what only the whole run tells
    what tasks found -- together/ --> the account of the run -- assemble --> findings

Tasks (stages/) ask the questions (questions/) of the runs (runs/) that they have; the driver adds up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from pyspark import SparkContext

from kaput.analysis import inputs, replicas, written
from kaput.analysis.account import Account
from kaput.analysis.assemble import findings
from kaput.analysis.assignments import events_frame
from kaput.analysis.failures import readable
from kaput.analysis.inputs import Inputs
from kaput.analysis.plan import Plan, plan
from kaput.analysis.questions.steps import count_ns
from kaput.analysis.seeks import after_aborts
from kaput.analysis.stages.by_place import PlaceContext, PlaceResults
from kaput.analysis.stages.encode import EncodeContext, Times
from kaput.analysis.stages.job import Job, Tables
from kaput.analysis.stages.pieces import Piece
from kaput.analysis.together import (
    after_encoding,
    after_keys,
    after_messages,
    after_places,
    after_sends,
    stepwise,
)
from kaput.analysis.watching import Progress, ignored, watched
from kaput.evidence.findings import Findings
from kaput.evidence.folder import LedgerRows
from kaput.evidence.reading import Evidence
from kaput.processes.signals import end_interrupted_calls

end_interrupted_calls()  # by now Polars is loaded


def analyse(
    evidence: Evidence, spark: SparkContext, progress: Progress = ignored, ledger: LedgerRows = "stretches"
) -> Findings:
    """Judges a checked run folder and writes its analysis/. `progress` is called with how far it has come.

    `ledger`: what analysis/ledger has a row for. With "none", that of an earlier analysis is deleted.

    Raises EvidenceError, AccountingError.
    """
    given = inputs.read(evidence)
    work = plan(evidence)
    with readable(), watched(spark, len(work.tasks) + work.parts.sums, progress):
        return findings(given, count(spark, given, work, ledger))


def count(spark: SparkContext, given: Inputs, work: Plan, ledger: LedgerRows = "stretches") -> Account:
    """Counts a run folder, and writes its analysis/. Raises EvidenceError, AccountingError."""
    written.clear(given)
    events = events_frame(
        given.names, [*given.group_events, *after_aborts(given.evidence, given.group_events)]
    )
    times = Times(work.width_ns, work.step_ns)
    job = Job(spark, work.tasks, EncodeContext(given.names, work.parts, events, times))
    sums = job.sums()
    account = after_encoding.account(given, sums)
    handed = job.handed_unrecorded() if account.shared else pl.DataFrame()
    message_context = after_encoding.message_context(given, account, work, ledger, handed)
    of_messages = after_messages.add(job.messages(message_context), given, account)
    context = after_places.place_context(given, account, events, of_messages.under, count_ns(work.step_ns))
    beside = after_places.beside(
        of_messages.pieces, after_places.standstills(given, context.limits.timeout_ns, work.parts)
    )
    results = _of_places(job, context, beside, sums)
    affected = after_places.add(results, account, given.names)
    after_keys.add(job, given, account, sums)
    after_sends.add(job, given, account, results, affected)
    after_sends.silences(job, given, account, sums, work.width_ns)
    written.write(given, results, sums["steps"], ledger)
    written.write_course(given, account, stepwise.levels(sums, of_messages.sums, results, work.step_ns))
    account.seen = replicas.seen(given)
    return account


def _of_places(
    job: Job, context: PlaceContext, beside: Mapping[int, Sequence[Piece]], sums: Tables
) -> list[PlaceResults]:
    """Where deliveries are in no order of time, they are put in order first."""
    results = job.places(context, beside)
    if results is None:
        job.put_in_time(sums["steps"])
        results = job.places(context, beside)
    assert results is not None, "sorted deliveries cannot overlap"
    return results
