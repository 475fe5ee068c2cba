"""The plan that moved clients to another cluster: its steps, and how long clients waited."""

from __future__ import annotations

from kaput.evidence.findings_mirrors import ClientWait, PlanFindings
from kaput.report.document import NOTHING, Block, Cell, NamedValues, Section, Table, Term
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
    rows: list[list[str | Cell]] = [
        [
            one.step,
            f"{(one.started_ns - started_ns) / 1e9:,.1f} s",
            _seconds(one.seconds),
            Cell(one.outcome, bad=one.outcome == "failed"),
            one.proof,
        ]
        for one in plan.steps
    ]
    return Table(["step", "began", "took", "outcome", "proof"], rows, "lrrll")


def _groups(plan: PlanFindings) -> Table:
    rows: list[list[str | Cell]] = [
        [
            one.group,
            _waited(one.rto),
            f"{one.read_twice:,}",
            Cell(f"{one.skipped:,}", bad=one.skipped > 0),
        ]
        for one in plan.groups
    ]
    head = [
        "group",
        Term("reads waited", "RTO"),
        Term("read twice", "translated-behind"),
        Term("skipped", "translated-ahead"),
    ]
    return Table(head, rows)


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:,.1f} s"


def _waited(wait: ClientWait | None) -> str:
    return _seconds(None if wait is None else wait.seconds)
