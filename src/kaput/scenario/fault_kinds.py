"""Every fault, as scenarios know it: its word, what it may hit, its options, and what it needs of a cluster.

A new fault is an entry of KINDS here, and a file of its name in faults/, which has what it does. The keys of
a step (steps.py), the checks, the lists in messages and pages all follow from this list.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from kaput.core import NEWEST_KAFKA
from kaput.scenario.apis import API_KEYS, ERROR_CODES, ERRORS_OF
from kaput.scenario.block import Block, Found
from kaput.scenario.clients import no_command_line
from kaput.scenario.cluster import Cluster
from kaput.scenario.nearest import hint, nearest
from kaput.scenario.targets import (
    CLUSTER,
    CLUSTERS,
    MEMBERS,
    MIRROR,
    NODES,
    PRODUCER,
    STORE,
    TOPIC,
    Peers,
    Target,
)
from kaput.scenario.values import (
    Bandwidth,
    Config,
    Count,
    DurationMs,
    DurationOrZeroMs,
    Goal,
    OffsetMs,
    Percent,
    Position,
    Positive,
    format_duration,
    position_ms,
)

PLACEHOLDERS = ("broker", "host", "port", "topic", "partition")
_OF_PARTITIONS = ("topic", "partition")
_BRACED = re.compile(r"\{(\w+)\}")


def mistakes_in(line: str, target: Target) -> list[str]:
    if wrong := no_command_line(line):
        return [wrong]
    found = []
    for word in _BRACED.findall(line):
        if word in _OF_PARTITIONS and target.place is None:
            found.append(f"{{{word}}} exists only for targets such as leader-of T/P")
        # Other braces belong to the command, unless one looks like a typo of a placeholder.
        elif word not in PLACEHOLDERS and (near := nearest(word, PLACEHOLDERS)):
            found.append(f"there is no placeholder {{{word}}}; did you mean {{{near[0]}}}?")
    return found


def filled_in(line: str, known: dict[str, str]) -> list[str]:
    """The words of a command line, with values for placeholders such as `{broker}`. Values are filled in word
    by word: they are never split, and no shell interprets them.
    """
    return [_BRACED.sub(lambda found: known.get(found[1], found[0]), word) for word in shlex.split(line)]


Direction = Literal["both", "in", "out"]
How = Literal["drop", "reject"]
Side = Literal["both", "target", "others"]
What = Literal["delay", "drop-request", "drop-response", "disconnect", "error", "duplicate"]
MIN_PAGE_CACHE_MB = 16  # 4 MiB made a broker shut down, since its log directory had failed


def default(text: Any) -> Any:
    """A default as it is written in the file."""
    return Field(text, validate_default=True)


def default_from(word: str) -> Any:
    """The same for `from`, which is no name in Python."""
    return Field(word, alias="from", validate_default=True)


class About(NamedTuple):
    """The description of an option that several faults have."""

    text: str


Others = Annotated[
    Peers,
    About("The other side of a network fault: `controllers`, `clients`, `broker 1`, ..., or a list of them."),
]
Way = Annotated[Direction, About("Traffic to the target (`in`), from it (`out`), or `both`.")]
Blocking = Annotated[
    How, About("Packets are dropped (`drop`), or rejected with an error to their sender (`reject`).")
]
ShareOf = Annotated[
    Percent,
    About("The percentage of packets that are lost, or of the time in which a process gets the CPUs."),
]
DelayMs = Annotated[
    DurationMs, About("The delay of everything the target sends or, with fault: protocol, of requests to it.")
]


class Options(Block):
    """The options of a fault: keys of its step. This one is for faults that have none."""

    def mistakes(self, target: Target) -> Found:
        """Mistakes between the options, or between them and the target."""
        yield from ()

    @property
    def parties(self) -> tuple[str, ...]:
        """The words of `from`; none if the fault does not have it."""
        return tuple(getattr(self, "from_", None) or ())


class CpuPressureOptions(Options):
    percent: ShareOf = default(20)

    def mistakes(self, target: Target) -> Found:
        if not 1 <= self.percent <= 90:
            yield ("percent",), "write 1 to 90 percent of the CPUs' time"


class ClockSkewOptions(Options):
    offset: OffsetMs = default("5m")
    """How far the clock is ahead, or behind where negative (-5m)."""


class MemoryPressureOptions(Options):
    page_cache_mb: Count = 32
    """MiB of page cache left to a process under memory pressure."""

    def mistakes(self, target: Target) -> Found:
        if self.page_cache_mb < MIN_PAGE_CACHE_MB:
            why = "with less the kernel refuses a broker's writes, and its disk counts as failed"
            yield ("page-cache-mb",), f"write {MIN_PAGE_CACHE_MB} or more: {why}"


class IsolateOptions(Options):
    how: Blocking = "drop"
    from_: Others | None = Field(None, alias="from")  # only for a whole cluster

    def mistakes(self, target: Target) -> Found:
        if self.from_ is not None and target.hits != CLUSTERS:
            yield ("from",), "isolate takes no from, unless it hits cluster NAME; cut does"


class CutOptions(Options):
    from_: Others = default_from("all-nodes")
    direction: Way = "both"
    how: Blocking = "drop"


class PartitionOptions(Options):
    clients_with: Side = "both"
    """Which side of a partition clients still reach: the `target`, the `others`, or `both`."""
    how: Blocking = "drop"

    def mistakes(self, target: Target) -> Found:
        if target.kind == "all":
            yield ("target",), "with all brokers on one side the other is empty; write minority, or broker N"


class FlapOptions(CutOptions):
    down: DurationMs = default("5s")
    """How long each cut of a flapping link lasts."""
    up: DurationMs = default("5s")
    """How long a flapping link works between cuts."""


class LossOptions(Options):
    from_: Others = default_from("everybody")
    direction: Way = "both"
    percent: ShareOf = default(10)


class ResetOptions(Options):
    from_: Others = default_from("everybody")


class BandwidthOptions(Options):
    rate: Bandwidth = "12mbit"
    """The remaining bandwidth, such as 12mbit."""
    direction: Way = "both"


class DelayOptions(Options):
    from_: Others = default_from("everybody")
    delay: DelayMs = default("250ms")
    jitter: DurationOrZeroMs = default("50ms")
    """How much the delay varies, up and down."""

    def mistakes(self, target: Target) -> Found:
        if self.jitter > self.delay:
            yield ("jitter",), f"more than the delay of {format_duration(self.delay)}"


class ProtocolOptions(Options):
    from_: Others = default_from("clients")
    api: str | None = None
    """Which requests to the target, by Kafka's name: EndTxn, Produce, FindCoordinator, ..."""
    what: What = "delay"
    """What is done to them. disconnect: instead of being delivered; error: the proxy answers."""
    delay: DelayMs | None = None
    nth: Positive | None = None
    """Only the n-th of them, counted at each broker from the injection on."""
    share: Percent | None = None
    """The percentage of them, drawn at random; without it and `nth` every one."""
    error: str | None = None
    """The error they are answered with, by Kafka's name: NOT_COORDINATOR, ..."""

    @property
    def _errors(self) -> list[str]:
        """The errors that its API may be answered with, or all, if it has none of its own."""
        errors = ERRORS_OF.get(self.api or "")
        return list(ERROR_CODES) if errors is None else errors.names

    def mistakes(self, target: Target) -> Found:
        if self.api is None:
            yield ("fault",), "protocol is about one kind of request; write for example api: EndTxn"
        elif self.api not in API_KEYS:
            yield ("api",), f"{self.api!r} is not a request to nodes; {hint(self.api, API_KEYS)}"
        elif self.what == "error" and self.api not in ERRORS_OF:
            yield ("what",), f"{self.api} cannot be answered with an error; {', '.join(ERRORS_OF)} can"
        for key, example in (("delay", "5s"), ("error", "NOT_COORDINATOR")):
            given = getattr(self, key) is not None
            if given and self.what != key:
                yield (key,), f"what: {self.what} takes no {key}"
            elif self.what == key and not given:
                yield ("fault",), f"what: {key} needs it; write {key}: {example}"
        if self.error is not None and self.error not in ERROR_CODES:
            yield ("error",), f"{self.error!r} is not a known error; {hint(self.error, self._errors)}"
        elif self.error is not None and self.api in ERRORS_OF and self.error not in self._errors:
            known = ", ".join(self._errors)
            yield ("error",), f"Kafka never answers {self.api} with {self.error}; with these it does: {known}"
        if self.nth is not None and self.share is not None:
            yield ("share",), "nth picks one request already; leave one of them out"


