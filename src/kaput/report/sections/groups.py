"""The consumer groups: deliveries, members, lag and rebalances of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kaput.core import plural
from kaput.evidence.findings import GroupFindings
from kaput.evidence.findings_parts import RebalanceFindings, ShareMemberFindings
from kaput.report.document import (
    NOTHING,
    Block,
    Folded,
    NamedPart,
    Paragraph,
    Section,
    Table,
    Term,
    limited,
    milliseconds,
    number,
    table_of,
)
from kaput.report.sections import JudgedRun
from kaput.report.sections.fates import adds_up
from kaput.report.sentences import WITHOUT_RECORD

_MOST_REBALANCES = 50  # of a group
_MOST_MEMBERS = 100


def section(run: JudgedRun) -> Section | None:
    """An item for each group."""
    groups = run.findings.groups
    items = [_item(run, group) for group in groups]
    return Section("Consumer groups", items, key="groups", detail=True) if groups else None


def _item(run: JudgedRun, group: GroupFindings) -> NamedPart:
    rebalances = [one for one in run.findings.rebalances if one.group == group.group]
    blocks: list[Block] = []
    if rebalances:
        blocks.append(rebalances_table(run, rebalances))
        blocks += [Paragraph(note, "fine") for note in _rebalance_notes(rebalances[:_MOST_REBALANCES])]
    handovers = handovers_table(run, rebalances)
    if handovers.rows:
        blocks.append(Folded("Partitions revoked and assigned, by member", [handovers], in_text=False))
    summary = (Term("Fates", "fate"), f" for this group, and its members ({len(group.members)})")
    blocks.append(Folded(summary, list(_fates_and_members(run, group))))
    kind = f" ({group.type})" if run.described or group.type != "classic" else ""
    return NamedPart(group.group + kind, ", ".join(_summary(run, group, rebalances)), blocks)


def _summary(run: JudgedRun, group: GroupFindings, rebalances: list[RebalanceFindings]) -> Iterator[str]:
    yield "drained" if group.drained else "NOT drained: undelivered messages prove nothing"
    yield f"{plural(group.delivered_messages, 'message')} delivered"
    if group.redelivered:
        yield f"{plural(group.redelivered, 'record')} redelivered"
    if group.redelivered_after_commit:
        yield f"{group.redelivered_after_commit:,} delivered again after their commit"
    if group.delivered_per_s is not None:
        yield f"{number(group.delivered_per_s)} records per second"
    if group.longest_commit_gap_ms is not None:
        yield f"no commit for up to {milliseconds(group.longest_commit_gap_ms)}"
    if group.lag.max is not None:
        # A group that a plan moved is sampled only where it was.
        plan = run.findings.plan
        moved = plan is not None and group.group in {one.group for one in plan.groups}
        yield f"sampled lag up to {group.lag.max:,}{f' in {plan.source}' if plan and moved else ''}"
    if group.lag.final is not None:
        behind = group.lag.final_without_record
        markers = run.findings.high_watermark_arithmetic.markers
        what = "markers of transactions" if markers else WITHOUT_RECORD
        of_them = f"{behind:,} of them " if behind < group.lag.final else ""
        more = f", {of_them}behind the last record ({what})"
        yield f"{plural(group.lag.final, 'offset')} not committed at the end{more if behind else ''}"
    if rebalances:
        yield plural(len(rebalances), "rebalance")


def _fates_and_members(run: JudgedRun, group: GroupFindings) -> Iterator[Block]:
    rows = [[f.outcome, f.stored, f.delivered, f"{f.count:,}"] for f in group.fates if f.count]
    total = sum(f.count for f in group.fates)
    header = ["outcome", "times stored", "times delivered", "messages"]
    yield Table(header, rows, "lll", sums=["sum", "", "", f"{total:,}"])
    if total != run.findings.totals.sent:
        yield adds_up(total, run.findings)
    if others := _does_not_read(run, group):
        yield Paragraph(f"Delivered 0 times are also messages of {others} that it does not read.", "fine")
    if group.members:
        yield members_table(group)
    if sum(member.anomalies.get("redelivered", 0) for member in group.members) > group.redelivered:
        yield Paragraph("What was redelivered counts for each member that received it.", "fine")
    idle = [member.member for member in group.members if not member.delivered]
    if idle:
        yield Paragraph(f"idle: {', '.join(idle)}", "fine")


def _does_not_read(run: JudgedRun, group: GroupFindings) -> str:
    """`topics` if producers send to some that the scenario does not name for this group; `clusters` if they
    send to one that no mirror copies to the group's.
    """
    spec = run.scenario.group(group.group) if run.scenario is not None else None
    if run.scenario is None or spec is None:
        return ""
    producers = run.scenario.workload.producers
    if run.scenario.clusters:
        first = next(iter(run.scenario.clusters))
        here = spec.cluster or first
        known = {here, *(mirror.from_ for mirror in run.scenario.mirrors if mirror.to == here)}
        away = not run.scenario.plan and any((one.cluster or first) not in known for one in producers)
        return "clusters" if away else ""
    if not spec.topics or any(topic.startswith("^") for topic in spec.topics):
        return ""
    return "topics" if any(producer.topic not in spec.topics for producer in producers) else ""


def members_table(group: GroupFindings) -> Table:
    """Records delivered to each member; for a share group also how many were accepted, released, rejected."""
    counts = ["accepted", "released", "rejected", "failed"]
    shared = [m for m in group.members if isinstance(m, ShareMemberFindings)]
    if shared:
        rows = [[m.member, number(m.delivered), *(number(getattr(m, n)) for n in counts)] for m in shared]
        header = ["member", "delivered", *counts[:-1], "acknowledgements that failed"]
        return limited(Table(header, rows), _MOST_MEMBERS)
    # Columns for refused commits and anomalies, if there are any.
    refused = ["commits refused"] if any(m.commits_refused for m in group.members) else []
    anomalies = sorted({name for m in group.members for name in m.anomalies})
    rows = [
        [m.member, *map(number, (m.delivered, *(m.commits_refused for _ in refused), *found))]
        for m in group.members
        for found in [[m.anomalies.get(name, 0) for name in anomalies]]
    ]
    return limited(Table(["member", "records", *refused, *anomalies], rows), _MOST_MEMBERS)


def rebalances_table(run: JudgedRun, rebalances: list[RebalanceFindings]) -> Table:
    columns: dict[str, Callable[[RebalanceFindings], str | float]] = {
        Term("rebalance at (s)", "rebalance"): lambda one: _seconds(run, one.started_ns),
        Term("trigger"): lambda one: one.trigger,
        Term("owners after", "rebalance"): lambda one: (
            NOTHING if _first(one) else _ms_after(one, one.ended_ns)
        ),
        Term("read again after", "rebalance"): lambda one: _read_again(run, one),
        "members": lambda one: one.members,
        Term("unowned partition-seconds", "unowned_partition_seconds"): (
            lambda one: one.unowned_partition_seconds
        ),
        Term("redelivered"): lambda one: one.redelivered,
    }
    return limited(table_of(rebalances, columns, "ll"), _MOST_REBALANCES)


def _ms_after(one: RebalanceFindings, at_ns: int | None) -> str:
    return milliseconds(None if at_ns is None else (at_ns - one.started_ns) / 1e6)


def _first(one: RebalanceFindings) -> bool:
    """Whether no partition had an owner before."""
    return one.resumed_ns is None and not one.unresumed_partitions


def _read_again(run: JudgedRun, one: RebalanceFindings) -> str:
    over_s = run.seconds(one.ended_ns)
    after = (
        "with the load"
        if over_s is not None and over_s < 0 and one.resumed_ns
        else _ms_after(one, one.resumed_ns)
    )
    return f"{after} ({one.unresumed_partitions:,} not)" if one.unresumed_partitions else after


def _rebalance_notes(rebalances: list[RebalanceFindings]) -> Iterator[str]:
    """What the table of rebalances does not know."""
    if any(one.ended_ns is None and not _first(one) for one in rebalances):
        yield f"owners after {NOTHING}: some partition never got an owner again"
    if any(map(_first, rebalances)):
        yield f"owners after {NOTHING}, read again after {NOTHING}: no partition had an owner before"
    if any(one.unresumed_partitions for one in rebalances):
        yield "not: partitions of which the new owner was delivered nothing until the next one or the end"


def handovers_table(run: JudgedRun, rebalances: list[RebalanceFindings]) -> Table:
    """When each member's partitions were revoked, when it was assigned some, and its first record."""
    header = ["rebalance at (s)", "member", "revoked at", "assigned at", "first record at"]
    rows = [
        [_seconds(run, one.started_ns), member.member]
        + [_seconds(run, ns) for ns in (member.revoked_ns, member.assigned_ns, member.first_record_ns)]
        for one in rebalances[:_MOST_REBALANCES]
        for member in one.handovers
    ]
    return limited(Table(header, rows, "ll"), _MOST_MEMBERS)


def _seconds(run: JudgedRun, ns: int | None) -> str:
    seconds = run.seconds(ns)
    return NOTHING if seconds is None else f"{seconds:,.3f}"
