"""All checks of the doctor: each a function from a snapshot to findings, with a stable id.

A new check is a function with `@check` here, its line in docs/DOCTOR.md, and two snapshots in its test: one
with the problem, one without. Numbers are never reused. Severities: `critical` loses messages or stops the
service by itself or with one broker's failure, `warning` together with another problem, `info` costs
performance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from kaput.cluster.admin.requests import THROTTLED_RATES, THROTTLED_REPLICAS
from kaput.cluster.admin.resources import AccessRule
from kaput.core import first_few, plural
from kaput.operate.doctor.snapshot import (
    INTERNAL,
    ClusterSnapshot,
    Commit,
    GroupSnapshot,
    OpenTransaction,
    Replicas,
    TopicState,
)

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Hit:
    """One finding of a check: the resource, the evidence, and the command that fixes it."""

    resource: str
    evidence: str
    remedy: str


Look = Callable[[ClusterSnapshot], Iterator[Hit]]


@dataclass(frozen=True)
class DoctorCheck:
    """A check; `title`: the risk; `look`: finds the hits in a snapshot."""

    id: str
    severity: Severity
    title: str
    look: Look


CHECKS: list[DoctorCheck] = []


def check(number: str, severity: Severity, title: str) -> Callable[[Look], Look]:
    """Registers a check."""

    def register(look: Look) -> Look:
        CHECKS.append(DoctorCheck(number, severity, title, look))
        return look

    return register


def numbers(partitions: list[Replicas]) -> str:
    """`partitions 0, 1, 2`, with at most five numbers."""
    some = first_few([partition.number for partition in partitions], 5)
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {some}"


def ids(numbers: Iterable[int]) -> str:
    """The numbers sorted, as `1, 2`; `none` if there are none."""
    return listed(sorted(numbers))


def listed(numbers: Iterable[int]) -> str:
    """The numbers in the given order; `none` if there are none."""
    return ", ".join(map(str, numbers)) or "none"


def _topics_with(
    snapshot: ClusterSnapshot, wrong: Callable[[Replicas], bool]
) -> Iterator[tuple[TopicState, list[Replicas]]]:
    """The topics that have such partitions, and those."""
    for topic in snapshot.topics:
        if found := [partition for partition in topic.partitions if wrong(partition)]:
            yield topic, found


SAFE_REPLICAS = 3  # one replica may be down, and another one lost


@check("KP001", "critical", "one replica only: if its broker's disk fails, the messages are lost")
def _replication_factor_1(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic, alone in _topics_with(snapshot, lambda p: len(p.replicas) == 1):
        brokers = ids({broker for partition in alone for broker in partition.replicas})
        evidence = f"{numbers(alone)} with one replica (broker {brokers})"
        yield Hit(f"topic {topic.name}", evidence, _more_replicas(snapshot, topic))


@check("KP002", "critical", "all replicas must be in sync for acks=all: one broker down stops writes")
def _no_slack(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        factor = topic.replication_factor
        if factor > 1 and topic.min_isr >= factor:
            yield Hit(
                f"topic {topic.name}",
                f"replication factor {factor}, min.insync.replicas {topic.min_isr}",
                min_isr_fix(snapshot, topic),
            )


@check(
    "KP003", "critical", "one in-sync replica is enough: with acks=all a message may be lost with the leader"
)
def _min_isr_1(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        if topic.replication_factor > 1 and topic.min_isr == 1 and not topic.internal:
            yield Hit(
                f"topic {topic.name}",
                f"replication factor {topic.replication_factor}, min.insync.replicas 1",
                min_isr_fix(snapshot, topic),
            )


@check(
    "KP004",
    "critical",
    "unclean election is on: a replica without all acknowledged messages may become leader",
)
def _unclean(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        if topic.config.get("unclean.leader.election.enable") == "true":
            yield Hit(
                f"topic {topic.name}",
                "unclean.leader.election.enable=true",
                _set_topic(topic, "unclean.leader.election.enable", "false"),
            )


@check("KP005", "warning", "topics are created with one replica by default")
def _default_factor(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    yield from _broker_setting(snapshot, "default.replication.factor", "1", "3")


@check("KP006", "warning", "all replicas are in one rack, and fail with it")
def _one_rack(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    racks = {broker.id: broker.rack for broker in snapshot.brokers}
    if len({rack for rack in racks.values() if rack}) < 2:
        return

    def in_one(partition: Replicas) -> bool:
        return len(partition.replicas) > 1 and len({racks.get(b) for b in partition.replicas}) == 1

    for topic, together in _topics_with(snapshot, in_one):
        yield Hit(
            f"topic {topic.name}",
            f"{numbers(together)}: every replica in rack {racks.get(together[0].replicas[0])}",
            f"kaput reassign --spread-racks --topic {topic.name}",
        )


@check("KP016", "warning", "a mistyped topic name creates a topic with the default settings")
def _auto_create(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    yield from _broker_setting(snapshot, "auto.create.topics.enable", "true", "false")


@check(
    "KP017",
    "critical",
    "acks is not all: the leader acknowledges messages that only it has, and they may be lost",
)
def _acks(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    acks = None if snapshot.client is None else snapshot.client.get("acks")
    if acks is not None and acks not in ("all", "-1"):
        yield Hit("client", f"acks={acks}", "set acks=all in the client's settings")


@check(
    "KP018",
    "warning",
    "several requests in flight without idempotence: retries may reorder or duplicate messages",
)
def _not_idempotent(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.client is None or snapshot.client.get("enable.idempotence", "true") == "true":
        return
    in_flight = snapshot.client.get("max.in.flight.requests.per.connection", "5")
    if in_flight != "1" and snapshot.client.get("retries") != "0":
        yield Hit(
            "client",
            f"enable.idempotence=false, max.in.flight.requests.per.connection={in_flight}",
            "set enable.idempotence=true in the client's settings",
        )


@check("KP021", "warning", "an internal topic will be created with one replica")
def _internal_factors(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    existing = {topic.name for topic in snapshot.topics}
    for name, setting in INTERNAL.items():
        if name not in existing:
            yield from _broker_setting(snapshot, setting, "1", "3", of=f" ({name})")


def _broker_setting(
    snapshot: ClusterSnapshot, setting: str, bad: str, good: str, of: str = ""
) -> Iterator[Hit]:
    """One hit for all brokers with the bad setting."""
    brokers = [broker.id for broker in snapshot.brokers if broker.config.get(setting) == bad]
    if brokers:
        which = "every broker" if len(brokers) == len(snapshot.brokers) else f"broker {listed(brokers)}"
        yield Hit(f"{which}{of}", f"{setting}={bad}", f"set {setting}={good} in server.properties")


def min_isr_fix(snapshot: ClusterSnapshot, topic: TopicState) -> str:
    """The command for three replicas and a min.insync.replicas above 1 and below their number."""
    least = str(min(max(topic.min_isr, 2), max(topic.replication_factor, SAFE_REPLICAS) - 1))
    steps = [] if topic.replication_factor >= SAFE_REPLICAS else [_more_replicas(snapshot, topic)]
    if least != str(topic.min_isr):
        steps.append(_set_topic(topic, "min.insync.replicas", least))
    return " && ".join(steps)


def _more_replicas(snapshot: ClusterSnapshot, topic: TopicState) -> str:
    lacking = SAFE_REPLICAS - len(snapshot.brokers) - len(snapshot.missing)
    first = f"bring back broker {ids(snapshot.missing)}, then: " if snapshot.missing else ""
    first += (
        f"add brokers until there are {SAFE_REPLICAS} (kaput grow {lacking}), then: " if lacking > 0 else ""
    )
    return f"{first}kaput reassign --replication-factor {SAFE_REPLICAS} --topic {topic.name}"


def _set_topic(topic: TopicState, key: str, value: str) -> str:
    return f"kaput tool configs --alter --topic {topic.name} --add-config {key}={value}"


_LAGGING = 1000  # records behind the quorum's leader


@check("KP007", "info", "one broker leads far more partitions than the others")
def _unbalanced(snapshot: ClusterSnapshot) -> Iterator[Hit]:
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
def _not_preferred(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic, others in _topics_with(snapshot, lambda p: p.leader not in (None, p.replicas[0])):
        yield Hit(
            f"topic {topic.name}",
            f"{numbers(others)} led by {ids({p.leader for p in others if p.leader is not None})}",
            "kaput tool leader-election --election-type preferred "
            f"--topic {topic.name} --partition {others[0].number}",
        )


@check("KP009", "warning", "replicas are missing from the ISR: it survives fewer failures than planned")
def _under_replicated(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic, short in _topics_with(snapshot, lambda p: p.leader is not None and bool(p.lacking)):
        missing = ids({broker for p in short for broker in p.lacking})
        yield Hit(
            f"topic {topic.name}",
            f"{numbers(short)} without replica {missing} in sync",
            f"check broker {missing}: kaput tool topics --describe --under-replicated-partitions",
        )


@check("KP010", "critical", "below min.insync.replicas: writes with acks=all are rejected")
def _below_min_isr(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        # Brokers require no more replicas than there are.
        led = [p for p in topic.partitions if p.leader is not None]
        below = [p for p in led if len(p.isr) < min(topic.min_isr, len(p.replicas))]
        if below:
            away = {broker for p in below for broker in p.lacking}
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(below)}: ISR {listed(below[0].isr)}, min.insync.replicas {topic.min_isr}",
                f"bring back broker {ids(away)}",
            )


@check("KP011", "critical", "offline: no leader, so nothing can be written or read")
def _offline(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    alive = {broker.id for broker in snapshot.brokers}
    for topic, gone in _topics_with(snapshot, lambda p: p.leader is None):
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
def _lone_voter(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.quorum is not None and len(snapshot.quorum.voters) == 1:
        yield Hit(
            "metadata quorum",
            f"the only voter is {ids(snapshot.quorum.voters)}",
            "run three controllers: kafka-metadata-quorum add-controller",
        )


@check("KP013", "warning", "an even number of voters survives no more failures than one fewer")
def _even_voters(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.quorum is not None and len(snapshot.quorum.voters) % 2 == 0:
        yield Hit(
            "metadata quorum",
            f"{len(snapshot.quorum.voters)} voters: {ids(snapshot.quorum.voters)}",
            "add or remove one: kafka-metadata-quorum add-controller, remove-controller",
        )


@check("KP014", "warning", "a voter lags behind: it cannot take over, and does not count in a majority")
def _lagging_voter(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.quorum is None:
        return
    end = snapshot.quorum.voters.get(snapshot.quorum.leader) or 0
    for voter, offset in sorted(snapshot.quorum.voters.items()):
        if offset is None or end - offset > _LAGGING:
            behind = "has never reported" if offset is None else f"{end - offset:,} records behind"
            yield Hit(f"controller {voter}", behind, f"check controller {voter}")


@check(
    "KP028",
    "critical",
    "no controller: no leader is elected, no broker can come back, nothing can be changed",
)
def _no_controller(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.no_controller:
        yield Hit(
            "metadata quorum",
            "no broker that answers reaches a leader of it",
            "start controllers until a majority runs; their logs tell why they ended",
        )


@check("KP015", "critical", "the group's oldest unread records are about to be deleted by age")
def _outlived(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for _, commit, place in _commits(snapshot):
        if commit.lag and commit.aged is not None and commit.unread < min(commit.aged, commit.end):
            yield Hit(
                place,
                f"{min(commit.aged, commit.end) - commit.unread:,} unread records are older than 80 % of "
                "retention.ms",
                f"kaput tool configs --alter --topic {commit.topic} --add-config retention.ms=MORE",
            )


@check("KP019", "warning", "the group has no members, and records wait for it")
def _abandoned(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for group in snapshot.groups:
        lag = sum(commit.lag for commit in group.commits)
        if not group.has_members and lag:
            yield Hit(
                f"group {group.id}",
                f"no member, {plural(lag, 'offset')} from its commits to the end",
                f"start its members, or delete it: kaput tool consumer-groups --delete --group {group.id}",
            )


@check("KP020", "critical", "the group's next records were deleted before it read them")
def _deleted_unread(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for group, commit, place in _commits(snapshot):
        if commit.committed < commit.start:
            yield Hit(
                place,
                f"committed offset {commit.committed:,}, but the log starts at {commit.start:,}",
                f"decide where to continue: kaput tool consumer-groups --reset-offsets --group {group.id} "
                f"--topic {commit.topic} --to-earliest --dry-run",
            )


_SILENT_S = 60


@check("KP024", "critical", "an open transaction without new records holds back every read_committed reader")
def _open_transaction(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    for each in snapshot.transactions:
        if each.silent_s < _SILENT_S:
            continue
        whose, remedy = _whose(each)
        yield Hit(
            f"{each.topic}/{each.partition}, producer id {each.producer_id}",
            f"open since offset {each.start:,}, no record for {each.silent_s:,.0f} s, "
            f"{plural(each.held_back, 'offset')} held back; {whose}",
            remedy,
        )


def _whose(transaction: OpenTransaction) -> tuple[str, str]:
    """Who has to end a transaction, and what to do about it."""
    name = transaction.transactional_id
    if name is None and not transaction.all_asked:
        return (
            "its coordinator may be one of those without a leader",
            "bring back the leaders of __transaction_state (KP011), and check again before you abort it",
        )
    if name is None:
        place = f"--topic {transaction.topic} --partition {transaction.partition}"
        return (
            "its coordinator has no open transaction, so it never ends",
            f"kaput tool transactions abort {place} --start-offset {transaction.start}",
        )
    describe = f"kaput tool transactions describe --transactional-id {name}"
    if transaction.decided:
        return (
            f"transactional id {name}, whose end is decided and has not arrived here",
            f"find out why its coordinator does not reach the leader here; which one it is: {describe}",
        )
    return (
        f"transactional id {name}",
        "start its producer again, which aborts it, or wait for its transaction.timeout.ms; "
        f"what it is: {describe}",
    )


_SUPER = "unless it is a super user"  # their names are hidden from clients


@check("KP025", "warning", "an ACL denies what another one allows: the denial wins")
def _denied(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    allowed = [rule for rule in snapshot.rules if rule.permission == "Allow"]
    for deny in sorted(snapshot.rules - set(allowed)):
        for resource, name in _resources(snapshot):
            for principal, rule in sorted((_narrower(deny.principal, a.principal), a) for a in allowed):
                if _covers(deny, resource, name) and _covers(rule, resource, name) and _meet(deny, rule):
                    yield Hit(
                        f"{resource} {name}, {principal}",
                        f"allowed: {_ruled(rule)}; denied, {_SUPER}: {_ruled(deny)}",
                        f"remove the one that is wrong: kaput tool acls --list --{resource} {name}",
                    )
                    break


@check("KP026", "info", "a user may read topics, but as a member of no group")
def _no_group(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    reads = [r for r in snapshot.rules if r.permission == "Allow" and r.operation in ("Read", "All")]
    in_groups = {rule.principal for rule in reads if rule.resource == "group"}
    for rule in sorted(reads):
        if rule.resource == "topic" and not in_groups & {rule.principal, _EVERYBODY}:
            yield Hit(
                f"{rule.principal}, topic {rule.name}",
                f"allowed: {_ruled(rule)}; no ACL allows it Read on any group: refused there, {_SUPER} or "
                "allow.everyone.if.no.acl.found is on",
                f"kaput tool acls --add --allow-principal {rule.principal} --operation Read --group GROUP",
            )


@check("KP027", "warning", "one message of the largest size exceeds a quota: its client has to wait")
def _small_quota(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    configs = [broker.config for broker in snapshot.brokers]
    largest = min((int(config.get("message.max.bytes", 0)) for config in configs), default=0)
    # Kafka takes the mean of at least all whole samples.
    samples = max((int(config.get("quota.window.num", 11)) for config in configs), default=11) - 1
    window_s = samples * max((int(c.get("quota.window.size.seconds", 1)) for c in configs), default=1)
    for entity, quotas in sorted(snapshot.quotas.items()):
        for key in ("producer_byte_rate", "consumer_byte_rate"):
            if key in quotas and quotas[key] * window_s < largest:
                yield Hit(
                    entity,
                    f"{key} is {quotas[key]:,.0f} bytes a second at each broker: a message of "
                    f"message.max.bytes ({largest:,}) is the quota of {largest / quotas[key]:,.1f} s, and "
                    f"Kafka takes the mean of {window_s} s",
                    "raise it: kaput tool configs --alter --entity-type ... --add-config "
                    f"{key}=MORE ({entity})",
                )


_EVERYBODY = "User:*"


def _resources(snapshot: ClusterSnapshot) -> list[tuple[str, str]]:
    topics = [("topic", topic.name) for topic in snapshot.topics if not topic.internal]
    return [*topics, *(("group", group.id) for group in snapshot.groups)]


def _covers(rule: AccessRule, resource: str, name: str) -> bool:
    prefixed = rule.pattern == "prefixed" and name.startswith(rule.name)
    return rule.resource == resource and (rule.name in (name, "*") or prefixed)


def _meet(deny: AccessRule, rule: AccessRule) -> bool:
    """Whether something that `rule` allows is denied."""
    pairs = ((deny.principal, rule.principal, _EVERYBODY), (deny.host, rule.host, "*"))
    same = all(one == other or every in (one, other) for one, other, every in pairs)
    return same and (deny.operation == rule.operation or "All" in (deny.operation, rule.operation))


def _narrower(one: str, other: str) -> str:
    return other if one == _EVERYBODY else one


def _ruled(rule: AccessRule) -> str:
    """An ACL in words."""
    where = f"{rule.resource} {rule.name}{'... (prefix)' if rule.pattern == 'prefixed' else ''}"
    host = "" if rule.host == "*" else f" from {rule.host}"
    return f"{rule.operation} on {where} for {rule.principal}{host}"


def _commits(snapshot: ClusterSnapshot) -> Iterator[tuple[GroupSnapshot, Commit, str]]:
    """Each group's commits, and where they are, in words."""
    for group in snapshot.groups:
        for commit in group.commits:
            yield group, commit, f"group {group.id}, {commit.topic}/{commit.partition}"


