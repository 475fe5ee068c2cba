"""Checks of the settings of topics, brokers and a client: risks that show when something fails."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.operate.doctor.check import Hit, check, ids, listed, numbers
from kaput.operate.doctor.snapshot import INTERNAL, Replicas, Snapshot, TopicState

SAFE_REPLICAS = 3  # one replica may be down, and another one lost


@check("KP001", "critical", "one replica only: if its broker's disk fails, the messages are lost")
def _replication_factor_1(snapshot: Snapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        alone = [p for p in topic.partitions if len(p.replicas) == 1]
        if alone:
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(alone)} with one replica ({_replica_brokers(alone)})",
                _more_replicas(snapshot, topic),
            )


@check("KP002", "critical", "all replicas must be in sync for acks=all: one broker down stops writes")
def _no_slack(snapshot: Snapshot) -> Iterator[Hit]:
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
def _min_isr_1(snapshot: Snapshot) -> Iterator[Hit]:
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
def _unclean(snapshot: Snapshot) -> Iterator[Hit]:
    for topic in snapshot.topics:
        if topic.config.get("unclean.leader.election.enable") == "true":
            yield Hit(
                f"topic {topic.name}",
                "unclean.leader.election.enable=true",
                _set_topic(topic, "unclean.leader.election.enable", "false"),
            )


@check("KP005", "warning", "topics are created with one replica by default")
def _default_factor(snapshot: Snapshot) -> Iterator[Hit]:
    yield from _broker_setting(snapshot, "default.replication.factor", "1", "3")


@check("KP006", "warning", "all replicas are in one rack, and fail with it")
def _one_rack(snapshot: Snapshot) -> Iterator[Hit]:
    racks = {broker.id: broker.rack for broker in snapshot.brokers}
    if len({rack for rack in racks.values() if rack}) < 2:
        return
    for topic in snapshot.topics:
        together = [
            p
            for p in topic.partitions
            if len(p.replicas) > 1 and len({racks.get(b) for b in p.replicas}) == 1
        ]
        if together:
            yield Hit(
                f"topic {topic.name}",
                f"{numbers(together)}: every replica in rack {racks.get(together[0].replicas[0])}",
                f"kaput reassign --spread-racks --topic {topic.name}",
            )


@check("KP016", "warning", "a mistyped topic name creates a topic with the default settings")
def _auto_create(snapshot: Snapshot) -> Iterator[Hit]:
    yield from _broker_setting(snapshot, "auto.create.topics.enable", "true", "false")


@check(
    "KP017",
    "critical",
    "acks is not all: the leader acknowledges messages that only it has, and they may be lost",
)
def _acks(snapshot: Snapshot) -> Iterator[Hit]:
    acks = None if snapshot.client is None else snapshot.client.get("acks")
    if acks is not None and acks not in ("all", "-1"):
        yield Hit("client", f"acks={acks}", "set acks=all in the client's settings")


@check(
    "KP018",
    "warning",
    "several requests in flight without idempotence: retries may reorder or duplicate messages",
)
def _not_idempotent(snapshot: Snapshot) -> Iterator[Hit]:
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
def _internal_factors(snapshot: Snapshot) -> Iterator[Hit]:
    existing = {topic.name for topic in snapshot.topics}
    for name, setting in INTERNAL.items():
        if name not in existing:
            yield from _broker_setting(snapshot, setting, "1", "3", of=f" ({name})")


def _broker_setting(snapshot: Snapshot, setting: str, bad: str, good: str, of: str = "") -> Iterator[Hit]:
    """One hit for all brokers with the bad setting."""
    brokers = [broker.id for broker in snapshot.brokers if broker.config.get(setting) == bad]
    if brokers:
        which = "every broker" if len(brokers) == len(snapshot.brokers) else f"broker {listed(brokers)}"
        yield Hit(f"{which}{of}", f"{setting}={bad}", f"set {setting}={good} in server.properties")


def min_isr_fix(snapshot: Snapshot, topic: TopicState) -> str:
    """The command for three replicas and a min.insync.replicas above 1 and below their number."""
    least = str(min(max(topic.min_isr, 2), max(topic.replication_factor, SAFE_REPLICAS) - 1))
    steps = [] if topic.replication_factor >= SAFE_REPLICAS else [_more_replicas(snapshot, topic)]
    if least != str(topic.min_isr):
        steps.append(_set_topic(topic, "min.insync.replicas", least))
    return " && ".join(steps)


def _more_replicas(snapshot: Snapshot, topic: TopicState) -> str:
    lacking = SAFE_REPLICAS - len(snapshot.brokers) - len(snapshot.missing)
    first = f"bring back broker {ids(snapshot.missing)}, then: " if snapshot.missing else ""
    first += (
        f"add brokers until there are {SAFE_REPLICAS} (kaput grow {lacking}), then: " if lacking > 0 else ""
    )
    return f"{first}kaput reassign --replication-factor {SAFE_REPLICAS} --topic {topic.name}"


def _set_topic(topic: TopicState, key: str, value: str) -> str:
    return f"kaput tool configs --alter --topic {topic.name} --add-config {key}={value}"


def _replica_brokers(partitions: list[Replicas]) -> str:
    return f"broker {ids({broker for partition in partitions for broker in partition.replicas})}"
