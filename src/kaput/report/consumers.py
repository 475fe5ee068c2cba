"""What each consumer group was handed, and how its partitions changed hands, as tables of a page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kaput.evidence.findings import Findings, GroupFindings
from kaput.evidence.findings_parts import RebalanceFindings
from kaput.report.groups import members, rebalances, rebalances_of, summary
from kaput.report.layout import NOTHING

_REBALANCES = 50  # of a group
_MEMBERS = 100
_DAY_S = 86_400


class Table(NamedTuple):
    """A table whose first `left` columns are text; `left_out` rows are not shown."""

    names: list[str]
    rows: list[list[str]]
    left: int = 1
    left_out: int = 0


class Group(NamedTuple):
    """One group. `sum`: of its fates."""

    name: str
    said: str
    rows: Sequence[tuple[str, ...]]
    sum: str
    members: Table
    rebalances: Table
    handovers: Table


def groups(findings: Findings) -> list[Group]:
    """Every group, in the order of the findings."""
    return [_group(group, findings) for group in findings.groups]


def _group(group: GroupFindings, findings: Findings) -> Group:
    rows = [(f.outcome, f.stored, f.delivered, f"{f.count:,}") for f in group.fates if f.count]
    header, every = members(group)
    mine = rebalances_of(group, findings)
    return Group(
        f"{group.group} ({group.type})",
        summary(group, findings),
        rows,
        f"{sum(f.count for f in group.fates):,}",
        Table(header, every[:_MEMBERS], 1, max(0, len(every) - _MEMBERS)),
        _rebalances(mine, findings.run.started_ns),
        _handovers(mine, findings.run.started_ns),
    )


def _rebalances(mine: Sequence[RebalanceFindings], began_ns: int) -> Table:
    header, rows = rebalances(mine[:_REBALANCES], partial(_seconds, began_ns))
    return Table(["at (s)", *header[1:]], rows, 2, max(0, len(mine) - _REBALANCES))


def _handovers(mine: Sequence[RebalanceFindings], began_ns: int) -> Table:
    """Of each member in each rebalance, when it gave up, was assigned and had its first record."""
    header = ["rebalance at (s)", "member", "gave up at", "was assigned at", "first record at"]
    rows = [
        [_seconds(began_ns, one.started_ns), hand.member]
        + [_seconds(began_ns, ns) for ns in (hand.revoked_ns, hand.assigned_ns, hand.first_record_ns)]
        for one in mine[:_REBALANCES]
        for hand in one.handovers
    ]
    return Table(header, rows[:_MEMBERS], 2, max(0, len(rows) - _MEMBERS))


def _seconds(began_ns: int, ns: int | None) -> str:
    """Since the load began, as the timeline has it; a time that is far from it has none there."""
    seconds = None if ns is None else (ns - began_ns) / 1e9
    return NOTHING if seconds is None or abs(seconds) > _DAY_S else f"{seconds:,.3f}"
