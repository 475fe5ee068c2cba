"""The block of a step of the timeline: one fault on one target, with its time, duration and options.

Not here: which fault takes which options (options.py), and checks against the rest of the file (checks/).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from kaput.scenario.block import Block, Found, inapplicable_keys
from kaput.scenario.commands import mistakes_in
from kaput.scenario.events import Moment
from kaput.scenario.nearest import hint
from kaput.scenario.options import (
    CLUSTER_CHANGES,
    COMMAND_FAULTS,
    COMMANDS,
    OPTIONS,
    PROTOCOL_FAULTS,
    TOPIC_FAULTS,
    Direction,
    How,
    Options,
    Side,
    What,
    with_defaults,
)
from kaput.scenario.parties import Peers
from kaput.scenario.protocol import protocol_mistakes
from kaput.scenario.values import (
    Bandwidth,
    Count,
    DurationMs,
    DurationOrZeroMs,
    Percent,
    Positive,
    Target,
    check_at,
    format_duration,
    parse_duration_ms,
    target_cluster,
    target_members,
    target_producer,
    target_topic,
)

MIN_OFFSET_MS = 5000  # of a clock: less cannot be distinguished from a slow probe
MIN_PAGE_CACHE_MB = 16  # 4 MiB made a broker shut down, since its log directory had failed
LENIENT = {"lenient": True}  # validation context of recorded scenarios: accepts faults of other versions

# Add the name of a new fault here; its module is in faults/.
FaultName = Literal[
    "noop", "kill", "power-loss", "stop", "pause", "rolling-restart", "disk-full", "disk-stall",
    "disk-error", "cpu-pressure", "clock-skew", "memory-pressure", "isolate", "cut", "partition", "flap",
    "loss", "reset", "bandwidth", "delay", "protocol",
    "join", "leave", "slow", "resize", "delete-records", "recreate", "grow", "reassign", "rolling-upgrade",
    "command",
]  # fmt: skip


def _check_fault(value: str, info: ValidationInfo) -> str:
    if value not in get_args(FaultName) and not (info.context or {}).get("lenient"):
        raise ValueError(f"{value!r} is not a fault; {hint(value, get_args(FaultName))}")
    return value


def _parse_offset_ms(value: Any) -> int:
    """Parses a duration, which may have a minus sign. Raises ValueError."""
    text = str(value).strip()
    ms = parse_duration_ms(text.removeprefix("-")) if not isinstance(value, bool) else 0
    if ms < MIN_OFFSET_MS:
        raise ValueError(
            f"{value!r} is not an offset of {format_duration(MIN_OFFSET_MS)} or more, such as 5m"
        )
    return -ms if text.startswith("-") else ms


OffsetMs = Annotated[
    int,
    BeforeValidator(_parse_offset_ms),
    PlainSerializer(lambda ms: ("-" if ms < 0 else "") + format_duration(abs(ms)), return_type=str),
    WithJsonSchema({"type": ["string", "number"], "examples": ["5m", "-30s"]}),
]


class FaultStep(Block):
    """One action on one target, from a moment on, for a time (without `for`: until all has been sent)."""

    at: Annotated[Moment | str, BeforeValidator(check_at)]
    """When: a time after the warm-up (10s), a share of the load (30%), {message: N}, or {event: NAME}."""
    fault: Annotated[
        str, AfterValidator(_check_fault), WithJsonSchema({"type": "string", "enum": [*get_args(FaultName)]})
    ]
    """The action."""
    target: Target = "any"
    """What it hits; leaders, followers and coordinators are looked up when the fault is injected."""
    for_: DurationMs | None = Field(default=None, alias="for")
    """How long; without it the fault is healed when everything has been sent."""
    from_: Peers | None = Field(default=None, alias="from")
    """The other side of a network fault: `controllers`, `clients`, `broker 1`, ..., or a list of them."""
    direction: Direction | None = None
    """Traffic to the target (`in`), from it (`out`), or `both`."""
    how: How | None = None
    """Packets are dropped (`drop`), or rejected with an error to their sender (`reject`)."""
    clients_with: Side | None = None
    """Which side of a partition clients still reach: the `target`, the `others`, or `both`."""
    percent: Percent | None = None
    """The percentage of packets that are lost, or of the time in which a process gets the CPUs."""
    rate: Bandwidth | None = None
    """The remaining bandwidth, such as 12mbit."""
    delay: DurationMs | None = None
    """The delay of everything the target sends or, with fault: protocol, of requests to it."""
    jitter: DurationOrZeroMs | None = None
    """How much the delay varies, up and down."""
    up: DurationMs | None = None
    """How long a flapping link works between cuts."""
    down: DurationMs | None = None
    """How long each cut of a flapping link lasts."""
    offset: OffsetMs | None = None
    """How far the clock is ahead, or behind where negative (-5m)."""
    page_cache_mb: Count | None = None
    """MiB of page cache left to a process under memory pressure."""

    api: str | None = None
    """Which requests to the target, by Kafka's name: EndTxn, Produce, FindCoordinator, ..."""
    what: What | None = None
    """What is done to them. disconnect: instead of being delivered; error: the proxy answers."""
    nth: Positive | None = None
    """Only the n-th of them, counted at each broker from the injection on."""
    share: Percent | None = None
    """The percentage of them, drawn at random; without it and `nth` every one."""
    error: str | None = None
    """The error they are answered with, by Kafka's name: NOT_COORDINATOR, ..."""

    processing: DurationMs | None = None
    """How long a slow member takes for each record."""
    partitions: Count | None = None
    """The number of partitions after the resize."""
    committed_by: str | None = None
    """The group below whose committed offsets records are deleted; without it all records are."""
    brokers: Count | None = None
    """The number of brokers to add."""
    replication_factor: Count | None = None
    """The number of replicas of every partition after the reassignment."""
    kafka: str | None = None
    """The version of Kafka to upgrade to."""
    inject: str | None = None
    """The command line that breaks a broker (docs/EXISTING_CLUSTER.md)."""
    heal: str | None = None
    """The command line that ends the fault; without it the fault ends by itself."""
    prove: str | None = None
    """The command line that exits with 0 while the fault is in effect; without it the broker is probed."""
    timeout: DurationMs | None = None
    """The time limit for each of these commands, and for its effect to show."""

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, data: Any) -> Any:
        return with_defaults(data)

    def options(self) -> Options:
        """The options of the fault."""
        named = {field.name: getattr(self, field.name) for field in fields(Options)}
        given = {name: value for name, value in named.items() if value is not None}
        return Options(**{**given, "from_": tuple(given.get("from_", ()))})

    def rules(self) -> Found:
        """Mistakes between its fault, target and options."""
        yield from self._options()
        yield from self._reach()
        if self.fault in PROTOCOL_FAULTS:
            yield from protocol_mistakes(self)
        if self.fault in COMMAND_FAULTS:
            yield from self._commands()
            return
        for key in COMMANDS:
            if getattr(self, key) is not None:
                yield (key,), f"{self.fault} takes no {key}; fault: command does"

    def _options(self) -> Found:
        yield from inapplicable_keys(self, self.fault, OPTIONS)
        if self.delay is not None and self.jitter is not None and self.jitter > self.delay:
            yield ("jitter",), f"more than the delay of {format_duration(self.delay)}"
        if self.fault == "cpu-pressure" and self.percent is not None and not 1 <= self.percent <= 90:
            yield ("percent",), "write 1 to 90 percent of the CPUs' time"
        if self.page_cache_mb is not None and self.page_cache_mb < MIN_PAGE_CACHE_MB:
            why = "with less the kernel refuses a broker's writes, and its disk counts as failed"
            yield ("page-cache-mb",), f"write {MIN_PAGE_CACHE_MB} or more: {why}"
        if self.fault == "isolate" and self.from_ is not None and target_cluster(self.target) is None:
            yield ("from",), "isolate takes no from, unless it hits cluster NAME; cut does"
        if self.fault == "partition" and self.target == "all":
            yield ("target",), "with all brokers on one side the other is empty; write minority, or broker N"

    def _reach(self) -> Found:
        """Mistakes: topics and whole clusters have their own faults, which are permanent."""
        lasts = self.for_ is not None
        if self.fault in CLUSTER_CHANGES:
            if self.target != "cluster":
                yield ("target",), f"{self.fault} changes the cluster as a whole; write target: cluster"
            if lasts:
                yield ("for",), f"the change made by {self.fault} is permanent; leave this out"
        elif self.target == "cluster":
            known = ", ".join(sorted(CLUSTER_CHANGES))
            yield ("target",), f"{self.fault} does not hit the cluster as a whole; {known} do"
        if target_topic(self.target) is None:
            return
        if self.fault not in TOPIC_FAULTS:
            yield ("target",), f"{self.fault} does not hit topics; {', '.join(sorted(TOPIC_FAULTS))} do"
        elif lasts:
            yield ("for",), f"the change made by {self.fault} is permanent; leave this out"

    def _commands(self) -> Found:
        if not (self.inject or "").strip():
            yield ("fault",), "a command line is missing; write inject: ... (docs/EXISTING_CLUSTER.md)"
        target = self.target
        if target_members(target) or target_producer(target) is not None or target_topic(target):
            yield ("target",), "commands work on brokers; write broker N, leader-of T/P, any, minority or all"
        if target in ("cluster", "zookeeper"):
            yield ("target",), f"{target} is not a broker; write all, or one of the brokers"
        for key in COMMANDS:
            for text in mistakes_in(getattr(self, key) or "", target):
                yield (key,), text