class SlowOptions(Options):
    processing: DurationMs = default("100ms")
    """How long a slow member takes for each record."""


To = Annotated[
    Position,
    About(
        "Of `seek` and `reset-offsets`, where to go: an offset (a number alone always is one), `end`, "
        "`beginning`, `10s ago` or a time since 1970 (2026-01-31T08:30:00Z), as the records of a topic are "
        "dated. Of `move-leader`, the broker that leads next, an in-sync replica; without it the first "
        "in-sync follower."
    ),
]


class SeekOptions(Options):
    back: Positive | None = None
    """By how many records to go back in each partition; without it, `forward` and `to`, to the beginning."""
    forward: Positive | None = None
    """By how many records to go forward in each partition; what is passed over is never delivered."""
    to: To | None = None

    def goal(self, now_ms: int) -> Goal:
        by = self.forward if self.back is None else -self.back
        time_ms = position_ms(self.to, now_ms) if isinstance(self.to, str) else None
        return Goal(by, self.to, time_ms)

    def mistakes(self, target: Target) -> Found:
        given = [key for key in ("to", "back", "forward") if getattr(self, key) is not None]
        for key in given[1:]:
            yield (key,), f"{given[0]} says already where to go; leave one of them out"


class ResetOffsetsOptions(SeekOptions):
    def mistakes(self, target: Target) -> Found:
        yield from super().mistakes(target)
        if target.hits == MEMBERS and target.kind != "members":
            yield ("target",), f"offsets are those of the whole group; write members of {target.group}"


