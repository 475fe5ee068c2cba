"""The `plan` block: the steps that move clients from one cluster to another.

Has the checks within a step; against clusters, mirrors and clients: checks/plan.py. What each step does:
runner/plan/steps.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from kaput.scenario.block import Block, Found, inapplicable_keys
from kaput.scenario.values import DurationMs, DurationOrZeroMs, check_at, format_duration, parse_duration_ms

StepName = Literal[
    "notice", "decide", "fence", "promote", "move-producers", "move-groups", "heal", "mirror-back",
    "fail-back",
]  # fmt: skip
Positions = Literal["translated", "checkpoints", "earliest", "latest"]
# Permitted and required keys of each step, in addition to `at` and `when`.
KEYS: dict[str, tuple[str, ...]] = {
    "notice": ("cluster",),
    "decide": ("takes",),
    "fence": ("cluster", "how", "producers", "settle"),
    "promote": ("mirror", "wait"),
    "move-producers": ("to", "producers", "settle"),
    "move-groups": ("to", "groups", "positions", "commit", "settle"),
    "heal": (),
    "mirror-back": ("mirror", "begin", "wait"),
    "fail-back": ("to", "mirror", "positions", "settle", "wait"),
}
REQUIRED: dict[str, tuple[str, ...]] = {
    "fence": ("cluster",),
    "promote": ("mirror",),
    "move-producers": ("to",),
    "move-groups": ("to",),
    "mirror-back": ("mirror",),
    "fail-back": ("to",),
}
_UNREACHABLE = re.compile(r"unreachable for (.+)")
_SETTLE_MS, _WAIT_MS = 3_000, 15_000  # defaults


def _check_when(value: Any) -> Any:
    """`unreachable for 3s` in its normal form. Raises ValueError."""
    match = _UNREACHABLE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is not a condition; write for example unreachable for 3s")
    return f"unreachable for {format_duration(parse_duration_ms(match[1]))}"


When = Annotated[
    str,
    BeforeValidator(_check_when),
    WithJsonSchema({"type": "string", "pattern": _UNREACHABLE.pattern, "examples": ["unreachable for 3s"]}),
]


class PlanStep(Block):
    """One step. Without `at` and `when` it begins when the step before has ended."""

    step: StepName
    """What is done."""
    at: Annotated[str | None, BeforeValidator(check_at)] = None
    """Not before this time after the warm-up (20s)."""
    when: When | None = None
    """Not before the cluster has been `unreachable for` a time: no broker answers a client."""
    takes: DurationOrZeroMs | None = None
    """How long the decision takes."""
    cluster: str | None = None
    """notice: the cluster that is watched; default: the one that clients are moved from. fence: the one that
    gets no more messages."""
    how: Literal["clients", "stop", "kill"] | None = None
    """How a cluster is fenced: the producers stop sending to it (`clients`, the default), or all its brokers
    are shut down (`stop`), or killed (`kill`)."""
    mirror: str | None = None
    """promote: the mirror to stop (`dc1->dc2`). mirror-back, fail-back: the one in the other direction."""
    begin: Literal["switch", "start"] | None = None
    """Where a mirror back begins in each partition: after what was there when the clients were moved
    (`switch`, the default), or at its start."""
    to: str | None = None
    """The cluster to which clients are moved."""
    producers: list[Annotated[int, Field(ge=0)]] | None = None
    """These producers only, by number; default: every one that can be moved."""
    groups: list[str] | None = None
    """These groups only; default: every group that can be moved."""
    positions: Positions | None = None
    """Where groups begin: at the positions that mirrors translated and committed (`translated`, the default),
    or wrote down only (`checkpoints`), at the start, or at the end."""
    commit: bool | None = None
    """Whether members commit before they leave (default), as far as the cluster answers."""
    settle: DurationMs | None = None
    """How long a client waits for outcomes and commits before it gives up; default: 3s."""
    wait: DurationMs | None = None
    """How long a mirror may take to copy everything; default: 15s."""

    @property
    def unreachable_ms(self) -> int | None:
        """How long a cluster must be unreachable before the step begins; None without that condition."""
        match = _UNREACHABLE.fullmatch(self.when or "")
        return None if match is None else parse_duration_ms(match[1])

    @property
    def settle_s(self) -> float:
        """How long clients wait for outcomes."""
        return (self.settle or _SETTLE_MS) / 1000

    @property
    def wait_s(self) -> float:
        """How long a mirror may take."""
        return (self.wait or _WAIT_MS) / 1000

    def rules(self) -> Found:
        yield from inapplicable_keys(self, self.step, KEYS)
        for key in REQUIRED.get(self.step, ()):
            if getattr(self, key) is None:
                yield (key,), f"{self.step} needs it"
        if self.at is not None and self.when is not None:
            yield ("when",), "at is also given; write only one of the two"
        if self.at is not None and self.at.endswith("%"):
            yield ("at",), "a plan uses times, not shares or messages; write for example 20s"
