"""The block of a consumer group: members, protocol, commits, processing time; with its checks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from kaput.core import SECOND, plural, setting_text
from kaput.scenario.block import Block, Found, at, given
from kaput.scenario.clients import check_client, check_limit, check_reserved, user_of
from kaput.scenario.producers import Producers, Transactions
from kaput.scenario.values import Config, Count, DurationOrZeroMs, Positive, no_bool
from kaput.scenario.vocabulary import Client, GroupType, Isolation

EVERYTHING_NS = 2**62
INSTANCE = "group.instance.id"
_AT_THE_END = ("latest", "end", "largest")
# An ISO 8601 duration as Java writes it, which Kafka requires.
_BY_DURATION = re.compile(
    r"by_duration:p(?=.)(?:(\d{1,5})d)?(?:t(?=.)(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?)?"
)
# Client settings that kaput sets itself, and the scenario key that decides them (None: no key does).
_RESERVED = {
    "bootstrap.servers": None,
    "metadata.broker.list": None,
    "group.id": "id",
    "group.protocol": "type",
    INSTANCE: "static, or member-config",
    "enable.auto.offset.store": None,
}
# Client settings that the broker decides for groups of type consumer, and that librdkafka rejects there; by
# key, the broker's setting.
_OF_BROKERS = {
    "session.timeout.ms": "group.consumer.session.timeout.ms",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "partition.assignment.strategy": "group.consumer.assignors",
    "group.protocol.type": None,
}
_STRATEGY = "partition.assignment.strategy"
# What kaput judges a group by, whatever member: by name, the key that has it.
_OF_THE_GROUP = {
    "auto.offset.reset": "config",
    "isolation.level": "config",
    "session.timeout.ms": "config",
    "enable.auto.commit": "commit: auto",
}
_SESSION_MS = 45_000  # Kafka's default, of clients and of brokers
_OF_EXPLICIT = ("release-every", "reject-every")
_OF_SHARE_GROUPS = ("acknowledge", *_OF_EXPLICIT, "group-config")
_OF_OFFSETS = ("assignor", "static", "commit", "commit-mode", "commit-every")
_LIMIT = "share.delivery.count.limit"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"  # of a share group (KIP-1191)


class Produces(Block):
    """The output of a pipe: each record it reads becomes one message in another topic."""

    topic: str
    """The output topic; messages go to its partitions in turn."""
    size: Positive = 100
    """The most records in one transaction."""
    config: Config = {}
    """Producer settings, in librdkafka's names."""

    @property
    def producers(self) -> Producers:
        """The pipe's processes as a producers block."""
        return Producers(
            topic=self.topic,
            acks="all",
            partitioner="round-robin",
            transactions=Transactions(size=self.size),
            config=self.config,
        )

    def rules(self) -> Found:
        return (mistake for mistake in self.producers.config_rules() if mistake[0][0] == "config")


