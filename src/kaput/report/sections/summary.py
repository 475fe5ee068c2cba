"""The top of a report: the verdict, the answer in one sentence, the faults, why it happened, key figures.
Then the sections with the reasons for the verdict and the expectations.

Times are seconds since the load began, as in the timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kaput.core import plural, qualified
from kaput.evidence.findings import FaultFindings, LeaderChange
from kaput.evidence.findings_claims import needs_heal
from kaput.report.document import (
    Bullets,
    Cell,
    Figure,
    Head,
    Section,
    Table,
    Term,
    milliseconds,
    number,
    percent,
)
from kaput.report.sections import JudgedRun
from kaput.report.sections.availability import outages, timed
from kaput.report.sentences import confirmation, promise_reasons, verdict_sentence
from kaput.scenario.fault_kinds import GrowOptions, ReassignOptions, ResizeOptions, RollingUpgradeOptions
from kaput.scenario.model import Config, Scenario
from kaput.scenario.timeline import step_id

_MOST_FAULTS = 3
_SOONER = 0.9


def head(run: JudgedRun) -> Head:
    """The top of the report."""
    findings, about = run.findings, run.findings.run
    verdict, _, answer = verdict_sentence(findings).partition(": ")
    kafka = f"Kafka {', then '.join([about.kafka or 'of unknown version', *_upgrades(run)])}"
    kafka += f" ({about.mode})" if run.described else ""
    seed = f", seed {about.seed}" if run.described else ""
    return Head(
        verdict=verdict,
        answer=answer,
        tone="loss" if findings.verdict == "held" and findings.lost else findings.verdict,
        name=about.scenario,
        title=about.title,
        about=f"{about.scenario}: {kafka}{seed}, run {about.id}; {_rates(run)}",
        setup="; ".join(_setup(run)),
        done=f"{faults_in_a_line(run) or 'no fault was injected'} · {kafka}",
        why=" ".join(_why(run)),
        outages=outages(run),
        figures=list(_figures(run)),
    )


def _rates(run: JudgedRun) -> str:
    """`500 sent and 498 acknowledged per second on average`; with their times, if acknowledgements ended
    sooner.
    """
    rates, totals = run.findings.rates, run.findings.totals
    sent, acked = f"{number(rates.sent_per_s)} sent", f"{number(rates.acked_per_s)} acknowledged"
    if not timed(run):
        return f"{sent} per second on average"
    if rates.sent_per_s and rates.acked_per_s:
        sent_s, acked_s = totals.sent / rates.sent_per_s, totals.acked / rates.acked_per_s
        if acked_s < _SOONER * sent_s:
            means = f"{sent} per second for {sent_s:,.1f} s, {acked} per second for {acked_s:,.1f} s"
            return f"{means}, on average"
    return f"{sent} and {acked} per second on average"


def _upgrades(run: JudgedRun) -> Iterator[str]:
    """The versions that the cluster was upgraded to."""
    done = {fault.id for fault in run.findings.faults if fault.effective_ns is not None}
    for nth, step in run.scenario.numbered_faults() if run.scenario is not None else ():
        if isinstance(step.options, RollingUpgradeOptions) and step_id(nth, step) in done:
            yield step.options.kafka


def reasons(run: JudgedRun) -> Section | None:
    found = [*run.findings.reasons, *run.findings.notes]
    return Section("Why", [Bullets(found)]) if found else None


def expectations(run: JudgedRun) -> Section | None:
    """The scenario's expectations, and whether each was met."""
    words = {"met": "met", "exceeded": "exceeded", "unmet": "not met"}
    rows: list[list[str | Cell]] = [
        [one.name, one.wanted, _found(one.found), Cell(words[one.met], bad=one.met == "exceeded")]
        for one in run.findings.expectations
    ]
    table = Table(["expectation", "limit", "found", "result"], rows, "llrl")
    return Section("Expectations", [table], key="expectations") if rows else None


def _found(value: float | str | None) -> str:
    if value is None:
        return "not measured"
    return value if isinstance(value, str) else number(value)