class ResizeOptions(Options):
    partitions: Count = 6
    """The number of partitions after the resize."""


class DeleteRecordsOptions(Options):
    committed_by: str | None = None
    """The group below whose committed offsets records are deleted; without it all records are."""


class GrowOptions(Options):
    brokers: Count = 1
    """The number of brokers to add."""


class ReassignOptions(Options):
    replication_factor: Count = 3
    """The number of replicas of every partition after the reassignment."""


class MoveLeaderOptions(Options):
    to: To | None = None

    @property
    def leader(self) -> int | None:
        return self.to if isinstance(self.to, int) else None


def check_broker(value: Any) -> None:
    """Raises ValueError if it is not the number of a broker."""
    if isinstance(value, bool) or not str(value).strip().isdecimal():
        raise ValueError(f"{value!r} is not the number of a broker; write for example to: 2")


class MoveReplicasOptions(Options):
    throttle: Bandwidth | None = None
    """The bandwidth to which the copying is limited, such as 8mbit; without it there is no limit."""


class ChangeConfigOptions(Options):
    config: Config = default({})
    """The new settings of the topic or broker, by Kafka's names; at the heal the earlier ones return."""

    def mistakes(self, target: Target) -> Found:
        if not self.config:
            yield ("fault",), "settings are missing; write for example config: {segment.bytes: 1048576}"
        for name in self.config:
            if re.search("password|secret|jaas", name):
                yield ("config", name), "brokers show no secrets, so no proof could be had; leave it out"


def same_setting(one: Options, on: Target, other: Options, other_on: Target) -> str | None:
    """A setting that two steps change on the same topic or broker."""
    if not (isinstance(one, ChangeConfigOptions) and isinstance(other, ChangeConfigOptions)):
        return None
    every = on.hits == other_on.hits == NODES and "all" in (on.kind, other_on.kind)
    return next((name for name in one.config if name in other.config and (every or on == other_on)), None)


class DenyOptions(Options):
    operation: Literal["Read", "Write", "Describe", "All"] = "Write"
    """What is denied: Write to producers, Read to readers, ..."""
    principal: str = "User:kaput"
    """To whom; kaput's own clients are User:kaput, unless their config has a sasl.username."""


