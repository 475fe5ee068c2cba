"""Checks of the current state of partitions and the metadata quorum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kaput.operate.doctor.check import Hit, check, ids, listed, numbers
from kaput.operate.doctor.settings import min_isr_fix
from kaput.operate.doctor.snapshot import Snapshot

_LAGGING = 1000  # records behind the quorum's leader


@check("KP007", "info", "one broker leads far more partitions than the others")
def _unbalanced(snapshot: Snapshot) -> Iterator[Hit]:
    led = Counter({broker.id: 0 for broker in snapshot.brokers})
    led.update(p.leader for topic in snapshot.topics for p in topic.partitions if p.leader is not None)
    total, count = sum(led.values()), len(snapshot.brokers)
    if count < 2:
        return
    broker, most = led.most_common(1)[0]
    if most > (many := 1.5 * total / count + 1):
        preferred = Counter(p.replicas[0] for topic in snapshot.topics for p in topic.partitions)
        yield Hit(
            f"broker {broker}",
            f"leads {most} of {total} partitions; {count} brokers",
            # An election only restores preferred leaders, which may be unbalanced themselves.
            "kaput reassign --balance --all-topics"
            if max(preferred.values()) > many
            else "kaput tool leader-election --election-type preferred --all-topic-partitions",
        )


@check("KP008", "info", "the leader is not the preferred replica")
def _not_preferred(snapshot: Snapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        others = [p for p in topic.partitions if p.leader is not None and p.leader != p.replicas[0]]
        if others:
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(others)} led by {ids({p.leader for p in others if p.leader is not None})}",
                "kaput tool leader-election --election-type preferred "
                f"--topic {topic.name} --partition {others[0].number}",
            )


@check("KP009", "warning", "replicas are missing from the ISR: it survives fewer failures than planned")
def _under_replicated(snapshot: Snapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        short = [p for p in topic.partitions if p.leader is not None and len(p.isr) < len(p.replicas)]
        if short:
            missing = {broker for p in short for broker in set(p.replicas) - set(p.isr)}
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(short)} without replica {ids(missing)} in sync",
                f"check broker {ids(missing)}: kaput tool topics --describe --under-replicated-partitions",
            )


@check("KP010", "critical", "below min.insync.replicas: writes with acks=all are rejected")
def _below_min_isr(snapshot: Snapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        below = [p for p in topic.partitions if p.leader is not None and len(p.isr) < topic.min_isr]
        if below:
            away = {b for p in below for b in set(p.replicas) - set(p.isr)}
            enough = topic.replication_factor >= topic.min_isr
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(below)}: ISR {listed(below[0].isr)}, min.insync.replicas {topic.min_isr}",
                # With fewer replicas than min.insync.replicas, bringing brokers back does not help.
                f"bring back broker {ids(away)}" if enough else min_isr_fix(snapshot, topic),
            )


@check("KP011", "critical", "offline: no leader, so nothing can be written or read")
def _offline(snapshot: Snapshot) -> Iterator[Hit]:
    alive = {broker.id for broker in snapshot.brokers}
    for topic in snapshot.topics:
        gone = [p for p in topic.partitions if p.leader is None]
        if gone:
            # Kafka may leave brokers that are down out of the ISR.
            last = gone[0].isr
            back = last or [broker for broker in gone[0].replicas if broker not in alive]
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(gone)} without a leader; last in sync: {listed(last) if last else 'not known'}",
                f"bring back broker {listed(back or gone[0].replicas)}; "
                "an unclean election would lose the messages that only it has",
            )


@check("KP012", "critical", "only one controller votes: without it there are no elections")
def _lone_voter(snapshot: Snapshot) -> Iterator[Hit]:
    if snapshot.quorum is not None and len(snapshot.quorum.voters) == 1:
        yield Hit(
            "metadata quorum",
            f"the only voter is {ids(snapshot.quorum.voters)}",
            "run three controllers: kafka-metadata-quorum add-controller",
        )


@check("KP013", "warning", "an even number of voters survives no more failures than one fewer")
def _even_voters(snapshot: Snapshot) -> Iterator[Hit]:
    if snapshot.quorum is not None and len(snapshot.quorum.voters) % 2 == 0:
        yield Hit(
            "metadata quorum",
            f"{len(snapshot.quorum.voters)} voters: {ids(snapshot.quorum.voters)}",
            "add or remove one: kafka-metadata-quorum add-controller, remove-controller",
        )


@check("KP014", "warning", "a voter lags behind: it cannot take over, and does not count in a majority")
def _lagging_voter(snapshot: Snapshot) -> Iterator[Hit]:
    if snapshot.quorum is None:
        return
    end = snapshot.quorum.voters.get(snapshot.quorum.leader) or 0
    for voter, offset in sorted(snapshot.quorum.voters.items()):
        if offset is None or end - offset > _LAGGING:
            behind = "has never reported" if offset is None else f"{end - offset:,} records behind"
            yield Hit(f"controller {voter}", behind, f"check controller {voter}")
