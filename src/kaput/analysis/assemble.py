"""From the account of a run to its findings: facts for the verdict, then the document.

No Spark and no counting: every number here was counted by a step, or is a sum or difference of such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kaput.analysis import balance, following, groups, measured, slumps, stories, transaction_findings
from kaput.analysis.account import ACK, END_TO_END, Account
from kaput.analysis.deposed import leader_changes
from kaput.analysis.faults import Reach
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Names
from kaput.analysis.partition_tables import partition_tables
from kaput.analysis.resized import resized_topic
from kaput.analysis.tally import Tally
from kaput.analysis.timeline import polled_ns
from kaput.evidence.findings import (
    Anomaly,
    Example,
    Fate,
    FaultFindings,
    Findings,
    HighWatermarkArithmetic,
    Latency,
    Run,
    Totals,
    UnreadPartition,
)
from kaput.scenario.vocabulary import GROUP_ANOMALIES, OUTCOMES, RUN_ANOMALIES
from kaput.verdict.facts import (
    ORDINARY,
    Circumstances,
    Displaced,
    Facts,
    FaultFacts,
    GroupFacts,
    Loss,
    Reordered,
)
from kaput.verdict.judge import Judgement, judge

_MS = 1_000_000


def findings(given: Inputs, account: Account) -> Findings:
    """The whole document, judged. Raises AccountingError where the account does not balance."""
    balance.check(account, given.groups)
    facts = _facts(given, account)
    judgement = judge(facts, given.scenario)
    tally, partitions = account.tally, account.partitions
    return Findings(
        run=run_of(given),
        verdict=judgement.verdict,
        reasons=judgement.reasons,
        notes=[*judgement.notes, *measured.ignored(given)],
        totals=Totals(
            sent=facts.sent,
            acked=facts.acked,
            failed=tally.outcome("failed"),
            unknown=tally.outcome("unknown"),
            log_records=partitions.log_records,
            stored_messages=tally.stored("1", "n"),
            foreign_records=partitions.foreign_records,
            unread=facts.unread,
            uncommitted=tally.stored("uncommitted"),
        ),
        fates=fates_of(tally),
        groups=[groups.group_of(given, account, index) for index in range(len(given.groups))],
        anomalies=_anomalies(given, account, facts, judgement),
        high_watermark_arithmetic=HighWatermarkArithmetic(
            acked=facts.acked,
            end_offsets=partitions.end_offsets_sum,
            difference=facts.acked - partitions.end_offsets_sum,
        ),
        faults=[_fault(reach, account) for reach in account.reaches],
        unread_partitions=list(facts.unread_partitions),
        transactions=transaction_findings.transactions(given, account),
        leader_changes=leader_changes(
            account.timeline, account.deposed, account.under, account.seen, given.clients
        ),
        partition_tables=partition_tables(given, account.timeline),
        rebalances=groups.rebalances_of(given, account),
        resized=[resized_topic(given, account, one) for one in account.resized],
        unavailability=measured.unavailability(account, given.names),
        latency_ms=Latency(
            ack=measured.percentiles(account, ACK),
            end_to_end=measured.percentiles(account, END_TO_END if len(given.groups) > 1 else 0),
        ),
        rates=measured.rates(given, account),
    )


def _facts(given: Inputs, account: Account) -> Facts:
    tally, names = account.tally, given.names
    return Facts(
        state=given.manifest.state,
        sent=sum(tally.fates.values()),
        acked=tally.outcome("acked"),
        counts={name: _count(account, name) for name in RUN_ANOMALIES},
        unread=tally.stored("unread"),
        unread_partitions=[
            UnreadPartition(
                topic=place[0],
                partition=place[1],
                end_offset=given.ends[place][0] if place in given.ends else None,
                drained_to=given.ends[place][1] if place in given.ends else None,
            )
            for place in account.partitions.unread
        ],
        losses=[
            Loss(r.producer, names.topics[r.topic], r.cause, r.messages, Circumstances._make(r.known))
            for r in account.losses
        ],
        duplicates=dict(tally.duplicates),
        reordered=[Reordered(r.producer, r.messages, r.across) for r in account.reordered],
        displaced=[
            Displaced(
                _topic(names, r.place),
                r.producer,
                r.cause or "unexplained",
                r.places,
                Circumstances._make(r.known) if r.known else ORDINARY,
            )
            for r in account.displaced
        ],
        groups=[
            GroupFacts(
                group,
                given.drained[index],
                {name: _count(account, name, index) for name in GROUP_ANOMALIES},
                account.cases["redelivered", index, True],
                [
                    Loss(r.producer, names.topics[r.topic], r.cause, r.messages, Circumstances._make(r.known))
                    for r in account.vanished
                    if r.group == index
                ],
                sum(n for (g, _), n in account.too_early.items() if g == index),
                given.types[index] == "share" and account.unrecorded(index),
                account.unclear.get(("lost-release", index), 0),
                account.maybe_too_early.get(index, 0),
            )
            for index, group in enumerate(given.groups)
        ],
        faults=[
            FaultFacts(f.id, f.fault, f.target, f.bit, f.proof, f.effective_ns, f.brokers)
            for f in given.faults
        ],
        deaths=given.deaths(),
        troubles=given.manifest.troubles,
        leader_changes=account.timeline.leader_changes(),
        consequences=following.consequences(given, account),
        hanging_within_grace=account.cases["hanging-transaction", None, True],
        hanging_perhaps=account.unclear.get(("hanging-transaction", None), 0),
        standstill_s=transaction_findings.standstill_s(given),
        polled_ns=polled_ns(given.cluster_events),
        stuck=max((sum(waiting.values()) for waiting in account.stuck.values()), default=0),
        slump_s=max((one.longest_s for one in slumps.slumps(given, account)), default=None),
        end_offsets=account.partitions.end_offsets_sum,
        end_offsets_known=bool(given.ends),
    )


def _count(account: Account, name: str, group: int | None = None) -> int:
    """Losses are a fate; whatever else is an anomaly was counted as cases."""
    return account.lost if name == "lost" else account.counted(name, group)


def _topic(names: Names, place: int) -> str:
    known = names.place(place)
    assert known is not None, "inconsistent offsets have a place"
    return known[0]


def run_of(given: Inputs) -> Run:
    """Which run this is."""
    manifest = given.manifest
    return Run(
        id=str(manifest.run_id),
        scenario=manifest.scenario,
        title=given.scenario.title if given.scenario else "",
        varied=manifest.varied,
        seed=manifest.seed,
        kafka=manifest.versions.get("kafka"),
        mode=manifest.mode,
        started_ns=manifest.started_ns,
        ended_ns=manifest.ended_ns,
    )


def fates_of(tally: Tally) -> list[Fate]:
    """The fates that any message met."""
    return [
        Fate(outcome=outcome, stored=stored, count=tally.fates[outcome, stored])
        for outcome in OUTCOMES
        for stored in groups.STORED
        if tally.fates[outcome, stored]
    ]


def _anomalies(given: Inputs, account: Account, facts: Facts, judgement: Judgement) -> list[Anomaly]:
    examples: dict[tuple[str, int | None], list[Example]] = {}
    for row in account.examples:
        examples.setdefault((row["name"], row["grp"]), []).append(stories.example(row))
    entries: list[Anomaly] = []
    for name in RUN_ANOMALIES:
        entries.append(
            Anomaly(
                name=name,
                count=facts.counts[name],
                permitted=judgement.permitted.get((name, None), 0),
                causes=_causes(name, facts),
                extra_copies=account.tally.extra_copies if name == "duplicate" else None,
                examples=examples.get((name, None), []),
            )
        )
    for name in GROUP_ANOMALIES:
        for index, group in enumerate(facts.groups):
            entries.append(
                Anomaly(
                    name=name,
                    count=group.counts[name],
                    permitted=judgement.permitted.get((name, group.group), 0),
                    group=group.group,
                    causes=_added(group.vanished) if name == "vanished" else {},
                    examples=examples.get((name, index), []),
                )
            )
        if not facts.groups:
            entries.append(Anomaly(name=name, count=0, permitted=0))
    return entries


def _causes(name: str, facts: Facts) -> dict[str, int]:
    if name == "lost":
        return _added(facts.losses)
    return _added(facts.displaced) if name == "inconsistent-offset" else {}


def _added(kinds: Sequence[Loss | Displaced]) -> dict[str, int]:
    """How many of them have which cause."""
    found: Counter[str] = Counter()
    for kind in kinds:
        found[kind.cause] += kind.count
    return dict(sorted(found.items()))


def _fault(reach: Reach, account: Account) -> FaultFindings:
    fault = reach.fault
    since = fault.effective_ns
    lost, first, last = account.lost_acks(fault.id)
    counts = account.window_counts.get(fault.id)
    affected, sent = (counts.affected, counts.sent) if counts else (0, 0)
    loss_sent, loss_acked = (counts.loss_sent, counts.loss_acked) if counts else (0, 0)
    quiet = account.quiet.get(fault.id)
    return FaultFindings(
        id=fault.id,
        fault=fault.fault,
        target=fault.target,
        brokers=list(fault.brokers),
        bit=fault.bit,
        proof=fault.proof,
        injected_ns=fault.injected_ns,
        effective_ns=since,
        healed_ns=fault.healed_ns,
        loss_window_ms=_ms(first, last),
        first_lost_ack_ns=first,
        last_lost_ack_ns=last,
        lost=lost,
        lost_after_heal=sum(row.after_heal for row in account.deposed if row.fault == fault.id),
        lost_share=lost / loss_acked if loss_acked else None,
        affected=affected,
        sent_in_window=sent,
        affected_share=affected / sent if sent else None,
        acked_in_loss_window=loss_acked,
        sent_in_loss_window=loss_sent,
        election_ms=_ms(since, reach.moved_ns),
        unavailable_ms=quiet / _MS if quiet is not None else None,
        first_ack_after_ms=_ms(since, account.first_acks.get(fault.id)) if reach.elected else None,
        first_delivery_after_ms=_ms(since, account.first_deliveries.get(fault.id)) if reach.elected else None,
        backlog_drained_ms=_ms(since, account.drained_ns.get(fault.id)),
        isr_restored_ms=_ms(fault.healed_ns, reach.restored_ns),
        stuck=dict(account.stuck.get(fault.id, {})),
    )


def _ms(from_ns: int | None, to_ns: int | None) -> float | None:
    """The time between in ms; the cluster's events come in whole ms: a little before counts as at once."""
    return None if from_ns is None or to_ns is None else max(0.0, (to_ns - from_ns) / _MS)