def faults_in_a_line(run: JudgedRun) -> str:
    """The first few faults, and how many more there are."""
    found = [_fault(fault, run) for fault in run.findings.faults[:_MOST_FAULTS]]
    more = len(run.findings.faults) - _MOST_FAULTS
    return "; ".join([*found, *([f"and {plural(more, 'more fault')}"] if more > 0 else [])])


def _fault(fault: FaultFindings, run: JudgedRun) -> str:
    """`isolate of leader-of orders/0 (broker 1) at 15.0 s for 30.0 s: confirmed`."""
    when = _at(run, fault.effective_ns, " at ")
    if when and fault.effective_ns is not None and fault.healed_ns not in (None, fault.effective_ns):
        when += f" for {(fault.healed_ns - fault.effective_ns) / 1e9:,.1f} s"
    return f"{fault.fault} of {target_of(fault, run)}{when}: {confirmation(fault)}"


def target_of(fault: FaultFindings, run: JudgedRun) -> str:
    """`leader-of orders/0 (broker 1) from controllers`: the target, the brokers (or other nodes) that it
    resolved to, and from what they are cut off, if that is not everything.
    """
    step = run.scenario.step_of(fault.id, fault.fault) if run.scenario is not None else None
    others = step.options.parties if step is not None and step.fault in ("isolate", "cut") else ()
    apart = f" from {', '.join(others)}" if others else ""
    word = "broker" if all(node % 1000 <= 100 for node in fault.brokers) else "node"
    brokers = f"{word}{'s' if fault.brokers[1:] else ''} {', '.join(map(str, fault.brokers))}"
    alone = not fault.brokers or brokers == fault.target
    return f"{fault.target if alone else f'{fault.target} ({brokers})'}{apart}"


def _at(run: JudgedRun, ns: int | None, before: str) -> str:
    """` at 15.0 s`; empty if the time is unknown."""
    seconds = run.seconds(ns)
    return "" if seconds is None else f"{before}{seconds:,.1f} s"


def _setup(run: JudgedRun) -> Iterator[str]:
    if run.scenario is not None:
        yield setup(run.scenario)
    if run.manifest is not None and run.manifest.scale != 1:
        yield f"timeouts scaled to {run.manifest.scale:g} (confirm with the scenario's own timeouts)"


def _why(run: JudgedRun) -> Iterator[str]:
    findings = run.findings
    if findings.verdict != "held" and (why := promise_reasons(findings)) and findings.promise != "held":
        yield why[0]
    costly = [change for change in findings.leader_changes if change.lost]
    if costly:
        worst = max(costly, key=lambda change: change.lost)
        yield _overwritten(worst, run)
        rest = sum(change.lost for change in costly) - worst.lost
        if rest:
            yield f"{plural(len(costly) - 1, 'more leader change')} lost {rest:,}."


def _overwritten(change: LeaderChange, run: JudgedRun) -> str:
    """How a leader change lost messages."""
    partition = f"{change.topic}/{change.partition}"
    every = change.lost == run.findings.lost
    lost = "every message lost" if every else f"{change.lost:,} of the messages lost"
    if change.leader == change.old_leader:
        return f"Broker {change.leader} came back as leader of {partition} without {lost}."
    old = "The old leader" if change.old_leader is None else f"Broker {change.old_leader}"
    last = _at(run, change.last_deposed_ack_ns, ", until ")
    elected = _at(run, change.elected_ns, " at ")
    replaced = "its log" if change.leader_was is None else "the log of the next one that served"
    return (
        f"{old} alone acknowledged {lost} in {partition}{last}; broker {change.leader} was elected{elected}, "
        f"had none of them, and {replaced} became the partition's."
    )


