"""What a fault hits, as a scenario names it: parsed once, into an object; and the other side of network
faults, the words of `from`.

Not here: looking up who is leader, coordinator or controller at the injection (faults/resolving.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import core_schema

from kaput.core import CLUSTER_SEPARATOR, TopicPartition
from kaput.scenario.nearest import nearest
from kaput.scenario.values import CLUSTER_NAME, MIRROR_NAME, any_of, without_group_names

# Syntax and meaning of targets, by their first word (docs/FAULTS.md).
TARGETS = {
    "broker": ("broker N", "the broker of that number"),
    "leader-of": ("leader-of T/P", "the leader of partition P of topic T when the fault is injected"),
    "follower-of": ("follower-of T/P", "one of its followers"),
    "followers-of": ("followers-of T/P", "all of its followers"),
    "coordinator-of": ("coordinator-of G", "the coordinator of group G"),
    "transaction-coordinator-of": (
        "transaction-coordinator-of producer N",
        "the coordinator of a producer's transactions",
    ),
    "producer": ("producer N", "a producer, counted from 0 over all entries of `producers`"),
    "member": ("member N of G", "a member of group G, counted from 1"),
    "members": ("members of G", "all members of group G"),
    "any-member": ("any member of G", "a random member of group G"),
    "topic": ("topic T", "the topic itself"),
    "store": ("store NAME", "a store of the scenario"),
    "controller": ("controller", "the active controller"),
    "zookeeper": ("zookeeper", "all ZooKeeper nodes"),
    "any": ("any", "a random broker"),
    "minority": ("minority", "fewer than half of the brokers, at random"),
    "all": ("all", "every broker"),
    "cluster": ("cluster", "the cluster as a whole"),
    "cluster-of-several": ("cluster NAME", "every node of that one of several clusters"),
    "mirror": ("mirror A->B", "the process that mirrors cluster A to cluster B"),
}
# What a fault can hit: `clusters` is one of several as a whole.
NODES, MEMBERS, PRODUCER, STORE = "nodes", "members", "producer", "store"
TOPIC, CLUSTER, CLUSTERS, MIRROR = "topic", "cluster", "clusters", "mirror"
_HITS = {
    "producer": PRODUCER,
    "member": MEMBERS,
    "members": MEMBERS,
    "any-member": MEMBERS,
    "topic": TOPIC,
    "store": STORE,
    "cluster": CLUSTER,
    "cluster-of-several": CLUSTERS,
    "mirror": MIRROR,
}
_SEVERAL = ("minority", "all", "cluster", "zookeeper", "cluster-of-several", "followers-of", "members")

_TOPIC = rf"(?:{CLUSTER_NAME}{CLUSTER_SEPARATOR})?[\w.-]+"
_PATTERN = re.compile(
    r"(?P<one>broker|producer|transaction-coordinator-of producer) (?P<number>\d{1,6})"
    rf"|(?P<role>leader-of|follower-of|followers-of) (?P<led>{_TOPIC})/(?P<partition>\d{{1,9}})"
    r"|(?P<coordinator>coordinator-of) (?P<coordinated>\S.*)"
    r"|(?P<members>member \d{1,6}|members|any member) of (?P<group>\S.*)"
    rf"|topic (?P<topic>{_TOPIC})"
    r"|store (?P<store>[a-z0-9-]+)"
    rf"|cluster (?P<cluster>{CLUSTER_NAME})"
    rf"|mirror (?P<mirror>{MIRROR_NAME})"
    r"|(?P<bare>controller|zookeeper|any|minority|all|cluster)"
)
_SEVERAL_MEMBERS = re.compile(r"members?(?: \d+(?:, \d+)*)? of (?P<group>\S.*)")
_OF_PROCESS = re.compile(r"member-(\d+)(?:\.\d+)?")


@dataclass(frozen=True)
class Target:
    """A target. `kind` is a key of TARGETS, or empty for recorded text that is no target. `numbers`: of the
    broker, the producer or the members; `topic` may be that of a cluster (`dc2:orders`); `name`: of a store,
    a cluster or a mirror.
    """

    text: str
    kind: str = ""
    numbers: tuple[int, ...] = ()
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def hits(self) -> str:
        """What kind of thing it is: NODES, MEMBERS, PRODUCER, ..."""
        return _HITS.get(self.kind, NODES)

    @property
    def number(self) -> int | None:
        """The number of its one broker, producer or member."""
        return self.numbers[0] if len(self.numbers) == 1 else None

    @property
    def producer(self) -> int | None:
        """The number of the producer that is hit."""
        return self.number if self.kind == "producer" else None

    @property
    def members_of(self) -> str | None:
        """The group whose members are hit."""
        return self.group if self.hits == MEMBERS else None

    @property
    def whole_topic(self) -> str | None:
        """The topic, if it is hit itself."""
        return self.topic if self.kind == "topic" else None

    @property
    def place(self) -> TopicPartition | None:
        """The partition whose leader or followers are hit."""
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)

    @property
    def may_be_several(self) -> bool:
        """Whether it may stand for several nodes or members at once."""
        return self.kind in _SEVERAL

    def includes_member(self, group: str, member: str) -> bool:
        """Whether it is this member of a group, by the name that kaput gave it (`member-2.3`: the third
        process of member 2), or all members of the group.
        """
        if self.members_of != group or self.kind == "any-member":
            return False
        process = _OF_PROCESS.fullmatch(member)
        return not self.numbers or (process is not None and int(process[1]) in self.numbers)

    def renamed(self, topics: dict[str, str], groups: dict[str, str]) -> Target:
        """The target with the new name of its topic or group, if there is one."""
        old = self.topic if self.topic is not None else self.group
        new = (topics if self.topic is not None else groups).get(old or "")
        if old is None or new is None:
            return self
        head, _, tail = self.text.rpartition(old)
        return parse_target(head + new + tail)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        text = core_schema.no_info_after_validator_function(parse_target, core_schema.str_schema())
        return core_schema.no_info_before_validator_function(
            lambda value: value.text if isinstance(value, Target) else value,
            text,
            serialization=core_schema.to_string_ser_schema(),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": f"^(?:{without_group_names(_PATTERN)})$",
            "examples": [
                "broker 1",
                "leader-of orders/0",
                "followers-of orders/0",
                "any",
                "member 1 of billing",
            ],
        }


@lru_cache(maxsize=1024)
def parse_target(text: str) -> Target:
    """Raises ValueError, with the nearest valid form, for text that is not a target."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(_not_a_target(text))
    if match["one"]:
        return Target(text, match["one"].removesuffix(" producer"), (int(match["number"]),))
    if match["role"]:
        return Target(text, match["role"], topic=match["led"], partition=int(match["partition"]))
    if match["coordinator"]:
        return Target(text, "coordinator-of", group=match["coordinated"])
    if match["members"]:
        kind, _, number = match["members"].replace("any member", "any-member").partition(" ")
        return Target(text, kind, (int(number),) if number else (), group=match["group"])
    if match["topic"]:
        return Target(text, "topic", topic=match["topic"])
    for kind, named in (("store", "store"), ("cluster-of-several", "cluster"), ("mirror", "mirror")):
        if match[named]:
            return Target(text, kind, name=match[named])
    return Target(text, match["bare"])


