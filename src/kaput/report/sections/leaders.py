"""Leaders: for each change the new leader and what the deposed leader still acknowledged; and the leader and
ISR of each partition before, during and after the faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kaput.core import first_few, plural
from kaput.evidence.findings import LeaderChange
from kaput.evidence.findings_parts import Learned, PartitionSnapshot
from kaput.report.document import Block, Bullets, Folded, Section, Table, Term, limited, milliseconds
from kaput.report.sections import JudgedRun
from kaput.scenario.fault_kinds import MOVES, MOVES_REPLICAS, PERMANENT
from kaput.verdict.contracts import unclean_allowed

_CALM_CHANGES = 5  # shown of the changes without a loss; changes with a loss are all shown
_FEW_PARTITIONS = 20  # a table with more rows is left out of text output
_MOST_PARTITIONS = 30
_FEW_TOPICS = 3
_ABSENT = {
    "down": "though its process was down",
    "starting": "though it had just been started again and had not registered yet",
}


def section(run: JudgedRun) -> Section | None:
    """The section: sentences on leader changes, and the partition table."""
    sentences, table = leader_sentences(run), partition_table(run)
    more = [*_unchanged(run), *_elsewhere(run)]
    blocks: list[Block] = [Bullets([*sentences, *more])] if sentences or more else []
    if table is not None:
        few = len(table.rows) + table.left_out <= _FEW_PARTITIONS
        in_text = few and len(run.findings.partition_tables) > 1
        blocks.append(table if in_text else Folded(table.caption, [table], in_text=False))
    return Section("Leaders", blocks, key="leaders", detail=not sentences) if blocks else None


def _unchanged(run: JudgedRun) -> Iterator[str]:
    """That no leader changed, if each has the same epoch in all tables."""
    states = {
        (one.topic, one.partition, one.leader, one.leader_epoch)
        for table in run.findings.partition_tables
        for one in table.partitions
    }
    known = all(leader not in (None, -1) and epoch is not None for _, _, leader, epoch in states)
    places = {state[:2] for state in states}
    if states and known and len(states) == len(places) and not run.findings.leader_changes:
        yield "No leader of the run's topics changed."


def _elsewhere(run: JudgedRun) -> Iterator[str]:
    """The changes in topics that are not in the table."""
    count = sum(run.findings.led_elsewhere.values())
    if count:
        topics = first_few(list(run.findings.led_elsewhere), _FEW_TOPICS)
        yield f"Of other topics, {plural(count, 'partition')} got another leader ({topics})."


def partition_table(run: JudgedRun) -> Table | None:
    """A row for each partition, partitions with changes first."""
    tables = run.findings.partition_tables
    if not tables:
        return None
    at = [run.seconds(table.at_ns) for table in tables]
    moments = [
        table.when if seconds is None or seconds < 0 else f"{table.when}, at {seconds:,.1f} s"
        for table, seconds in zip(tables, at, strict=True)
    ]
    by_moment = [{(p.topic, p.partition): p for p in table.partitions} for table in tables]
    rows = [
        [f"{key[0]}/{key[1]}", _brokers(one.replicas), *(_state(states[key]) for states in by_moment)]
        for key, one in by_moment[0].items()
    ]
    rows.sort(key=lambda row: len(set(row[2:])) == 1)
    moved = any(fault.fault in MOVES_REPLICAS for fault in run.findings.faults)
    header = ["partition", "replicas at first" if moved else "replicas", *moments]
    caption = (Term("Partition table", "partition table"), ": leader and in-sync replicas of each partition")
    return limited(Table(header, rows, "l" * len(header), caption=caption), _MOST_PARTITIONS)


def _state(state: PartitionSnapshot) -> str:
    if state.deleted:
        return "deleted"
    if state.leader is None and state.isr is None:
        return "unknown" if state.created else "not created yet"
    leader = "leader unknown" if state.leader is None else f"broker {state.leader}"
    leader += " (down)" if state.leader_down else ""
    epoch = "" if state.leader_epoch is None else f", epoch {state.leader_epoch}"
    isr = "unknown" if state.isr is None else _brokers(state.isr)
    return f"{'no leader' if state.leader == -1 else leader}{epoch}; ISR {isr}"


def _brokers(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def leader_sentences(run: JudgedRun) -> list[str]:
    """A sentence for each leader change with a loss, then for the first few without."""
    changes = run.findings.leader_changes
    costly = [change for change in changes if change.deposed_acks]
    calm = [change for change in changes if not change.deposed_acks]
    sentences = [", ".join(_sentence(run, change)) + "." for change in (*costly, *calm[:_CALM_CHANGES])]
    more = len(calm) - _CALM_CHANGES
    return [*sentences, f"{plural(more, 'more leader change')} without a loss."] if more > 0 else sentences


def _planned(fault: str | None) -> str:
    """Of a change from a leader that was in sync: that it was planned, unless a fault that breaks something
    is behind it.
    """
    if fault is None:
        return ": a planned change, by Kafka's own rebalancing of leaders or by a tool"
    return ": a planned change" if _kind(fault) in MOVES else ""


def _kind(fault: str | None) -> str:
    return (fault or "").partition("-")[2]


def _sentence(run: JudgedRun, change: LeaderChange) -> Iterator[str]:
    restarted = change.leader == change.old_leader
    how = "came back as leader" if restarted else f"took over from broker {change.old_leader}"
    if change.leader_was is not None:
        how = "was elected again" if restarted else f"was elected in place of broker {change.old_leader}"
    yield f"{change.topic}/{change.partition}: broker {change.leader} {how} (epoch {change.epoch})"
    if change.leader_was is not None:
        yield _ABSENT[change.leader_was]
    if change.unclean:
        off = run.scenario is not None and not unclean_allowed(run.scenario, change.topic)
        anyway = ": Kafka elects the last known leader like this even with unclean leader election off"
        yield (
            "by an unclean election (it was neither in the ISR nor an eligible leader replica"
            f"{anyway if off else ''})"
        )
    if change.old_leader_in_sync:
        yield f"which was in sync{_planned(change.fault)}"
    elif _kind(change.fault) in MOVES:
        yield "a planned change"
    if change.without_leader_ms:
        yield f"after {milliseconds(change.without_leader_ms)} without a leader"
    yield from _served(run, change)
    if not change.deposed_acks:
        its = "nothing that it had acknowledged was overwritten"
        yield its if restarted else "the old leader acknowledged nothing that was overwritten"
        return
    if restarted:
        acked = f"{change.deposed_acks:,} messages that it had acknowledged"
        yield f"without {acked}, {change.lost:,} of them lost"
        return
    yield (
        f"the old leader had acknowledged {change.deposed_acks:,} that were overwritten, "
        f"{change.deposed_acks_after_election:,} of them after the election"
    )
    if change.two_leaders_ms:
        two = "" if change.leader_was else ": for that long there were two leaders"
        yield f"the last {milliseconds(change.two_leaders_ms)} after it{two}"
    if change.overlap_ms:
        yield f"both acknowledged for {milliseconds(change.overlap_ms)}"
    if change.offsets_used_twice:
        yield f"{plural(change.offsets_used_twice, 'offset')} used twice"
    if change.lost_after_heal and _kind(change.fault) not in PERMANENT:
        yield f"{change.lost_after_heal:,} of the {change.lost:,} lost were acknowledged after the heal"
    yield from _proof(change)


def _served(run: JudgedRun, change: LeaderChange) -> Iterator[str]:
    """When the new leader first acknowledged anything, and to whom. One that was elected before the
    load had nothing to acknowledge.
    """
    elected_s = run.seconds(change.elected_ns)
    if elected_s is not None and elected_s < 0:
        yield "before the load began"
        return
    if change.first_ack_ns is not None:
        after = (change.first_ack_ns - change.elected_ns) / 1e6
        # The cluster's own record has a resolution of 1 ms; a poll may come later than the acknowledgement.
        when = f"{milliseconds(max(0.0, after))} after the election"
        yield f"its first acknowledgement {when if after > -1 else 'before the election was noticed'}"
    # Left out for a single producer of kaput's own.
    if {known.client for known in change.learned} - {"librdkafka"} or _producers(change) > 1:
        yield f"first acknowledged to {' and to '.join(map(_first_to, change.learned))}"


def _first_to(known: Learned) -> str:
    """`java's producer 23,268 ms after it`: when producers had their first acknowledgements from it."""
    if known.producers == 1:
        return f"{known.client}'s producer {milliseconds(known.first_ms)} after it"
    to = "" if known.first_ms == known.last_ms else f" to {milliseconds(known.last_ms)}"
    middle = "" if known.median_ms is None or not to else f", median {milliseconds(known.median_ms)}"
    last = f", the last ones {', '.join(map(str, known.last_producers))}" if known.last_producers else ""
    times = f"{milliseconds(known.first_ms)}{to} after it{middle}{last}"
    return f"{known.producers} producers of {known.client} {times}"


def _producers(change: LeaderChange) -> int:
    return sum(known.producers for known in change.learned)


def _proof(change: LeaderChange) -> Iterator[str]:
    """How many of the lost messages were seen on each broker's disk, and how many on none."""
    unseen = change.lost_unseen
    if unseen is None:
        return
    for broker, seen in sorted(change.lost_seen.items()):
        every = {1: "the lost message was", 2: "both lost messages were"}
        which = every.get(seen, f"all {seen:,} lost messages were")
        if seen != change.lost:
            which = f"{seen:,} of the {change.lost:,} lost messages {'was' if seen == 1 else 'were'}"
        yield f"{which} seen on broker {broker}'s disk before its log was truncated"
    if unseen:
        last = milliseconds(change.lost_unseen_last_ms)
        yield f"{plural(unseen, 'lost message')}, acknowledged in the last {last}, on no broker's disk"
