"""Compares this run with published results of the same experiment, with their sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kaput.evidence.findings import FaultFindings, Findings
from kaput.report.document import Bullets, Section, milliseconds, number, percent
from kaput.report.sections import JudgedRun


@dataclass(frozen=True)
class Published:
    """A published result for one scenario. `source`: author, publication and setup; `seen`: the result;
    `broker_share`: the share of brokers killed; `readers`: the result is about deliveries to groups.
    """

    source: str
    seen: str
    broker_share: float | None = None
    readers: bool = False


_OTTO = "Andrew Otto, Wikimedia's analytics mailing list, August 2012 (Kafka 0.7): "
_CLOUDURABLE = "Cloudurable's tutorial on consumer and broker failover: "
_INCIDENT = "an operator's report of an incident, one broker grown to two: "
_COURSE = "an exercise of a Kafka course"


def _vanlightly(number: int, setup: str) -> str:
    title = "How to Lose Messages on a Kafka Cluster"
    return f"Jack Vanlightly, {title} (2018), scenario {number}: {setup}"


# The figures of Vanlightly's scenarios 2 and 3, of which kaput has several variations.
_ACKS_1 = "about 5 of 100,000 lost; an independent rerun: 0 net of 99,974, with 10 producers 80 of 846,117"
_ACKS_ALL = "0 lost; an independent rerun: 0 net of 801,679 (801,683 in the log)"
_STALL = Published(
    _vanlightly(4, "the same, sent slowly"),
    "the producer stalls for about 60 s before it finds the new leader",
)

_FAILOVER = Published(
    _COURSE,
    "asked, without figures: fail over to a mirror without disrupting reads, and without disrupting writes",
    readers=True,
)

PUBLISHED = {
    "broker-failover-2x1": Published(
        _OTTO + "2 brokers, 1 producer, 20,000 messages",
        "10 to 60 lost, once 56 of about 500 sent in that second; "
        "with an async producer half of the messages for about 600 ms",
        1 / 2,
    ),
    "broker-failover-10x1": Published(
        _OTTO + "10 brokers, 1 producer", "42 of 393 (about 10 %) over about 800 ms", 1 / 10
    ),
    "broker-failover-10x10": Published(
        _OTTO + "10 brokers, 10 producers", "about 10 % for each producer, over 0.75 s on average", 1 / 10
    ),
    "sequence-2012": Published(
        _OTTO + "2 brokers, 1 producer, 20,000 messages",
        "10 to 60 lost, once 56 of about 500 sent in that second; none lost when the broker came back",
        1 / 2,
    ),
    "consumer-failover": Published(
        _CLOUDURABLE + "13 partitions, 3 replicas",
        "a member is killed: messages m8 to m14 still arrive, each once; a broker is killed: leaders move, "
        "the ISR shrinks, m15 and m16 still arrive",
        readers=True,
    ),
    "replication-factor-1": Published(
        _INCIDENT + "the first broker goes down",
        "committed offset 10, log end 21: 11 messages stuck, with no error, until the broker is back",
        readers=True,
    ),
    "replication-factor-1-fixed": Published(
        _INCIDENT + "the fix",
        "recommended, without figures: a replication factor above 1 everywhere",
        readers=True,
    ),
    "thousand-per-second": Published(
        _COURSE, "1,000 messages a second must not drop; an alert below 800", readers=True
    ),
    "partition-resize": Published(
        _COURSE,
        "producers and consumers must both use all partitions; the question is what breaks",
        readers=True,
    ),
    "planned-switchover": _FAILOVER,
    "dc1-netsplit": _FAILOVER,
    "dc1-netsplit-half": _FAILOVER,
    "dc1-dies-and-returns": _FAILOVER,
    "leader-kill-acks-0": Published(
        _vanlightly(1, "acks=0, 100,000 messages"),
        "about 6,700 lost; an independent rerun: at least 21 of 100,000 claimed",
    ),
    "leader-kill-acks-1": Published(_vanlightly(2, "acks=1, 100,000 messages"), _ACKS_1),
    "leader-kill-lagging-acks-1": Published(_vanlightly(2, "acks=1, followers not lagging"), _ACKS_1),
    "leader-kill-throttled-acks-1": Published(_vanlightly(2, "acks=1, followers not throttled"), _ACKS_1),
    "slow-network-kill-acks-1": Published(_vanlightly(2, "acks=1, the network not slow"), _ACKS_1),
    "leader-kill-acks-all": Published(_vanlightly(3, "acks=all, 10 producers"), _ACKS_ALL),
    "leader-kill-lagging-acks-all": Published(_vanlightly(3, "acks=all, followers not lagging"), _ACKS_ALL),
    "leader-kill-throttled-acks-all": Published(
        _vanlightly(3, "acks=all, followers not throttled"), _ACKS_ALL
    ),
    "slow-network-kill-acks-all": Published(_vanlightly(3, "acks=all, the network not slow"), _ACKS_ALL),
    "leader-isolated-acks-1": Published(
        _vanlightly(4, "the leader is cut off from all but clients, acks=1, about 100,000 messages"),
        "31,784 lost; an independent rerun: at least 35,588 (37 %) of 95,513, first write of the new epoch "
        "about 66 s after the election",
    ),
    "stale-end-transaction": Published(
        "Kyle Kingsbury, Jepsen's report on Bufstream 0.1.0 (2024), and KAFKA-17754: brokers that pause, "
        "Kafka's Java client",
        "aborted reads, lost writes and torn transactions, without figures",
        readers=True,
    ),
    "stale-end-transaction-java": Published(
        "KAFKA-17754 and KIP-890: transaction version 2, where each transaction has an epoch of its own",
        "a late EndTxn is refused; no figures",
        readers=True,
    ),
    "leader-isolated-slow": _STALL,
    "leader-isolated-slow-acks-all": _STALL,
    "leader-isolated-acks-all": Published(
        _vanlightly(5, "the same with acks=all"),
        "0 lost, the producer back within 60 s; an independent rerun: 0 net of 51,029 (51,035 in the log)",
    ),
    "leader-cut-from-controllers-acks-1": Published(
        _vanlightly(6, "the leader is cut off from ZooKeeper alone, acks=1"),
        "lost, much like scenario 4: two leaders at once; an independent rerun: 38,209 of 100,000",
    ),
    "leader-cut-from-controllers-acks-all": Published(
        _vanlightly(7, "the same with acks=all"),
        "0 lost; an independent rerun: 0 net of 84,634 (84,638 in the log)",
    ),
}


def section(run: JudgedRun) -> Section | None:
    """The published figures, then this run's; None if nothing was published for its scenario."""
    found = compared_with_published(run.findings)
    return Section("Comparison with published results", [Bullets(found)], key="published") if found else None


