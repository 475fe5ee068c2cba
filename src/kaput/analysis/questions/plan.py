"""The plan by which clients were moved: its steps, and how long writers and readers waited (RTO).

Writers: from the last acknowledgement in the source at or before a moment to the first in the target at or
after it. Readers: the same for deliveries. Not here: the moments (facts/mirrors.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.mirrors import plan_steps
from kaput.analysis.run import Run
from kaput.analysis.runs.names import SHIFT, Names
from kaput.analysis.runs.run import NULL, Ints
from kaput.analysis.views.rows import Rows
from kaput.core import SECOND
from kaput.evidence.findings_mirrors import ClientWait, GroupSwitch, PlanFindings, PlanStepFindings
from kaput.scenario.model import source_and_target
from kaput.verdict.facts import PlanStepAtEnd

_WRITERS = -1  # instead of a group


class PlanOfMoves(Question):
    """Reports the plan and the waits around the moments of facts/mirrors.py."""

    sums = {"switches": Sum(("group", "cluster"), (), ("first_ns",), ("last_ns",))}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """By cluster and group, the last time before the moment and the first after."""
        moments, names = rows.known.moments, rows.known.names
        if rows.table == "sends" and moments.writes is not None:
            runs = rows.acked.runs.select("n", "topic", group=pl.lit(_WRITERS, pl.Int64))
            yield SumPart("switches", around(runs, rows.acked.rows["dones"], moments.writes, names))
        elif rows.table == "deliveries" and moments.reads is not None:
            runs = rows.coded.runs.select("n", "group", topic=pl.col("place") // SHIFT)
            yield SumPart("switches", around(runs, rows.coded.rows["polls"], moments.reads, names))

    def report(self, run: Run) -> Iterator[Reported]:
        steps = plan_steps(run.given)
        if not steps:
            return
        yield facts(plan=[PlanStepAtEnd(row["step"], row["outcome"], row["proof"]) for row in steps])
        source, target = _source_and_target(run)
        moved = [group for group in run.groups if any(t.group == group for t in run.translated)]
        yield findings(
            plan=PlanFindings(
                steps=[_step(row) for row in steps],
                source=source,
                target=target,
                rto_writes=_waited(run, _WRITERS, source, target),
                groups=[
                    GroupSwitch(
                        group=run.given.groups[group],
                        rto=_waited(run, group, source, target),
                        read_twice=run.totals.counted("translated-behind", group),
                        skipped=run.totals.counted("translated-ahead", group),
                    )
                    for group in moved
                ],
            )
        )


def around(runs: pl.DataFrame, at_ns: Ints, moment: int, names: Names) -> pl.DataFrame:
    """(group, cluster, first_ns, last_ns): the first time from `moment` on and the last up to it. `runs`:
    with n, topic and group; `at_ns`: the times of their rows.
    """
    n = runs["n"].to_numpy()
    rows = pl.DataFrame(
        {
            "group": np.repeat(runs["group"].to_numpy(), n),
            "topic": np.repeat(runs["topic"].to_numpy(), n),
            "at_ns": at_ns,
        }
    ).filter(pl.col("at_ns") != NULL)
    at = pl.col("at_ns")
    nearest = rows.group_by("group", "topic").agg(
        first_ns=at.filter(at >= moment).min(), last_ns=at.filter(at <= moment).max()
    )
    cluster = names.cluster_of(pl.col("topic"))
    return nearest.select(pl.col("group").cast(pl.Int64), cluster.alias("cluster"), "first_ns", "last_ns")


def _step(row: Mapping[str, Any]) -> PlanStepFindings:
    taken = None if row["ended_ns"] is None else (row["ended_ns"] - row["started_ns"]) / SECOND
    fields = {name: row[name] for name in ("step", "kind", "outcome", "started_ns", "proof")}
    return PlanStepFindings(**fields, seconds=taken)


def _source_and_target(run: Run) -> tuple[str | None, str | None]:
    """The clusters that clients were moved from and to, by the scenario's plan; without one, those of the
    mirror that ended first, else of the first mirror.
    """
    planned = source_and_target(run.given.scenario) if run.given.scenario else None
    if planned is not None:
        return planned
    ended = sorted((m for m in run.mirrors if m.ended_ns is not None), key=lambda m: m.ended_ns or 0)
    chosen = next(iter(ended or run.mirrors), None)
    return (chosen.source, chosen.target) if chosen else (None, None)


def _waited(run: Run, group: int, source: str | None, target: str | None) -> ClientWait | None:
    if source is None or target is None:
        return None
    rows = run.sums["switches"].filter(group=group)
    last = rows.filter(cluster=source)["last_ns"].max()
    first = rows.filter(cluster=target)["first_ns"].min()
    if not isinstance(last, int) or not isinstance(first, int):
        return None
    return ClientWait(from_ns=last, to_ns=first, seconds=(first - last) / SECOND)
