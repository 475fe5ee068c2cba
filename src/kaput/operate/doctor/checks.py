"""Every check of the doctor: one function each, with a stable id, from the picture to findings.

A new one is a function here with `@check`, its line in docs/DOCTOR.md, and two tests: one that shows it and
one that shows it absent. Numbers are never given twice. Severities: `critical` loses messages or stops the
service by itself or with one broker's failure; `warning` does with something else; `info` costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from kaput.operate.doctor.survey import INTERNAL, Commit, Group, Partition, Survey, Topic

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
_LAGGING = 1000  # records behind the leader of the quorum


@dataclass(frozen=True)
class Found:
    """One place where a check found something: what it is, what shows it, and the command that mends it."""

    resource: str
    evidence: str
    remedy: str


@dataclass(frozen=True)
class Check:
    """A check; `title` is the sentence why."""

    id: str
    severity: Severity
    title: str
    look: Callable[[Survey], Iterator[Found]]


CHECKS: list[Check] = []


def check(
    number: str, severity: Severity, title: str
) -> Callable[[Callable[[Survey], Iterator[Found]]], Callable[[Survey], Iterator[Found]]]:
    """Registers a check."""

    def register(look: Callable[[Survey], Iterator[Found]]) -> Callable[[Survey], Iterator[Found]]:
        CHECKS.append(Check(number, severity, title, look))
        return look

    return register


@check("KP001", "critical", "one replica only: its broker's disk is all there is of these messages")
def _replication_factor_1(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        alone = [p for p in topic.partitions if len(p.replicas) == 1]
        if alone:
            yield Found(
                f"topic {topic.name}",
                f"{_numbers(alone)} with one replica ({_where(alone)})",
                f"kaput tool reassign-partitions: give {topic.name} more replicas, each on another broker",
            )


@check("KP002", "critical", "all replicas must be in sync for acks=all: one broker down stops writes")
def _no_slack(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        factor = topic.replication_factor
        if factor > 1 and topic.min_isr >= factor:
            yield Found(
                f"topic {topic.name}",
                f"replication factor {factor}, min.insync.replicas {topic.min_isr}",
                _set_topic(topic, "min.insync.replicas", str(factor - 1)),
            )


@check(
    "KP003", "critical", "one in-sync replica is enough: acks=all may be the leader's alone, and lost with it"
)
def _one_is_enough(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        if topic.replication_factor > 1 and topic.min_isr == 1 and not topic.internal:
            yield Found(
                f"topic {topic.name}",
                f"replication factor {topic.replication_factor}, min.insync.replicas 1",
                _set_topic(topic, "min.insync.replicas", "2"),
            )


@check("KP004", "critical", "unclean election is on: a replica that lacks acknowledged messages may lead")
def _unclean(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        if topic.config.get("unclean.leader.election.enable") == "true":
            yield Found(
                f"topic {topic.name}",
                "unclean.leader.election.enable=true",
                _set_topic(topic, "unclean.leader.election.enable", "false"),
            )


@check("KP005", "warning", "topics that nobody says otherwise for are made with one replica")
def _default_factor(survey: Survey) -> Iterator[Found]:
    yield from _of_brokers(survey, "default.replication.factor", "1", "3")


@check("KP006", "warning", "all replicas are in one rack, and go with it")
def _one_rack(survey: Survey) -> Iterator[Found]:
    racks = {broker.id: broker.rack for broker in survey.brokers}
    if len({rack for rack in racks.values() if rack}) < 2:
        return
    for topic in survey.topics:
        together = [
            p
            for p in topic.partitions
            if len(p.replicas) > 1 and len({racks.get(b) for b in p.replicas}) == 1
        ]
        if together:
            yield Found(
                f"topic {topic.name}",
                f"{_numbers(together)}: every replica in rack {racks.get(together[0].replicas[0])}",
                f"kaput tool reassign-partitions: spread {topic.name} over racks",
            )


@check("KP007", "info", "one broker leads far more partitions than the others")
def _unbalanced(survey: Survey) -> Iterator[Found]:
    led = Counter({broker.id: 0 for broker in survey.brokers})
    led.update(p.leader for topic in survey.topics for p in topic.partitions if p.leader is not None)
    total, count = sum(led.values()), len(survey.brokers)
    if count < 2:
        return
    broker, most = led.most_common(1)[0]
    if most > 1.5 * total / count + 1:
        yield Found(
            f"broker {broker}",
            f"leads {most} of {total} partitions; {count} brokers",
            "kaput tool leader-election --election-type preferred --all-topic-partitions",
        )


@check("KP008", "info", "another replica than the preferred one leads")
def _not_preferred(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        others = [p for p in topic.partitions if p.leader is not None and p.leader != p.replicas[0]]
        if others:
            yield Found(
                f"topic {topic.name}",
                f"{_numbers(others)} led by {_ids({p.leader for p in others if p.leader is not None})}",
                "kaput tool leader-election --election-type preferred "
                f"--topic {topic.name} --partition {others[0].number}",
            )


@check("KP009", "warning", "replicas are missing from the ISR now: fewer failures are survived than planned")
def _under_replicated(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        short = [p for p in topic.partitions if p.leader is not None and len(p.isr) < len(p.replicas)]
        if short:
            missing = {broker for p in short for broker in set(p.replicas) - set(p.isr)}
            yield Found(
                f"topic {topic.name}",
                f"{_numbers(short)} without replica {_ids(missing)} in sync",
                f"see to broker {_ids(missing)}: kaput tool topics --describe --under-replicated-partitions",
            )


@check("KP010", "critical", "below min.insync.replicas now: writes with acks=all are refused")
def _below_min_isr(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        below = [p for p in topic.partitions if p.leader is not None and len(p.isr) < topic.min_isr]
        if below:
            yield Found(
                f"topic {topic.name}",
                f"{_numbers(below)}: ISR {_list(below[0].isr)}, min.insync.replicas {topic.min_isr}",
                f"bring back broker {_ids({b for p in below for b in set(p.replicas) - set(p.isr)})}",
            )


@check("KP011", "critical", "offline now: nobody leads, so nothing can be written or read")
def _offline(survey: Survey) -> Iterator[Found]:
    for topic in survey.topics:
        gone = [p for p in topic.partitions if p.leader is None]
        if gone:
            yield Found(
                f"topic {topic.name}",
                f"{_numbers(gone)} without a leader; last in sync: {_list(gone[0].isr)}",
                f"bring back broker {_list(gone[0].isr)}; an unclean election would lose what it alone has",
            )


@check("KP012", "critical", "one controller alone votes: with it goes every election")
def _lone_voter(survey: Survey) -> Iterator[Found]:
    if survey.quorum is not None and len(survey.quorum.voters) == 1:
        yield Found(
            "metadata quorum",
            f"the only voter is {_ids(survey.quorum.voters)}",
            "run three controllers: kafka-metadata-quorum add-controller",
        )


@check("KP013", "warning", "an even number of voters survives no more failures than one voter less")
def _even_voters(survey: Survey) -> Iterator[Found]:
    if survey.quorum is not None and len(survey.quorum.voters) % 2 == 0:
        yield Found(
            "metadata quorum",
            f"{len(survey.quorum.voters)} voters: {_ids(survey.quorum.voters)}",
            "add or remove one: kafka-metadata-quorum add-controller, remove-controller",
        )


@check("KP014", "warning", "a voter lags behind: it cannot take over, and does not count in a majority")
def _lagging_voter(survey: Survey) -> Iterator[Found]:
    if survey.quorum is None:
        return
    end = survey.quorum.voters.get(survey.quorum.leader) or 0
    for voter, offset in sorted(survey.quorum.voters.items()):
        if offset is None or end - offset > _LAGGING:
            behind = "never heard of" if offset is None else f"{end - offset:,} records behind"
            yield Found(f"controller {voter}", behind, f"see to controller {voter}")


@check("KP015", "critical", "the group's oldest unread records are about to be deleted by age")
def _outlived(survey: Survey) -> Iterator[Found]:
    for group, commit in _commits(survey):
        unread = max(commit.committed, commit.start)
        if commit.aged is not None and unread < min(commit.aged, commit.end):
            yield Found(
                _place(group, commit),
                f"{min(commit.aged, commit.end) - unread:,} unread are older than 80 % of retention.ms",
                f"kaput tool configs --alter --topic {commit.topic} --add-config retention.ms=MORE",
            )


@check("KP016", "warning", "a topic with a mistyped name is made by itself, with the defaults")
def _auto_create(survey: Survey) -> Iterator[Found]:
    yield from _of_brokers(survey, "auto.create.topics.enable", "true", "false")


@check("KP017", "critical", "acks below all: what the leader alone has is acknowledged, and may be lost")
def _acks(survey: Survey) -> Iterator[Found]:
    acks = None if survey.client is None else survey.client.get("acks")
    if acks is not None and acks not in ("all", "-1"):
        yield Found("client", f"acks={acks}", "set acks=all in the client's settings")


@check(
    "KP018",
    "warning",
    "several requests in flight without idempotence: retries reorder and double",
)
def _not_idempotent(survey: Survey) -> Iterator[Found]:
    if survey.client is None or survey.client.get("enable.idempotence", "true") == "true":
        return
    in_flight = survey.client.get("max.in.flight.requests.per.connection", "5")
    if in_flight != "1" and survey.client.get("retries") != "0":
        yield Found(
            "client",
            f"enable.idempotence=false, max.in.flight.requests.per.connection={in_flight}",
            "set enable.idempotence=true in the client's settings",
        )


@check("KP019", "warning", "nobody reads for this group, and its lag grows")
def _abandoned(survey: Survey) -> Iterator[Found]:
    for group in survey.groups:
        lag = sum(commit.lag for commit in group.commits)
        if not group.has_members and lag:
            yield Found(
                f"group {group.id}",
                f"no member, lag {lag:,}",
                f"start its members, or forget it: kaput tool consumer-groups --delete --group {group.id}",
            )


@check("KP020", "critical", "the group's next records were deleted before it read them")
def _deleted_unread(survey: Survey) -> Iterator[Found]:
    for group, commit in _commits(survey):
        if commit.committed < commit.start:
            yield Found(
                _place(group, commit),
                f"committed offset {commit.committed:,}, but the log starts at {commit.start:,}",
                f"decide where to go on: kaput tool consumer-groups --reset-offsets --group {group.id} "
                f"--topic {commit.topic} --to-earliest --dry-run",
            )


@check("KP021", "warning", "one of Kafka's own topics will be made with one replica")
def _internal_factors(survey: Survey) -> Iterator[Found]:
    there = {topic.name for topic in survey.topics}
    for name, setting in INTERNAL.items():
        if name not in there:
            yield from _of_brokers(survey, setting, "1", "3", of=f" ({name})")


def _of_brokers(survey: Survey, setting: str, bad: str, good: str, of: str = "") -> Iterator[Found]:
    """One finding for all brokers whose setting is bad."""
    brokers = [broker.id for broker in survey.brokers if broker.config.get(setting) == bad]
    if brokers:
        which = "every broker" if len(brokers) == len(survey.brokers) else f"broker {_list(brokers)}"
        yield Found(f"{which}{of}", f"{setting}={bad}", f"set {setting}={good} in server.properties")


def _set_topic(topic: Topic, key: str, value: str) -> str:
    return f"kaput tool configs --alter --topic {topic.name} --add-config {key}={value}"


def _commits(survey: Survey) -> Iterator[tuple[Group, Commit]]:
    for group in survey.groups:
        for commit in group.commits:
            yield group, commit


def _place(group: Group, commit: Commit) -> str:
    return f"group {group.id}, {commit.topic}/{commit.partition}"


def _numbers(partitions: list[Partition]) -> str:
    some = ", ".join(str(partition.number) for partition in partitions[:5])
    more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {some}{more}"


def _where(partitions: list[Partition]) -> str:
    return f"broker {_ids({broker for partition in partitions for broker in partition.replicas})}"


def _ids(ids: object) -> str:
    return _list(sorted(ids))  # type: ignore[call-overload]


def _list(ids: object) -> str:
    return ", ".join(map(str, ids)) or "none"  # type: ignore[call-overload]