def _figures(run: JudgedRun) -> Iterator[Figure]:
    findings, totals = run.findings, run.findings.totals
    lost, twice = findings.lost, findings.duplicate
    share = f"{percent(lost / totals.acked)} of the acknowledged" if lost and totals.acked else ""
    yield Figure("sent", f"{totals.sent:,}")
    yield Figure(Term("acknowledged", "acked"), f"{totals.acked:,}")
    yield Figure(Term("acknowledged, then lost", "lost"), f"{lost:,}", share, lost > 0)
    yield Figure(Term("stored twice or more", "duplicate"), f"{twice:,}", bad=twice > 0)
    if findings.kept is not None and findings.kept.kept:
        kept, lost_there = findings.kept, findings.kept.lost_in_store
        share = f"{lost_there:,} lost there" if lost_there else f"{kept.delivered_later:,} delivered later"
        yield Figure(Term("kept by a store", "kept"), f"{kept.kept:,}", share, lost_there > 0)
    if totals.unread:
        yield Figure("not read back", f"{totals.unread:,}", bad=True)
    elected = max((f.election_ms for f in findings.faults if f.election_ms is not None), default=None)
    if elected is not None:
        yield Figure(Term("until a new leader", "election_ms"), milliseconds(elected))
    gap = max((f.unavailable_ms for f in findings.faults if f.unavailable_ms is not None), default=None)
    if gap is not None:
        name = Term("longest silence after a fault", "unavailable_ms")
        healed = any(
            f.unavailable_ms == gap and needs_heal(f.unavailable_waited_for) for f in findings.faults
        )
        remark = "of one partition; it waited for the heal" if healed else "of one partition"
        yield Figure(name, milliseconds(gap), remark)
    service = next((a for a in findings.availability if a.group is None and a.partition is None), None)
    if service is not None:
        name = Term("standstill of all partitions", "standstill")
        share = f"{percent(service.within_1s_share)} within 1 s"
        yield Figure(name, f"{service.standstill_s:,.1f} s", share, service.standstills > 0)
    if findings.latency_ms.ack.p99 is not None:
        yield Figure("ack latency p99", milliseconds(findings.latency_ms.ack.p99))


# Broker and topic settings that decide how long an outage lasts, or what may be lost.
_NOTABLE = (
    "min.insync.replicas",
    "broker.session.timeout.ms",
    "zookeeper.session.timeout.ms",
    "replica.lag.time.max.ms",
    "unclean.leader.election.enable",
)


def setup(scenario: Scenario) -> str:
    """The settings that decide what may be lost and how long an outage lasts, in one line. `3 brokers;
    orders: 6 partitions, replication factor 3; 1 producer: acks=all; group billing: 3 members`.
    """
    return "; ".join(_parts(scenario))


def _parts(scenario: Scenario) -> Iterator[str]:
    steps = [(step.target, step.options) for step in scenario.faults]
    for name, cluster in scenario.all_clusters.items():
        added = [o.brokers for t, o in steps if isinstance(o, GrowOptions) and t.name in (None, name)]
        grown = [cluster.brokers + sum(added)] if added else []
        brokers = plural(cluster.brokers, "broker") + _later(grown)
        other = "broker.session" if cluster.mode == "zookeeper" else "zookeeper."  # not read in this mode
        used = {key: value for key, value in cluster.config.items() if not key.startswith(other)}
        yield ", ".join([f"{name}: {brokers}" if name else brokers, *_notable(used)])
    for mirror in scenario.mirrors:
        yield f"mirror {mirror.name}: {', '.join(mirror.topics)}"
    for topic in scenario.topics:
        mine = [o for t, o in steps if isinstance(o, ResizeOptions) and t.topic == topic.full_name]
        count = plural(topic.partitions, "partition") + _later(o.partitions for o in mine)
        factor = f"replication factor {topic.replica_count()}" + _later(
            o.replication_factor for _, o in steps if isinstance(o, ReassignOptions)
        )
        words = [count, factor, *_notable(topic.config)]
        yield f"{topic.full_name}: {', '.join(words)}"
    for spec in scenario.workload.producers:
        idempotence = "with" if spec.idempotence else "without"
        to = qualified(spec.cluster, spec.topic)
        what = f"acks={spec.acks}, {idempotence} idempotence{spec.in_words}"
        yield f"{plural(spec.count, 'producer')} to {to}: {what}"
    for group in scenario.workload.groups:
        yield f"group {group.id}: {group.members_in_words}"


def _later(values: Iterable[int]) -> str:
    """` (later 4)`: the last of the values that steps of the timeline give."""
    last = list(values)[-1:]
    return f" (later {last[0]})" if last else ""


def _notable(config: Config) -> Iterator[str]:
    return (f"{name}={str(config[name]).lower()}" for name in _NOTABLE if name in config)
