"""The state of one alert, and its transitions."""

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
    """One alert. `value`: the last known one. Times are ns since the epoch. `inhibited_by`: names of rules.

    `announced`: whether somebody was notified, that is, it has fired without being inhibited. `observed`:
    whether its current value is known. `reason`: why it ended, if not by its value.
    """

    rule: Rule
    label_set: LabelSet
    state: State
    value: float
    active_ns: int
    fired_ns: int | None = None
    resolved_ns: int | None = None
    well_ns: int | None = None  # since when its value is fine, while it is kept firing
    inhibited_by: tuple[str, ...] = ()
    inhibited_ns: int | None = None  # when it was last inhibited
    announced: bool = False
    observed: bool = True
    reason: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, without the rule's name."""
        return dict(self.label_set)

    @cached_property
    def key(self) -> str:
        """The same for every episode of a rule and label set, in any process."""
        text = "\0".join([self.rule.name, *(part for pair in self.label_set for part in pair)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def summary(self) -> str:
        """The rule's summary, filled in."""
        return filled(self.rule.summary, self.labels, self.value)


@dataclass(frozen=True)
class Transition:
    """A change of an alert. `announce`: whether to notify those who are to be woken."""

    change: Change
    at_ns: int
    alert: Alert
    announce: bool