class Group(Block):
    """A consumer group of `members` processes."""

    id: str
    """The group's id."""
    topics: Annotated[list[str], Field(min_length=1)]
    """The topics it subscribes to."""
    members: Count = 1
    """Number of members, numbered from 1; each is a process. With more members than partitions some are
    idle.
    """
    type: GroupType = "classic"
    """Who assigns partitions: the members (`classic`) or the broker (`consumer`, KIP-848). A share group
    (`share`, KIP-932) is a queue: its members share all partitions."""
    consumer_members: Positive | None = None
    """In a classic group: this many members, those with the highest numbers, use the protocol of type
    consumer, as while a group moves from one to the other."""
    assignor: Literal["range", "roundrobin", "cooperative-sticky"] | None = None
    """How a classic group assigns partitions; default: librdkafka's (range, roundrobin)."""
    static: bool = False
    """Whether each member has its own group.instance.id, and keeps its partitions when it restarts."""
    commit: Literal["after", "before", "auto"] = "after"
    """When offsets are committed: `after` the records are processed; `before` that, so that a crashed member
    loses the records it was processing; or by the client itself, every auto.commit.interval.ms (`auto`; so is
    `config: {enable.auto.commit: true}` without this key)."""
    commit_mode: Literal["async", "sync"] = "async"
    """Whether the member waits for the response to each commit (sync) or continues (async)."""
    commit_every: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = 0
    """Commit after this many records. 0: every half second (`after`), or at each poll (`before`)."""
    processing: DurationOrZeroMs = 0
    """How long a member processes each record; a poll then returns at most 500."""
    acknowledge: Literal["implicit", "explicit"] = "implicit"
    """Share groups: the next poll accepts all records (implicit), or each record is acknowledged
    (explicit).
    """
    release_every: Positive | None = None
    """With explicit acknowledgements: every N-th record of a partition is released at its first delivery."""
    reject_every: Positive | None = None
    """With explicit acknowledgements: every N-th record of a partition is rejected."""
    produces: Produces | None = None
    """Consume, transform, produce, exactly once: each record becomes a message, in the transaction that also
    commits the record's offset."""
    group_config: Config = {}
    """Group settings of a share group, in Kafka's names; reads from the start by default."""
    cluster: str | None = None
    """Which of several clusters it reads from; default: the first."""
    config: Config = {}
    """Client settings, in the client's names (librdkafka's by default)."""
    client: Client = "librdkafka"
    """`librdkafka`: kaput's own member; `java`: Kafka's own (docs/JAVA_CLIENT.md); `command`: any program
    (docs/ADDING_A_CLIENT.md)."""
    client_version: str | None = None
    """Of `librdkafka`: the version of confluent-kafka (default: kaput's own); of `java`: the Kafka version of
    the client (default: the cluster's)."""
    member_versions: dict[Positive, str] = {}
    """By number, members with another `client-version`: `{4: 2.3.0}`. A step `join` of member 4 then brings a
    client of that version into the group."""
    member_config: dict[Positive, Config] = {}
    """By number, members with client settings of their own, besides `config`, as in a rolling change of them:
    `{4: {partition.assignment.strategy: roundrobin}}`. A step `join` of member 4 then brings it in. Of two
    members with the same `group.instance.id` (static: ID-member-N), the later one fences the other in a
    classic group, and is refused in a group of type consumer."""
    command: str | None = None
    """With `client: command`: the command line that starts a member."""

    @property
    def members_in_words(self) -> str:
        """`3 members, 1 of them with the consumer protocol, member 3 with librdkafka 2.3.0`"""
        both = self.consumer_members
        words = [f"{both} of them with the consumer protocol"] if both else []
        others = (f"member {n} with {self.client} {version}" for n, version in self.member_versions.items())
        own = (
            f"member {n} with " + ", ".join(f"{name}={setting_text(value)}" for name, value in config.items())
            for n, config in self.member_config.items()
        )
        return ", ".join([plural(self.members, "member"), *words, *others, *own])

    def as_member(self, number: int) -> Group:
        """The group as its member with that number knows it: of type consumer for some of a classic group,
        with that member's version of the client, and its settings.
        """
        changed: dict[str, Any] = {"consumer_members": None, "member_versions": {}, "member_config": {}}
        if self.consumer_members is not None and number > self.members - self.consumer_members:
            changed |= {"type": "consumer", "assignor": None}
        if number in self.member_versions:
            changed["client_version"] = self.member_versions[number]
        if own := self.member_config.get(number):
            changed["config"] = {
                **own,
                **{name: value for name, value in self.config.items() if name not in own},
            }
            if _STRATEGY in own:
                changed["assignor"] = None
        return self.model_copy(update=changed)

    def instance_of(self, member: str) -> str | None:
        """The group.instance.id of that member, by its name, if it has these settings; None: not static."""
        own = self.config.get(INSTANCE)
        return str(own) if own is not None else f"{self.id}-{member}" if self.static else None

    def same_instance(self, number: int, others: Iterable[int] = ()) -> list[int]:
        """The other members with the same group.instance.id, also of `others`: those that steps add."""
        ids = {n: self.as_member(n).instance_of(f"member-{n}") for n in {*self._numbers, *others, number}}
        mine = ids.pop(number)
        return [n for n in sorted(ids) if mine is not None and ids[n] == mine]

    def users(self, joined: Collection[int] = ()) -> dict[str, str]:
        """As whom its members (`member-2`) sign in to a cluster of kaput, and those that steps add."""
        numbers = sorted({*self._numbers, *joined})
        return {f"member-{n}": user_of(self.as_member(n).config) for n in numbers}

    @property
    def _numbers(self) -> set[int]:
        return {*range(1, self.members + 1), *self.member_config}

    @property
    def reset(self) -> tuple[str, str]:
        """The setting that decides where it begins without committed offsets, and its value."""
        name = "share.auto.offset.reset" if self.type == "share" else "auto.offset.reset"
        given = self.group_config if self.type == "share" else self.config
        return name, str(given.get(name, "earliest")).lower()

    @property
    def reads_back_ns(self) -> int | None:
        """How far back (ns) it reads when it begins. 0: not; None: everything; EVERYTHING_NS: `none`."""
        _, value = self.reset
        if value == "none":
            return EVERYTHING_NS
        if value in _AT_THE_END:
            return 0
        match = _BY_DURATION.fullmatch(value)
        if match is None:
            return None
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return min(round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND), EVERYTHING_NS - 1)

    @property
    def isolation(self) -> Isolation:
        """The isolation level. The default is the client's; for share groups the brokers decide."""
        if self.type == "share":
            given = self.group_config.get("share.isolation.level", "read_uncommitted")
        else:
            given = self.config.get("isolation.level", "read_committed")
        return "read_committed" if given == "read_committed" else "read_uncommitted"

    def session_ms(self, cluster: Mapping[str, object]) -> int:
        """How long the group waits for a silent member. `cluster`: its cluster's configuration."""
        brokers = cluster.get(f"group.{self.type}.session.timeout.ms")
        known = str(self.config.get("session.timeout.ms") if self.type == "classic" else brokers)
        return int(known) if known.isdecimal() else _SESSION_MS

    @model_validator(mode="before")
    @classmethod
    def _commit_as_the_client_is_told(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "commit" in data or not isinstance(data.get("config"), dict):
            return data
        automatic = str(data["config"].get("enable.auto.commit")).lower() == "true"
        return {**data, "commit": "auto"} if automatic else data

    def rules(self) -> Found:
        yield from check_reserved(self.config, _RESERVED)
        yield from check_client(self.client, self.client_version, self.command, self.config)
        parts = {"classic": self._classic, "consumer": self._consumer, "share": self._share}
        yield from parts[self.type]()
        if self.consumer_members is not None:
            yield from self._of_both_types(self.consumer_members)
        if self.type != "share":
            for key in given(self, _OF_SHARE_GROUPS):
                yield (key,), f"{key} is for share groups; write type: share, or leave it out"
            yield from self._commits()
        if self.client == "java":
            yield from self._java()
        if self.client == "command":
            yield from self._command()
        if self.produces is not None:
            yield from self._pipe()
        for number, config in self.member_config.items():
            yield from at(("member-config", number), self._of_member(number, config))

    def _of_member(self, number: int, config: Config) -> Found:
        """Mistakes in a member's settings, by name."""
        member = self.as_member(number)
        found = [
            *check_reserved({name: value for name, value in config.items() if name != INSTANCE}, _RESERVED),
            *check_client(member.client, member.client_version, member.command, member.config),
            *(member._consumer() if member.type == "consumer" else ()),
            *(member._share() if member.type == "share" else ()),
            *(member._java() if member.client == "java" else ()),
        ]
        reported = set[str | int]()
        for path, text in found:
            if path[-1] in config and path[-1] not in reported:
                reported.add(path[-1])
                yield path[1:], text
        for name in config:
            if name in _OF_THE_GROUP and name not in reported:
                yield (name,), f"it is the same for the whole group; write it into {_OF_THE_GROUP[name]}"

    def _classic(self) -> Found:
        if self.assignor is not None and _STRATEGY in self.config:
            yield (
                ("config", _STRATEGY),
                "assignor is also given; write only one of the two",
            )

    def _consumer(self) -> Found:
        if self.assignor is not None:
            yield (
                ("assignor",),
                "in a group of type consumer the broker assigns partitions; "
                "leave it out or write type: classic",
            )
        for name in self.config:
            if name in _OF_BROKERS:
                own = _OF_BROKERS[name]
                instead = f"; set {own} in cluster.config" if own else ""
                yield ("config", name), f"a group of type consumer has no such setting{instead}"

    def _of_both_types(self, number: int) -> Found:
        if self.type != "classic" or self.client == "command":
            yield ("consumer-members",), "only kaput's own and Kafka's members of a classic group can differ"
        elif number > self.members:
            yield ("consumer-members",), f"the group has {self.members} members; write fewer"
        else:
            yield from self.as_member(self.members)._consumer()

    def _share(self) -> Found:
        for key in given(self, _OF_OFFSETS):
            yield (key,), f"a share group has no {key}: it assigns no partitions, and commits no offsets"
        if INSTANCE in self.config:
            yield ("config", INSTANCE), "a share group has no static members; leave it out"
        if "share.acknowledgement.mode" in self.config:
            yield ("config", "share.acknowledgement.mode"), "kaput sets this itself; use the key acknowledge"
        if self.acknowledge == "implicit":
            for key in given(self, _OF_EXPLICIT):
                yield (key,), f"{key} needs acknowledge: explicit; the next poll accepts everything"
        yield from check_limit(self.group_config, _LIMIT, "group-config")

    def _commits(self) -> Found:
        automatic = self.config.get("enable.auto.commit")
        if automatic is not None and (str(automatic).lower() == "true") != (self.commit == "auto"):
            yield (
                ("config", "enable.auto.commit"),
                f"{str(automatic).lower()} contradicts commit: {self.commit}; leave one of the two out",
            )
        if self.commit == "auto":
            instead = (
                "the client itself commits every auto.commit.interval.ms; leave it out or write commit: after"
            )
            if self.commit_every:
                yield ("commit-every",), instead
            if self.commit_mode == "sync":
                yield ("commit-mode",), instead

    def _java(self) -> Found:
        tool = "Kafka's Java tool"
        if len(self.topics) > 1:
            yield ("topics",), f"{tool} reads one topic; write a group for each"
        elif self.topics[0].startswith("^"):
            yield ("topics",), f"{tool} takes no patterns; name the topic"
        if self.commit == "before":
            yield ("commit",), f"{tool} commits what it has printed; write after, or auto"
        if self.commit_every:
            yield ("commit-every",), f"{tool} commits each poll; leave it out, or set max.poll.records"
        if self.processing:
            yield ("processing",), f"{tool} does no work on records; leave it out"
        if self.acknowledge == "explicit":
            yield ("acknowledge",), f"{tool} accepts records with its next poll; write implicit"
        if self.type == "share" and "session.timeout.ms" in self.config:
            yield ("config", "session.timeout.ms"), "brokers set the session timeout of a share group"

    def _command(self) -> Found:
        if self.type == "share":
            yield ("type",), "only kaput's own members support share groups so far; write type: classic"
        for key in given(self, (*_OF_OFFSETS, "processing", "member-versions")):
            yield (key,), "the command decides this; leave it out, or use config"

    def _pipe(self) -> Found:
        if self.type == "share":
            yield ("produces",), "a share group commits no offsets, so none can be part of a transaction"
        if self.client != "librdkafka":
            yield ("produces",), "only kaput's own members can transform records so far"
        for key in given(self, ("commit", "commit-mode", "commit-every")):
            yield (key,), "its transactions commit the offsets; write produces: {size: N}"


def client_title(block: Producers | Group) -> str:
    """`java`, or `java 3.9.2` if the scenario sets a version."""
    return f"{block.client} {block.client_version}" if block.client_version else block.client


def kind_of_client(block: Producers | Group) -> str:
    """`producers (java 3.9.2)`, `group billing (librdkafka)`."""
    who = f"group {block.id}" if isinstance(block, Group) else "producers"
    return f"{who} ({client_title(block)})"
