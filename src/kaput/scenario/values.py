"""Formats of values in a scenario file: durations, targets, comparisons, start times.

Not here: the blocks that contain them (model.py). Every error message shows a valid value.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from kaput.core import CLUSTER_SEPARATOR, TopicPartition
from kaput.scenario.nearest import nearest
from kaput.scenario.vocabulary import Acks

MAX_DURATION_MS = 7 * 24 * 3_600_000  # a week: more is a typo

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(ms|s|m|min|h)?")
_UNIT_MS = {"ms": 1, "s": 1000, None: 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%")
CLUSTER_NAME = "[a-z][a-z0-9-]{0,19}"
MIRROR_NAME = f"{CLUSTER_NAME}->{CLUSTER_NAME}"
_TOPIC = rf"(?:{CLUSTER_NAME}{CLUSTER_SEPARATOR})?[\w.-]+"
TARGET = re.compile(
    r"(?P<kind>broker) (?P<broker>\d{1,6})"
    rf"|(?P<role>leader-of|follower-of|followers-of) (?P<topic>{_TOPIC})/(?P<partition>\d{{1,9}})"
    r"|(?P<coordinator>coordinator-of) (?P<group>\S.*)"
    r"|(?P<transactions>transaction-coordinator-of )?producer (?P<producer>\d{1,6})"
    r"|(?P<member>member \d{1,6}|members|any member) of (?P<of>\S.*)"
    rf"|topic (?P<resized>{_TOPIC})"
    r"|store (?P<store>[a-z0-9-]+)"
    rf"|cluster (?P<whole>{CLUSTER_NAME})"
    rf"|mirror (?P<mirror>{MIRROR_NAME})"
    r"|(?P<bare>controller|zookeeper|any|minority|all|cluster)"
)
_MEMBERS = re.compile(r"(?:any member|members?(?: \d+(?:, \d+)*)?) of (\S.*)")
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
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(kbit|mbit|gbit)")
_COMPARISON = re.compile(r"(>=|<=|>|<|==)?\s*(\d+(?:\.\d+)?)\s*(%)?")


def parse_duration_ms(value: Any) -> int:
    """Milliseconds of `20s`, `1.5s`, `250ms`, `2m` or a bare number of seconds. Raises ValueError."""
    match = None if isinstance(value, bool) else _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a duration; write for example 20s, 250ms or 2m")
    duration_ms = round(float(match[1]) * _UNIT_MS[match[2]])
    if duration_ms > MAX_DURATION_MS:
        raise ValueError(f"{value!r} is longer than a week")
    return duration_ms


def format_duration(ms: int) -> str:
    """The inverse: 250 -> `250ms`, 20000 -> `20s`."""
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"


def _positive_duration(ms: int) -> int:
    if ms < 1:
        raise ValueError("a duration must be longer than 0")
    return ms


def _check_target(value: str) -> str:
    if TARGET.fullmatch(value) is not None:
        return value
    first, _, rest = value.partition(" ")
    if rest:
        first = {"any": "any-member", "cluster": "cluster-of-several"}.get(first, first)
    near = nearest(first, TARGETS, cutoff=0.5)
    forms = [TARGETS[word][0] for word in near or TARGETS]
    raise ValueError(f"{value!r} is not a target; {'did you mean' if near else 'write'} {any_of(forms)}")


def target_partition(target: str) -> TopicPartition | None:
    """The partition in a target such as `leader-of orders/0`; None for other targets."""
    match = TARGET.fullmatch(target)
    if match is None or not match["topic"]:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


class TargetMembers(NamedTuple):
    """Members as a target: the one with this number, all of them, or (neither) any one."""

    group: str
    number: int | None
    all: bool


def target_members(target: str) -> TargetMembers | None:
    """The members in a target; None for other targets."""
    match = TARGET.fullmatch(target)
    if match is None or not match["member"]:
        return None
    number = match["member"].removeprefix("member ")
    return TargetMembers(match["of"], int(number) if number.isdigit() else None, match["member"] == "members")


def target_group(target: str) -> str | None:
    """The group in a recorded target of one or several members; None for other targets."""
    match = _MEMBERS.fullmatch(target)
    return match[1] if match else None


def hits_member(target: str, group: str, member: str) -> bool:
    """Whether a recorded target is this member of a group, by the name that kaput gave it (`member-2.3`: the
    third process of member 2), or all members of the group.
    """
    match = _MEMBERS.fullmatch(target)
    if match is None or match[1] != group or target.startswith("any "):
        return False
    numbers = re.findall(r"\d+", target[: match.start(1)])
    named = re.fullmatch(r"member-(\d+)(?:\.\d+)?", member)
    return not numbers or (named is not None and named[1] in numbers)


def names_several(target: str) -> bool:
    """Whether a target may stand for several nodes or members at once."""
    match = TARGET.fullmatch(target)
    if match is None:
        return False
    whole = match["bare"] in ("minority", "all", "cluster", "zookeeper") or match["whole"] is not None
    return whole or match["role"] == "followers-of" or match["member"] == "members"


def target_producer(target: str) -> int | None:
    """The number of the producer in a target; None for other targets."""
    match = TARGET.fullmatch(target)
    return int(match["producer"]) if match and match["producer"] and not match["transactions"] else None


def target_topic(target: str) -> str | None:
    """The topic in a target of a whole topic; None for other targets."""
    match = TARGET.fullmatch(target)
    return match["resized"] if match is not None else None


def target_store(target: str) -> str | None:
    """The store in a target; None for other targets."""
    match = TARGET.fullmatch(target)
    return match["store"] if match is not None else None


def target_cluster(target: str) -> str | None:
    """The cluster in a target of a whole cluster; None for other targets."""
    match = TARGET.fullmatch(target)
    return match["whole"] if match is not None else None


def target_mirror(target: str) -> str | None:
    """The mirror in a target (`dc1->dc2`); None for other targets."""
    match = TARGET.fullmatch(target)
    return match["mirror"] if match is not None else None


def any_of(forms: list[str]) -> str:
    return f"{forms[0]}?" if len(forms) == 1 else f"{', '.join(forms[:-1])} or {forms[-1]}"


class Bound(NamedTuple):
    """A parsed comparison: `operator` is one of >, >=, <, <=, ==. Exact: a bound is never rounded."""

    operator: str
    number: Fraction
    is_share: bool

    def of(self, total: int) -> Fraction:
        """The bound, in the unit of the figure: of a share, that share of `total`."""
        return self.number * total / 100 if self.is_share else self.number


def parse_comparison(value: Any) -> Bound:
    """`'<=5%'` -> (<=, 5, share); a bare number means exactly that. Raises ValueError."""
    match = None if isinstance(value, bool) else _COMPARISON.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a number or a comparison such as '>0' or '<=5%'")
    return Bound(match[1] or "==", Fraction(match[2]), match[3] is not None)


def _check_comparison(value: Any) -> Any:
    parse_comparison(value)
    return value


def no_share(value: Any) -> Any:
    """A comparison without a percentage, for numbers that are not counts of messages. Raises ValueError."""
    if str(value).strip().endswith("%"):
        raise ValueError(f"{value!r} is a share; write a number, such as '<=12'")
    return value


def share_of(at: str) -> Fraction | None:
    """3/10 for `30%`, exactly; None for anything that is not a share."""
    match = _SHARE.fullmatch(at.strip())
    return Fraction(match[1]) / 100 if match else None


def check_at(value: Any) -> Any:
    """Normalizes a start time: a time or a share; a mapping is left to the model. Raises ValueError."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return value
    text = str(value).strip()
    if text.endswith("%"):
        share = share_of(text)
        if share is None or share > 1:
            raise ValueError(f"{value!r} is not a share from 0% to 100%")
        return text
    try:
        return format_duration(parse_duration_ms(text))
    except ValueError:
        raise ValueError(
            f"{value!r} is not a moment; write a time (10s), a share (30%), {{message: 30000}} "
            "or {event: election}"
        ) from None


