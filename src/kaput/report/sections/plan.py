"""The plan that moved clients to another cluster: its steps, and how long clients waited."""

from __future__ import annotations

from kaput.evidence.findings_parts import ClientWait, PlanFindings
from kaput.report.document import (
    Block,
    Cell,
    NamedValues,
    Section,
    Table,
    Term,
    bad_if_any,
    seconds,
    table_of,
)
from kaput.report.sections import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """The section; None without a plan."""
    plan = run.findings.plan
    if plan is None:
        return None
    blocks: list[Block] = [_steps(plan, run.findings.run.started_ns)]
    if plan.source is not None and plan.target is not None:
        blocks.append(
            NamedValues([(f"writes from {plan.source} to {plan.target}", _waited(plan.rto_writes))])
        )
    if plan.groups:
        blocks.append(_groups(plan))
    return Section(("The plan and its ", Term("RTO")), blocks, key="plan")


def _steps(plan: PlanFindings, started_ns: int) -> Table:
    return table_of(
        plan.steps,
        {
            "step": lambda one: one.step,
            "began": lambda one: seconds((one.started_ns - started_ns) / 1e9),
            "took": lambda one: seconds(one.seconds),
            "outcome": lambda one: Cell(one.outcome, bad=one.outcome == "failed"),
            "proof": lambda one: one.proof,
        },
        "lrrll",
    )


def _groups(plan: PlanFindings) -> Table:
    return table_of(
        plan.groups,
        {
            "group": lambda one: one.group,
            Term("reads waited", "RTO"): lambda one: _waited(one.rto),
            Term("read twice", "translated-behind"): lambda one: one.read_twice,
            Term("skipped", "translated-ahead"): lambda one: bad_if_any(one.skipped),
        },
    )


def _waited(wait: ClientWait | None) -> str:
    return seconds(None if wait is None else wait.seconds)
