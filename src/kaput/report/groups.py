"""A consumer group as text: what it was handed, its members, its lag, its rebalances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rich.text import Text

from kaput.evidence.findings import Findings, GroupFindings
from kaput.evidence.findings_parts import RebalanceFindings, ShareMemberFindings
from kaput.report.layout import NOTHING, columns, milliseconds, number, plural

_REBALANCES = 12  # of a group


Table = tuple[list[str], list[list[str]]]  # header and rows


def group_text(group: GroupFindings, findings: Findings) -> Text:
    """Everything of one group."""
    mine = rebalances_of(group, findings)
    text = Text(f"  {group.group} ({group.type}): {summary(group, findings)}\n")
    text.append_text(_fates(group, findings))
    if group.members:
        text.append("\n").append_text(columns(*members(group)))
        idle = [m.member for m in group.members if not m.delivered]
        text.append(f"  idle: {', '.join(idle)}\n" if idle else "")
    if mine:
        text.append("\n").append_text(_rebalances(mine))
    return text


def rebalances_of(group: GroupFindings, findings: Findings) -> list[RebalanceFindings]:
    """Those of one group."""
    return [one for one in findings.rebalances if one.group == group.group]


def summary(group: GroupFindings, findings: Findings) -> str:
    """What it was handed, in a line."""
    drained = "drained" if group.drained else "NOT drained: what it has not seen proves nothing"
    said = [drained, f"{plural(group.delivered_messages, 'message')} delivered"]
    again = group.redelivered
    if again:
        said.append(f"{plural(again, 'record')} redelivered")
    if group.redelivered_after_commit:
        said.append(f"{group.redelivered_after_commit:,} delivered again after their commit")
    if group.delivered_per_s is not None:
        said.append(f"{number(group.delivered_per_s)} records a second")
    if group.longest_commit_gap_ms is not None:
        said.append(f"no commit for {milliseconds(group.longest_commit_gap_ms)} at most")
    if group.lag.max is not None:
        said.append(f"lag at most {group.lag.max:,}")
    if group.lag.final is not None:
        said.append(f"{group.lag.final:,} not committed at the end")
    mine = rebalances_of(group, findings)
    if mine:
        said.append(plural(len(mine), "rebalance"))
    return ", ".join(said)


def _fates(group: GroupFindings, findings: Findings) -> Text:
    rows = [[f.outcome, f.stored, f.delivered, f"{f.count:,}"] for f in group.fates if f.count]
    total = sum(f.count for f in group.fates)
    header = ["outcome", "times stored", "times delivered", "messages"]
    return columns(header, [*rows, [sum_of(total, findings), "", "", f"{total:,}"]], 3)


def sum_of(total: int, findings: Findings) -> str:
    """What stands beside a sum of fates: it is that of the messages sent, or the analysis is broken."""
    sent = findings.totals.sent
    return "sum = sent" if total == sent else f"sum, NOT the {sent:,} sent"


def members(group: GroupFindings) -> Table:
    """Whose records each was; of a share group also what became of them."""
    shared = [m for m in group.members if isinstance(m, ShareMemberFindings)]
    if not shared:
        # Refused commits, and anomalies, where there are any.
        refused = ["commits refused"] if any(m.commits_refused for m in group.members) else []
        odd = sorted({name for m in group.members for name in m.anomalies})
        return ["member", "records", *refused, *odd], [
            [
                m.member,
                f"{m.delivered:,}",
                *(f"{m.commits_refused:,}" for _ in refused),
                *(f"{m.anomalies.get(name, 0):,}" for name in odd),
            ]
            for m in group.members
        ]
    header = ["member", "delivered", "accepted", "released", "rejected", "failed"]
    return header, [
        [m.member, *(f"{n:,}" for n in (m.delivered, m.accepted, m.released, m.rejected, m.failed))]
        for m in shared
    ]


def _rebalances(mine: list[RebalanceFindings]) -> Text:
    text = columns(*rebalances(mine[:_REBALANCES], _clock), 2)
    if any(one.ended_ns is None for one in mine[:_REBALANCES]):
        text.append(f"  {NOTHING}: some partition never had an owner again\n")
    more = len(mine) - _REBALANCES
    return text.append(f"  and {plural(more, 'more rebalance')}\n") if more > 0 else text


def rebalances(mine: Sequence[RebalanceFindings], when: Callable[[int], str]) -> Table:
    """One row each. `when`: how a moment (ns) is written."""
    header = ["rebalance", "trigger", "took", "members", "unowned partition-seconds", "redelivered"]
    return header, [
        [
            when(one.started_ns),
            one.trigger,
            milliseconds(None if one.ended_ns is None else (one.ended_ns - one.started_ns) / 1e6),
            f"{one.members:,}",
            number(one.unowned_partition_seconds),
            f"{one.redelivered:,}",
        ]
        for one in mine
    ]


def _clock(at_ns: int) -> str:
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return f"{moment:%H:%M:%S}.{at_ns // 1_000_000 % 1000:03d}"
