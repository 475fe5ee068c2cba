"""The plan by which clients were moved: its steps, and how long writers and readers waited (RTO). Defined in
docs/GLOSSARY.md.

Writers: from the last acknowledgement in the source at or before a moment to the first in the target at or
after it, of the producers that were moved. Readers: the same for deliveries. Which of the moments it is
follows from what came in the source after each. Not here: the moments (facts/mirrors.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.mirrors import Moments, moments, moved_between, plan_steps
from kaput.analysis.run import Run
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.runs.run import NULL, Ints
from kaput.analysis.views.rows import Rows
from kaput.core import SECOND
from kaput.evidence.findings_parts import ClientWait, GroupSwitch, PlanFindings, PlanStepFindings
from kaput.verdict.facts import PlanStepAtEnd

_WRITERS = -1  # instead of a group
_ALL = -1  # instead of a producer: all members of a group
_WHO = ("group", "producer")


class PlanOfMoves(Question):
    """Reports the plan and the waits around the moments of facts/mirrors.py."""

    sums = {"switches": Sum((*_WHO, "cluster", "moment_ns"), (), ("first_ns",), ("last_ns",))}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """By client and cluster, the last time before each moment and the first after."""
        moments, names = rows.known.moments, rows.known.names
        if rows.table == "sends":
            writers = {"group": pl.lit(_WRITERS, pl.Int64)}
            runs = rows.acked.runs.select("n", "topic", "producer", **writers)
            for moment in moments.of(moments.writes):
                yield SumPart("switches", around(runs, rows.acked.rows["dones"], moment, names))
        elif rows.table == "deliveries":
            members = {"producer": pl.lit(_ALL, pl.Int64)}
            runs = rows.coded.runs.select("n", "group", topic=pl.col("place") // SHIFT, **members)
            for moment in moments.of(moments.reads):
                yield SumPart("switches", around(runs, rows.coded.rows["polls"], moment, names))

    def report(self, run: Run) -> Iterator[Reported]:
        steps = plan_steps(run.given)
        if not steps:
            return
        yield facts(plan=[PlanStepAtEnd(row["step"], row["outcome"], row["proof"]) for row in steps])
        source, target = moved_between(run.given)
        moved = [group for group in run.groups if any(t.group == group for t in run.translated)]
        known = moments(run.given)
        yield findings(
            plan=PlanFindings(
                steps=[_step(row) for row in steps],
                source=source,
                target=target,
                rto_writes=_waited(run, _WRITERS, known, source, target),
                groups=[
                    GroupSwitch(
                        group=run.given.groups[group],
                        rto=_waited(run, group, known, source, target),
                        read_twice=run.totals.counted("translated-behind", group),
                        skipped=run.totals.counted("translated-ahead", group),
                    )
                    for group in moved
                ],
            )
        )


def around(runs: pl.DataFrame, at_ns: Ints, moment_ns: int, names: Names) -> pl.DataFrame:
    """(_WHO, cluster, moment_ns, first_ns, last_ns): the first time from the moment on and the last up to it.
    `runs`: with n, topic and _WHO; `at_ns`: the times of their rows.
    """
    n = runs["n"].to_numpy()
    columns = {name: np.repeat(runs[name].to_numpy(), n) for name in (*_WHO, "topic")}
    rows = pl.DataFrame({**columns, "at_ns": at_ns}).filter(pl.col("at_ns") != NULL)
    at = pl.col("at_ns")
    nearest = rows.group_by(*_WHO, "topic").agg(
        first_ns=at.filter(at >= moment_ns).min(), last_ns=at.filter(at <= moment_ns).max()
    )
    return nearest.select(
        *(pl.col(name).cast(pl.Int64) for name in _WHO),
        names.cluster_of(pl.col("topic")).alias("cluster"),
        pl.lit(moment_ns, pl.Int64).alias("moment_ns"),
        "first_ns",
        "last_ns",
    )


def _step(row: Mapping[str, Any]) -> PlanStepFindings:
    taken = None if row["ended_ns"] is None else (row["ended_ns"] - row["started_ns"]) / SECOND
    fields = {name: row[name] for name in ("step", "kind", "outcome", "started_ns", "proof")}
    return PlanStepFindings(**fields, seconds=taken)


def _waited(
    run: Run, group: int, known: Moments, source: str | None, target: str | None
) -> ClientWait | None:
    """The wait around the moment: the first fault a second after which nothing came in the source any more,
    until clients were kept from going on there; else that.
    """
    kept_ns = known.writes if group == _WRITERS else known.reads
    if source is None or target is None:
        return None
    rows = run.sums["switches"].filter(group=group)
    moved = rows.filter(pl.col("first_ns").is_not_null(), cluster=target)["producer"].unique()
    here = rows.filter(pl.col("producer").is_in(moved.implode()), cluster=source)
    last = dict(here.group_by("moment_ns").agg(pl.col("last_ns").max()).iter_rows())
    until_ns = None if kept_ns is None else last.get(kept_ns)
    over = (at for at in known.faults if until_ns is None or until_ns < at + SECOND)
    moment_ns = next(over, kept_ns)
    if moment_ns is None:
        return None
    there = rows.filter(cluster=target, moment_ns=moment_ns)["first_ns"].min()
    if not isinstance(last.get(moment_ns), int) or not isinstance(there, int):
        return None
    from_ns = last[moment_ns]
    return ClientWait(from_ns=from_ns, to_ns=there, seconds=(there - from_ns) / SECOND)
