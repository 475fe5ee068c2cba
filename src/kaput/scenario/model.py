"""The scenario as data: frozen pydantic models, one for each block of the YAML file.

Not here: reading files (loader.py), turning times into steps (timeline.py).
Field names are those of the file (kebab-case there, snake_case here); unknown keys are mistakes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from kaput.scenario.vocabulary import Acks, Verdict

MIN_PAYLOAD_BYTES = 45  # the identity that every message carries: see evidence/identity.py
FIRST_CONTROLLER_ID = 101  # dedicated controllers are numbered from here, brokers from 1

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)?")
_UNIT_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_TARGET = re.compile(
    r"(?P<kind>broker) (?P<broker>\d+)"
    r"|(?P<role>leader-of|follower-of|followers-of) (?P<topic>[\w.-]+)/(?P<partition>\d+)"
    r"|(?P<coordinator>coordinator-of) (?P<group>[\w.-]+)"
    r"|(?P<bare>controller|any|minority|all)"
)
_COMPARISON = re.compile(r"(>=|<=|>|<|==)?\s*(\d+(?:\.\d+)?)\s*(%)?")


def parse_duration_ms(value: Any) -> int:
    """Milliseconds of `20s`, `1.5s`, `250ms`, `2m` or a bare number of seconds. Raises ValueError."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a duration; write for example 20s, 250ms or 2m")
    return round(float(match[1]) * _UNIT_MS[match[2]])


def _check_target(value: str) -> str:
    if _TARGET.fullmatch(value) is None:
        raise ValueError(
            f"{value!r} is not a target; write broker N, leader-of T/P, follower-of T/P, followers-of T/P, "
            "controller, coordinator-of G, any, minority or all"
        )
    return value


def _check_comparison(value: Any) -> Any:
    if isinstance(value, bool) or _COMPARISON.fullmatch(str(value).strip()) is None:
        raise ValueError(f"{value!r} is not a number or a comparison such as '>0' or '<=5%'")
    return value


def format_duration(ms: int) -> str:
    """The way back: 250 -> `250ms`, 20000 -> `20s`."""
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"


DurationMs = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["20s", "250ms", "2m"]}),
]
Target = Annotated[str, AfterValidator(_check_target)]
Comparison = Annotated[
    int | float | str,
    BeforeValidator(_check_comparison),
    WithJsonSchema({"type": ["string", "number"], "examples": [0, ">0", "<=5%"]}),
]
Acknowledgements = Annotated[
    Acks,
    BeforeValidator(lambda v: "all" if str(v) == "-1" else str(v)),
    WithJsonSchema({"enum": [0, 1, "all"]}),
]
Config = dict[str, bool | int | float | str]
Positive = Annotated[int, Field(ge=1)]


