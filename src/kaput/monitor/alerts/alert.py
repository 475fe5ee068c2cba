"""One alert, as it is at a moment, and the change that brought it there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kaput.monitor.alerts.observing import LabelSet
from kaput.monitor.alerts.rule import Rule
from kaput.monitor.alerts.summary import filled

State = Literal["pending", "firing", "resolved", "inactive"]
# inhibited: another alert explains one that fires; released: no longer.
Change = Literal["pending", "inactive", "firing", "inhibited", "released", "resolved"]


@dataclass(frozen=True)
class Alert:
    """`value`: the last that is known. Times are ns since the epoch. `inhibited_by`: names of rules.
    `announced`: whether it has disturbed anybody, that is, has been firing without being inhibited.
    `observed`: whether it is known how things are now. `reason`: why it ended, if not by its value.
    """

    rule: Rule
    label_set: LabelSet
    state: State
    value: float
    active_ns: int
    fired_ns: int | None = None
    resolved_ns: int | None = None
    well_ns: int | None = None  # since when all is well, of one that is kept firing
    inhibited_by: tuple[str, ...] = ()
    inhibited_ns: int | None = None  # when it was last inhibited
    announced: bool = False
    observed: bool = True
    reason: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, without the name of the rule."""
        return dict(self.label_set)

    @cached_property
    def key(self) -> str:
        """The same for every episode of the same rule and labels, in any process."""
        text = "\0".join([self.rule.name, *(part for pair in self.label_set for part in pair)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def summary(self) -> str:
        """Its sentence."""
        return filled(self.rule.summary, self.labels, self.value)


@dataclass(frozen=True)
class Transition:
    """A change of an alert. `announce`: it is one to be announced, to whoever is to be woken."""

    change: Change
    at_ns: int
    alert: Alert
    announce: bool