def _check_bandwidth(value: Any) -> str:
    match = _RATE.fullmatch(str(value).strip().lower())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{value!r} is not a bandwidth; write for example 12mbit or 500kbit")
    return f"{match[1]}{match[2]}"


def no_bool(value: Any) -> Any:
    """Rejects booleans where a number is required. Raises ValueError."""
    # pydantic reads true as 1, and YAML reads yes as true.
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


def without_group_names(pattern: re.Pattern[str]) -> str:
    """A regular expression without named groups, for JSON Schema."""
    return re.sub(r"[?]P<[a-z]+>", "", pattern.pattern)


DurationMs = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    AfterValidator(_positive_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["20s", "250ms", "2m"]}),
]
DurationOrZeroMs = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": ["string", "number"], "examples": ["50ms", 0]}),
]
Bandwidth = Annotated[
    str,
    BeforeValidator(_check_bandwidth),
    WithJsonSchema({"type": "string", "examples": ["12mbit", "500kbit", "1gbit"]}),
]
Target = Annotated[
    str,
    AfterValidator(_check_target),
    WithJsonSchema(
        {"type": "string", "pattern": f"^(?:{without_group_names(TARGET)})$"}
        | {
            "examples": [
                "broker 1",
                "leader-of orders/0",
                "followers-of orders/0",
                "any",
                "member 1 of billing",
            ]
        }
    ),
]
Comparison = Annotated[
    int | float | str,
    BeforeValidator(_check_comparison),
    WithJsonSchema({"type": ["string", "number"], "examples": [0, ">0", "<=5%"]}),
]
Acknowledgements = Annotated[
    Acks,
    BeforeValidator(lambda v: "all" if str(v) == "-1" else v if isinstance(v, bool) else str(v)),
    WithJsonSchema({"enum": [0, 1, "0", "1", "all", -1]}),
]
Config = dict[str, bool | int | float | str]
_SET_BY_KAPUT = (
    "advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.bootstrap.servers",
    "controller.quorum.voters", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id",
    "process.roles", "zookeeper.connect",
)  # fmt: skip


def _check_broker_config(config: Config) -> Config:
    if taken := [name for name in _SET_BY_KAPUT if name in config]:
        raise ValueError(
            f"kaput sets {', '.join(taken)} itself, to a different value on each node; leave it out"
        )
    return config


BrokerConfig = Annotated[Config, AfterValidator(_check_broker_config)]
# Each becomes a line of server.properties.
RackName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")]
Positive = Annotated[int, Field(ge=1), BeforeValidator(no_bool)]
# The number of brokers, partitions or processes.
Count = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(no_bool)]
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False), BeforeValidator(no_bool)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(no_bool)]