class Block(BaseModel):
    """A block of the file: frozen, kebab-case keys, nothing unknown."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


class Cluster(Block):
    """The brokers: how many, which Kafka, who votes in the metadata quorum."""

    kafka: str = "4.3.1"
    mode: Literal["kraft", "zookeeper"] = "kraft"
    brokers: Positive = 3
    controllers: Literal["combined"] | Positive = "combined"
    network: Literal["loopback", "namespaces"] = "loopback"
    config: Config = {}

    def broker_ids(self) -> list[int]:
        """1 to N."""
        return list(range(1, self.brokers + 1))

    def dedicated_controller_ids(self) -> list[int]:
        """101 and up; empty where the brokers vote themselves."""
        if self.controllers == "combined":
            return []
        return list(range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + self.controllers))

    def voter_ids(self) -> list[int]:
        """Nodes of the metadata quorum: the dedicated ones, else brokers 1 to 3 (broker 1 alone below 3)."""
        return self.dedicated_controller_ids() or ([1, 2, 3] if self.brokers >= 3 else [1])


class Topic(Block):
    """A topic to create; `assignment` lists replicas for each partition, the preferred leader first."""

    name: str = Field(pattern=r"^[\w.-]+$")
    partitions: Positive = 1
    replication_factor: Positive = 3
    config: Config = {}
    assignment: list[list[int]] | None = None


class Producers(Block):
    """`count` producers of one kind; each sends `messages`, or for `duration`, at `rate` a second."""

    count: Positive = 1
    topic: str
    acks: Acknowledgements = "all"
    idempotence: bool = False
    messages: Positive | None = None
    duration: DurationMs | None = None
    rate: Literal["max"] | Annotated[float, Field(gt=0)] = "max"
    payload_bytes: Annotated[int, Field(ge=MIN_PAYLOAD_BYTES)] = 100
    key: Literal["none", "producer", "seq"] | Positive = "none"
    partitioner: Literal[
        "round-robin",
        "random",
        "consistent",
        "consistent_random",
        "murmur2",
        "murmur2_random",
        "fnv1a",
        "fnv1a_random",
    ] = "consistent_random"
    config: Config = {}


class Group(Block):
    """A consumer group of `members` processes."""

    id: str
    topics: Annotated[list[str], Field(min_length=1)]
    members: Positive = 1
    config: Config = {}


class Drain(Block):
    """How long the healed cluster is given to show everything that it stored."""

    timeout: DurationMs = 120_000


class Workload(Block):
    """Who sends and who reads."""

    producers: Annotated[list[Producers], Field(min_length=1)]
    groups: list[Group] = []
    drain: Drain = Drain()


class AtMessage(Block):
    """At the N-th attempt over all producers."""

    message: Positive


def _check_at(value: Any) -> Any:
    if isinstance(value, (dict, AtMessage)):
        return value
    text = str(value).strip()
    if text.endswith("%"):
        share = float(text[:-1])
        if not 0 <= share <= 100:
            raise ValueError(f"{value!r} is not a share from 0% to 100%")
        return text
    return format_duration(parse_duration_ms(text))


class FaultStep(Block):
    """One action on one target, from a moment on, for a time (without `for`: until all has been sent)."""

    at: Annotated[AtMessage | str, BeforeValidator(_check_at)]
    fault: Literal["noop", "kill", "stop", "pause"]
    target: Target = "any"
    for_: DurationMs | None = Field(default=None, alias="for")


class Expect(Block):
    """What the author expects; each anomaly is a number or a comparison (shares are of messages sent)."""

    verdict: Verdict | None = None
    lost: Comparison | None = None
    duplicate: Comparison | None = None
    recovered: Comparison | None = None
    ghost: Comparison | None = None
    phantom: Comparison | None = None
    corrupt: Comparison | None = None
    reordered: Comparison | None = None
    inconsistent_offset: Comparison | None = None
    unseen: Comparison | None = None
    redelivered: Comparison | None = None
    poll_skip: Comparison | None = None
    nonmonotonic_poll: Comparison | None = None
    commit_ahead: Comparison | None = None
    unassigned_delivery: Comparison | None = None


class Scenario(Block):
    """The whole file."""

    version: Literal[1]
    title: str
    tags: list[str] = []
    description: str = ""
    cluster: Cluster = Cluster()
    topics: Annotated[list[Topic], Field(min_length=1)]
    workload: Workload
    faults: list[FaultStep] = []
    expect: Expect = Expect()

    def topic(self, name: str) -> Topic | None:
        """The topic of that name, if the scenario makes it."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def producer_specs(self) -> list[Producers]:
        """One entry for each producer id, in the order of the file."""
        return [spec for spec in self.workload.producers for _ in range(spec.count)]

    def topic_setting(self, topic: str, key: str, default: str) -> str:
        """A topic's effective setting as text: its own, else the cluster's, else `default` (Kafka's)."""
        found = self.topic(topic)
        own = found.config.get(key) if found else None
        value = own if own is not None else self.cluster.config.get(key, default)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def dump(self) -> dict[str, Any]:
        """The resolved scenario with every default written out, in the file's own names."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