class QuotaOptions(Options):
    producer_rate: Positive | None = None
    """Bytes per second that each client id may send to a broker."""
    consumer_rate: Positive | None = None
    """Bytes per second that each client id may fetch from a broker."""
    request_percentage: Positive | None = None
    """How much of the time of a broker's request and network threads each client id may take: 100 is that of
    one thread.
    """

    @property
    def rates(self) -> dict[str, float]:
        """Those that are given, by Kafka's name."""
        given = {
            "producer_byte_rate": self.producer_rate,
            "consumer_byte_rate": self.consumer_rate,
            "request_percentage": self.request_percentage,
        }
        return {key: float(rate) for key, rate in given.items() if rate is not None}

    def mistakes(self, target: Target) -> Found:
        if not self.rates:
            yield ("fault",), "a rate is missing; write for example producer-rate: 100000"


class ChangePasswordOptions(Options):
    user: Literal["app"] = "app"
    """Whose password changes: that of clients with sasl.username: app in their config."""


class RollingUpgradeOptions(Options):
    kafka: str = NEWEST_KAFKA
    """The version of Kafka to upgrade to."""


class CommandOptions(Options):
    timeout: DurationMs = default("30s")
    """The time limit for each of these commands, and for its effect to show."""
    inject: str | None = None
    """The command line that breaks a broker (docs/EXISTING_CLUSTER.md)."""
    heal: str | None = None
    """The command line that ends the fault; without it the fault ends by itself."""
    prove: str | None = None
    """The command line that exits with 0 while the fault is in effect; without it the broker is probed."""

    def mistakes(self, target: Target) -> Found:
        if not (self.inject or "").strip():
            yield ("fault",), "a command line is missing; write inject: ... (docs/EXISTING_CLUSTER.md)"
        if target.hits in (MEMBERS, PRODUCER, TOPIC):
            yield ("target",), "commands work on brokers; write broker N, leader-of T/P, any, minority or all"
        if target.kind in ("cluster", "zookeeper"):
            yield ("target",), f"{target} is not a broker; write all, or one of the brokers"
        for key in ("inject", "heal", "prove"):
            for text in mistakes_in(getattr(self, key) or "", target):
                yield (key,), text


class Need(NamedTuple):
    """What a fault needs of the cluster: whether it has that, and what to write if not."""

    met: Callable[[Cluster], bool]
    otherwise: str


NETWORK = Need(
    lambda cluster: cluster.network == "namespaces", "breaks the network; write cluster.network: namespaces"
)
DISK = Need(
    lambda cluster: cluster.disk_mb is not None,
    "needs a separate disk for each broker; write cluster.disk-mb: 256",
)
EXT4 = Need(
    lambda cluster: cluster.disk_fs == "ext4",
    "needs a disk that can fail; write cluster.disk-mb: 256, disk-fs: ext4",
)
LOG_DIRS = Need(
    lambda cluster: cluster.log_dirs == 2, "needs a second log directory; write cluster.log-dirs: 2"
)
NO_VOTER = Need(
    lambda cluster: not set(cluster.broker_ids()) <= set(cluster.voter_ids()),
    "needs brokers that are not controllers: those would lose the metadata log and their votes, too; "
    "write cluster.controllers: 1",
)
CLOCKS = Need(
    lambda cluster: cluster.faketime, "needs clocks that can be shifted; write cluster.faketime: true"
)
MEMORY = Need(
    lambda cluster: cluster.memory_groups,
    "needs nodes in cgroups of their own; write cluster.memory-groups: true",
)
SECURITY = Need(
    lambda cluster: cluster.security != "none",
    "needs a cluster with access control; write cluster.security: scram-tls",
)
PROXIES = Need(
    lambda cluster: cluster.proxies != "none",
    "needs proxies from the start of the cluster; write cluster.proxies: clients",
)


@dataclass(frozen=True)
class FaultKind:
    """A fault. `hits`: what it may hit; `needs`: what it needs of the cluster; `traces`: whether its heal
    leaves something behind, so that the cluster is not used again; `by_request`: requests to the cluster do
    it, which need no process of a node; `permanent`: its change stays.
    """

    name: str
    hits: tuple[str, ...] = (NODES,)
    options: type[Options] = Options
    needs: Need | None = None
    traces: bool = False
    by_request: bool = False
    permanent: bool = False

    @property
    def of_disk(self) -> bool:
        """Whether it breaks the disks of brokers; other nodes have none of their own."""
        return self.needs in (DISK, EXT4, LOG_DIRS, NO_VOTER)