def compared_with_published(findings: Findings) -> list[str]:
    """`published: ...` and `this run: ...`; empty if nothing was published for the scenario."""
    published = PUBLISHED.get(findings.run.scenario)
    if published is None:
        return []
    return [
        f"published ({published.source}): {published.seen}",
        f"this run: {_this_run(findings, published)}",
    ]


def _this_run(findings: Findings, published: Published) -> str:
    lost = findings.lost
    share = f" ({percent(lost / findings.totals.acked)})" if lost else ""
    text = "; ".join(
        [f"{lost:,}{share} of {findings.totals.acked:,} acknowledged messages lost", *_stalls(findings)]
    )
    if published.readers:
        return "; ".join([*_readers(findings), *_slumps(findings), text])
    kills = [fault for fault in findings.faults if fault.fault == "kill"]
    if published.broker_share is None or not kills:
        return text
    shares = [
        f"{_affected(kill)} (killed: {percent(published.broker_share)} of the brokers)" for kill in kills
    ]
    return "; ".join([*shares, text])


def _readers(findings: Findings) -> Iterator[str]:
    """What was delivered to each group, and how often."""
    plan = findings.plan
    for group in findings.groups:
        again = f"each record once ({findings.duplicate:,} of them stored more than once)"
        once = again if findings.duplicate else "each once"
        twice = f"{group.redelivered:,} of them redelivered" if group.redelivered else once
        for switch in plan.groups if plan else ():
            if switch.group == group.group and switch.read_twice:
                twice += f", {switch.read_twice:,} once more in another cluster"
        never = f", {group.unseen:,} never" if group.unseen else ""
        yield f"{group.group} was delivered {group.delivered_messages:,} messages, {twice}{never}"
    for fault in findings.faults:
        for name, count in fault.stuck.items():
            yield f"{count:,} messages stuck for {name} until after the heal of {fault.id}"
    for topic in findings.resized:
        yield f"{topic.partitions_written:,} of {topic.partitions:,} partitions of {topic.topic} written"


def _slumps(findings: Findings) -> Iterator[str]:
    for slump in findings.rates.slumps:
        yield f"{slump.what} below {number(slump.below_per_s)} per second for up to {slump.longest_s:,} s"


def _stalls(findings: Findings) -> Iterator[str]:
    """The longest time without an acknowledgement of a partition, and until a new leader's first one."""
    gaps = [fault.unavailable_ms for fault in findings.faults if fault.unavailable_ms is not None]
    if gaps:
        longest = milliseconds(max(gaps))
        yield f"no acknowledgement of a partition for up to {longest} after a fault took effect"
    first = [c.first_ack_ns - c.elected_ns for c in findings.leader_changes if c.first_ack_ns is not None]
    if first:
        waited = milliseconds(max(0, *first) / 1e6)
        yield f"first acknowledgement of a new epoch up to {waited} after the election"


def _affected(kill: FaultFindings) -> str:
    return (
        f"{kill.affected:,} of {kill.sent_in_window:,} messages affected ({percent(kill.affected_share)}) "
        f"over {milliseconds(kill.first_ack_after_ms)}"
    )