def recorded_target(text: str) -> Target:
    """A target as evidence has it, where several members are named: `members 1, 2 of billing`. Its kind is
    empty if another tool wrote something else.
    """
    try:
        return parse_target(text)
    except ValueError:
        match = _SEVERAL_MEMBERS.fullmatch(text)
    if match is None:
        return Target(text)
    numbers = tuple(int(number) for number in re.findall(r"\d+", text[: match.start("group")]))
    return Target(text, "members", numbers, group=match["group"])


def _not_a_target(text: str) -> str:
    if re.fullmatch(r"[\w.-]+/[0-9]+", text):
        return f"{text!r} is not a target; did you mean leader-of {text}, or follower-of {text}?"
    if re.fullmatch(r"brokers? \d+(?:\W+(?:and )?\d+)+", text):
        each = [f"broker {number}" for number in re.findall(r"\d+", text)]
        return f"{text!r} is not a target; write a step for each, at the same time: {', '.join(each)}"
    first, _, rest = text.partition(" ")
    if rest:
        if first == "group":
            return f"{text!r} is not a target; did you mean members of {rest}?"
        first = {"any": "any-member", "cluster": "cluster-of-several"}.get(first, first)
    near = nearest(first, TARGETS, cutoff=0.6)
    forms = [TARGETS[word][0] for word in near or TARGETS]
    return f"{text!r} is not a target; {'did you mean' if near else 'write'} {any_of(forms)}"


_PEER = re.compile(r"controllers|zookeeper|brokers|clients|all-nodes|everybody|broker \d{1,6}")
_PEER_FORMS = ("controllers", "zookeeper", "brokers", "clients", "all-nodes", "everybody", "broker N")
# With several clusters: all of one, by its name alone or after a word, or the process of a mirror.
_OF_CLUSTERS = re.compile(f"(?:cluster )?(?P<cluster>{CLUSTER_NAME})|mirror (?P<mirror>{MIRROR_NAME})")


def party_of_clusters(word: str) -> tuple[str | None, str | None]:
    """The cluster or mirror that a word of `from` names; None for the words of single clusters."""
    match = None if _PEER.fullmatch(word) else _OF_CLUSTERS.fullmatch(word)
    return (match["cluster"], match["mirror"]) if match is not None else (None, None)


def is_word(name: str) -> bool:
    """Whether it is a keyword of `from`, and so cannot be the name of a cluster."""
    return name in _PEER_FORMS


def no_party(word: str) -> str:
    """The message for an invalid word of `from`; None if it is valid."""
    near = nearest(word.partition(" ")[0], _PEER_FORMS)
    return (
        f"{word!r} is not a party; {'did you mean' if near else 'write'} {any_of(near or list(_PEER_FORMS))}"
    )


def _check_peer(value: str) -> str:
    if _PEER.fullmatch(value) is not None:
        return value
    # The clusters of the scenario are not known here (checks/steps.py).
    if _OF_CLUSTERS.fullmatch(value) is not None and not nearest(value, _PEER_FORMS):
        return value
    raise ValueError(no_party(value))


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


_PEER_SCHEMA = {"type": "string", "pattern": f"^(?:{_PEER.pattern}|{without_group_names(_OF_CLUSTERS)})$"}
_Peer = Annotated[str, AfterValidator(_check_peer)]
Peers = Annotated[
    list[_Peer],
    BeforeValidator(_one_or_more),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [_PEER_SCHEMA, {"type": "array", "items": _PEER_SCHEMA, "minItems": 1}]}
        | {"examples": ["clients", ["brokers", "controllers"]]}
    ),
]