_RESUME = "kaput reassign --resume"


@check(
    "KP022",
    "warning",
    "replication is throttled while nothing is being moved: replicas that fall behind catch up slowly",
)
def _throttled(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.moving:
        return
    rates: dict[str, list[int]] = {}
    for broker in snapshot.brokers:
        if broker.throttles:
            rates.setdefault(_settings(broker.throttles), []).append(broker.id)
    for settings, brokers in sorted(rates.items()):
        which = "every broker" if len(brokers) == len(snapshot.brokers) else f"broker {ids(brokers)}"
        keys = tuple(setting.partition("=")[0] for setting in settings.split(", "))
        remove = [_remove(f"--broker {broker}", keys) for broker in brokers]
        evidence = f"{settings}{_idle_rates(snapshot, keys)}"
        yield Hit(which, evidence, _RESUME if snapshot.interrupted else " && ".join(remove))
    defaults = {key: rate for broker in snapshot.brokers for key, rate in broker.default_throttles.items()}
    if defaults:
        yield Hit(
            "all brokers by default",
            f"{_settings(defaults)}{_idle_rates(snapshot, tuple(defaults))}",
            _remove("--broker-defaults", tuple(defaults)),
        )
    for topic in snapshot.topics:
        if topic.throttles:
            remedy = _RESUME if snapshot.interrupted else _remove(f"--topic {topic.name}", THROTTLED_REPLICAS)
            settings = f"{_settings(topic.throttles)}{_idle_lists(snapshot, topic)}"
            yield Hit(f"topic {topic.name}", settings, remedy)


# A throttle has two halves: a broker's rate slows only the replicas that topics list for the same side,
# leaders or followers.


def _idle_rates(snapshot: ClusterSnapshot, keys: Sequence[str]) -> str:
    """The sides whose rate slows nothing, if any."""
    listed = {_side(key) for topic in snapshot.topics for key in topic.throttles}
    idle = sorted({_side(key) for key in keys if key in THROTTLED_RATES} - listed)
    return f" (no topic lists {' or '.join(idle)} replicas: none is slowed until one does)" if idle else ""


def _idle_lists(snapshot: ClusterSnapshot, topic: TopicState) -> str:
    """The sides whose list slows nothing, if any."""
    rates = {key for broker in snapshot.brokers for key in (*broker.throttles, *broker.default_throttles)}
    idle = sorted({_side(key) for key in topic.throttles} - {_side(key) for key in rates})
    return (
        f" (no broker has a {' or '.join(idle)} rate: nothing is slowed until one gets one)" if idle else ""
    )


def _side(setting: str) -> str:
    """leader or follower, the first word of a throttle's setting."""
    return setting.partition(".")[0]


@check("KP023", "warning", "a reassignment was interrupted: it is neither finished nor undone")
def _interrupted(snapshot: ClusterSnapshot) -> Iterator[Hit]:
    if snapshot.interrupted is not None:
        throttle = snapshot.interrupted.throttle
        rate = (
            "without a throttle" if throttle is None else f"with a throttle of {throttle:,} bytes per second"
        )
        yield Hit(
            "reassignment",
            f"{snapshot.interrupted.partitions} partitions were to be reassigned, {rate}",
            f"{_RESUME}; to undo it: kaput reassign --rollback {snapshot.interrupted.rollback}",
        )


def _settings(throttles: dict[str, str]) -> str:
    return ", ".join(f"{key}={_shortened(value)}" for key, value in throttles.items())


def _shortened(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:40].rpartition(',')[0]},..."


def _remove(entity: str, keys: tuple[str, ...]) -> str:
    return f"kaput tool configs --alter {entity} --delete-config {','.join(keys)}"
