"""The steps of a scenario's timeline: one fault on one target, when, for how long, and with which options.

Not here: which fault takes which option (options.py), what must agree with the rest of the file (checks.py).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from kaput.scenario.block import Block
from kaput.scenario.nearest import hint
from kaput.scenario.options import Direction, How, Options, Side, with_defaults
from kaput.scenario.values import (
    Bandwidth,
    Count,
    DurationMs,
    DurationOrZeroMs,
    Peers,
    Percent,
    Positive,
    Target,
    check_at,
)

LENIENT = {"lenient": True}  # validation context of recorded scenarios: fault names of other versions pass

# A new fault's word goes here; its file stands in faults/.
FaultName = Literal[
    "noop", "kill", "power-loss", "stop", "pause", "rolling-restart", "disk-full",
    "isolate", "cut", "partition", "flap", "loss", "reset", "bandwidth", "delay",
    "join", "leave", "slow", "resize", "grow", "reassign", "rolling-upgrade", "command",
]  # fmt: skip


class AtMessage(Block):
    """At the N-th attempt over all producers."""

    message: Positive
    """The N."""


def _check_fault(value: str, info: ValidationInfo) -> str:
    if value not in get_args(FaultName) and not (info.context or {}).get("lenient"):
        raise ValueError(f"{value!r} is not a fault; {hint(value, get_args(FaultName))}")
    return value


class FaultStep(Block):
    """One action on one target, from a moment on, for a time (without `for`: until all has been sent)."""

    at: Annotated[AtMessage | str, BeforeValidator(check_at)]
    """When: a time after the warm-up (10s), a share of the load (30%), or {message: N}."""
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
    """The percentage of packets that are lost."""
    rate: Bandwidth | None = None
    """The remaining bandwidth, such as 12mbit."""
    delay: DurationMs | None = None
    """The delay of everything that the target sends."""
    jitter: DurationOrZeroMs | None = None
    """How much the delay varies, up and down."""
    up: DurationMs | None = None
    """How long a flapping link works between cuts."""
    down: DurationMs | None = None
    """How long each cut of a flapping link lasts."""

    processing: DurationMs | None = None
    """How long a slow member takes for each record."""
    partitions: Count | None = None
    """The number of partitions after the resize."""
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
        """What the fault is told beside its target."""
        named = {field.name: getattr(self, field.name) for field in fields(Options)}
        given = {name: value for name, value in named.items() if value is not None}
        return Options(**{**given, "from_": tuple(given.get("from_", ()))})