_PROCESS = (NODES, MEMBERS, CLUSTERS, MIRROR)
_LINK = (NODES, CLUSTERS, MIRROR)
# On nodes first, then on members, topics and the cluster: the order in messages and pages.
_ALL = (
    FaultKind("noop", (NODES, CLUSTERS)),
    FaultKind("kill", (*_PROCESS, PRODUCER, STORE)),
    FaultKind("power-loss", traces=True),
    FaultKind("disk-loss", needs=NO_VOTER, traces=True),
    FaultKind("stop", _PROCESS),
    FaultKind("pause", (*_PROCESS, PRODUCER, STORE)),
    FaultKind("rolling-restart"),
    FaultKind("disk-full", (NODES, STORE), needs=DISK, traces=True),
    FaultKind("disk-stall", needs=EXT4, traces=True),
    FaultKind("disk-error", needs=EXT4, traces=True),
    FaultKind("log-dir-failure", needs=LOG_DIRS, traces=True),
    FaultKind("cpu-pressure", options=CpuPressureOptions, traces=True),
    FaultKind("clock-skew", options=ClockSkewOptions, needs=CLOCKS, traces=True),
    FaultKind("memory-pressure", options=MemoryPressureOptions, needs=MEMORY, traces=True),
    FaultKind("isolate", (NODES, CLUSTERS), IsolateOptions, NETWORK),
    FaultKind("cut", _LINK, CutOptions, NETWORK),
    FaultKind("partition", options=PartitionOptions, needs=NETWORK),
    FaultKind("flap", (NODES, CLUSTERS), FlapOptions, NETWORK),
    FaultKind("loss", _LINK, LossOptions, NETWORK),
    FaultKind("reset", (NODES, CLUSTERS), ResetOptions, NETWORK),
    FaultKind("bandwidth", _LINK, BandwidthOptions, NETWORK),
    FaultKind("delay", (NODES, CLUSTERS), DelayOptions, NETWORK),
    FaultKind("protocol", options=ProtocolOptions, needs=PROXIES),
    FaultKind("join", (MEMBERS,)),
    FaultKind("leave", (MEMBERS,)),
    FaultKind("slow", (MEMBERS,), SlowOptions),
    FaultKind("seek", (MEMBERS,), SeekOptions, permanent=True),
    FaultKind("reset-offsets", (MEMBERS,), ResetOffsetsOptions, permanent=True),
    FaultKind("elect-preferred", by_request=True, permanent=True),
    FaultKind("move-leader", options=MoveLeaderOptions, by_request=True, permanent=True),
    FaultKind("move-replicas", options=MoveReplicasOptions, by_request=True, permanent=True),
    FaultKind("change-config", (NODES, TOPIC), ChangeConfigOptions, by_request=True),
    FaultKind("deny", (TOPIC,), DenyOptions, SECURITY),
    FaultKind("resize", (TOPIC,), ResizeOptions, permanent=True),
    FaultKind("delete-records", (TOPIC,), DeleteRecordsOptions, permanent=True),
    FaultKind("recreate", (TOPIC,)),
    FaultKind("delete-topic", (TOPIC,), permanent=True),
    FaultKind("quota", (CLUSTER,), QuotaOptions),
    FaultKind("change-password", (CLUSTER,), ChangePasswordOptions, SECURITY),
    FaultKind("grow", (CLUSTER,), GrowOptions, traces=True, permanent=True),
    FaultKind("reassign", (CLUSTER,), ReassignOptions, traces=True, permanent=True),
    FaultKind("rolling-upgrade", (CLUSTER,), RollingUpgradeOptions, traces=True, permanent=True),
    FaultKind("command", options=CommandOptions, traces=True),
)
KINDS = {kind.name: kind for kind in _ALL}
PERMANENT = frozenset(kind.name for kind in _ALL if kind.permanent)
COMMAND, PROTOCOL, RESIZE, DELETE_RECORDS, RECREATE, CHANGE_CONFIG = (
    "command", "protocol", "resize", "delete-records", "recreate", "change-config"
)  # fmt: skip
DELETE_TOPIC = "delete-topic"
DELETE_TOPICS = (RECREATE, DELETE_TOPIC)
MOVE_LEADER, MOVE_REPLICAS, REASSIGN = "move-leader", "move-replicas", "reassign"
MOVES = ("elect-preferred", MOVE_LEADER, MOVE_REPLICAS)  # of leaders and replicas, by request
MOVES_REPLICAS = (MOVE_REPLICAS, REASSIGN, "grow")
# Over when they took effect; `recreate` without a duration, too.
AT_ONCE = PERMANENT - {MOVE_REPLICAS, "rolling-upgrade"}

# What others call them.
OTHER_WORDS = {
    "crash": "kill", "sigkill": "kill", "oom": "kill", "shutdown": "stop", "freeze": "pause",
    "lose-disk": "disk-loss", "empty-disk": "disk-loss", "replace-disk": "disk-loss",
    "new-disk": "disk-loss", "wipe": "disk-loss", "wipe-disk": "disk-loss", "volume-loss": "disk-loss",
    "sigstop": "pause", "hang": "pause", "gc": "pause", "unplug": "isolate",
    "latency": "delay", "slow-network": "delay", "netem": "delay", "packet-loss": "loss",
    "network-partition": "partition", "netsplit": "partition", "split-brain": "partition",
    "leader-election": "elect-preferred", "preferred-leader-election": "elect-preferred",
    "preferred-replica-election": "elect-preferred", "elect-leader": "elect-preferred",
    "rebalance-leader": "elect-preferred", "auto-rebalance": "elect-preferred", "rebalance": "join",
    "leader-moved": "move-leader", "reassignment": "move-replicas", "reassign-partition": "move-replicas",
    "reassign-replica": "move-replicas", "move-partition": "move-replicas",
    "alter-config": "change-config", "set-config": "change-config", "config": "change-config",
    "acl": "deny", "revoke": "deny", "throttle": "quota", "alter-quota": "quota",
    "password": "change-password", "rotate-credentials": "change-password", "credential": "change-password",
    "alter-user": "change-password", "rotate-password": "change-password", "scram": "change-password",
    "topic-delete": "delete-topic", "drop-topic": "delete-topic", "remove-topic": "delete-topic",
    "recreate-topic": "recreate", "rewind": "reset-offsets", "skip": "reset-offsets",
    "fast-forward": "reset-offsets",
    "truncate": "delete-records", "purge": "delete-records",
    "add-partitions": "resize", "add-broker": "grow", "upgrade": "rolling-upgrade",
    "restart": "rolling-restart", "reboot": "rolling-restart",
}  # fmt: skip
# They may hit brokers, and take nothing from them.
TAKE_NOTHING = frozenset({"noop", "grow", "reassign", *(kind.name for kind in _ALL if kind.by_request)})


def meant_by(word: str) -> str:
    """The fault that another word for it means, whatever the order of its parts (`topic-delete`), and with
    more of them (`revoke-acl`); the word itself, if there is none.
    """
    parts = _parts(word)
    others = sorted(OTHER_WORDS, key=lambda other: -len(_parts(other)))
    same = [other for other in others if _parts(other) == parts]
    within = [] if nearest(word, KINDS) else [other for other in others if _parts(other) <= parts]
    return next((OTHER_WORDS[other] for other in (*same, *within)), word)


def _parts(word: str) -> frozenset[str]:
    return frozenset(part.removesuffix("s") for part in re.split("[-_. ]+", word.lower()))


def faults_on(what: str) -> list[str]:
    """The faults that may hit it."""
    return [kind.name for kind in KINDS.values() if what in kind.hits]


def defaults_of(fault: str) -> dict[str, Any]:
    """The options of a fault with their defaults as written in the file; None: there is no default."""
    kind = KINDS.get(fault)
    fields = {} if kind is None else kind.options.model_fields
    return {field.alias or name: field.default for name, field in fields.items()}
