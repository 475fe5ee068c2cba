"""One alert rule: which signal, which condition, for how long, how urgent, and why.

Not here: what must agree between rules (rules.py), and how a rule is evaluated (observing.py, engine.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from kaput.monitor.alerts.condition import COMPARISONS, WORSE_UPWARDS, Condition
from kaput.monitor.alerts.summary import unknown_fields
from kaput.monitor.signals import SIGNALS, Signal
from kaput.scenario.block import Block, Found
from kaput.scenario.nearest import hint
from kaput.scenario.values import DurationMs, DurationOrZeroMs, no_bool

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _check_name(name: str) -> str:
    if len(name) > 60 or _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not a name; write small letters, digits and single dashes")
    return name


def _check_signal(name: str) -> str:
    if name not in SIGNALS:
        raise ValueError(f"{name!r} is not a signal; {hint(name, SIGNALS)}")
    if SIGNALS[name].kind == "histogram":
        raise ValueError(f"{name} is a histogram, which has no single value; write another signal")
    return name


RuleName = Annotated[str, AfterValidator(_check_name)]
Threshold = Annotated[float, BeforeValidator(no_bool), Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class Inhibitor(Block):
    """Another rule, while whose alerts fire this rule's alerts disturb nobody."""

    rule: RuleName
    """That rule's name."""
    equal: list[str] = Field(default=[])
    """Labels that both alerts must have with equal values; without any, every alert of that rule counts."""


class Rule(Block):
    """A condition on a signal that must hold `for` a time until somebody is told."""

    name: RuleName
    """What the alert is called; unique in the file."""
    signal: Annotated[str, AfterValidator(_check_signal)]
    """What is observed (monitor/signals.py)."""
    where: dict[str, str] = Field(default={})
    """Only label sets with these values."""
    rate: DurationMs | None = None
    """Look at the change per second over this time, instead of the value."""
    increase: DurationMs | None = None
    """Look at how much a counter rose within this time, instead of the value."""
    combine: Literal["each", "sum", "max", "min"] = "each"
    """Whether each label set is a separate alert, or how several are combined into one value."""
    by: list[str] = Field(default=[])
    """With sum, max or min: the labels that alerts keep; without any there is one alert."""
    above: Threshold | None = None
    """The condition: the value is above this."""
    at_least: Threshold | None = None
    """The condition: the value is this or more."""
    below: Threshold | None = None
    """The condition: the value is below this."""
    at_most: Threshold | None = None
    """The condition: the value is this or less."""
    other_than: Threshold | None = None
    """The condition: the value is known, and is not this."""
    absent: DurationMs | None = None
    """The condition: the signal had no samples for this long."""
    clear: Threshold | None = None
    """Hysteresis: once it fires, this takes the threshold's place until the value is beyond it."""
    for_: DurationOrZeroMs = Field(default=0, alias="for")
    """How long the condition must hold before the alert fires."""
    keep_firing_for: DurationOrZeroMs = 0
    """How long the value must be normal again before the alert is resolved."""
    severity: Literal["page", "ticket"]
    """page: wake someone; ticket: look at it when you are awake."""
    summary: Text
    """What to say, with {labels} and {value}, {value:percent} or {value:duration}."""
    why: Text
    """Why this should wake somebody, or why not."""
    unless: list[Inhibitor] = Field(default=[])
    """Rules whose alerts explain this one."""

    @property
    def of(self) -> Signal:
        """The signal."""
        return SIGNALS[self.signal]

    @property
    def labels(self) -> Sequence[str]:
        """The labels of its alerts."""
        if self.absent is not None:
            return ()
        return tuple(self.of.labels) if self.combine == "each" else tuple(self.by)

    @property
    def condition(self) -> Condition | None:
        """The comparison; None for a rule on absence."""
        for key in COMPARISONS:
            threshold = getattr(self, key.replace("-", "_"))
            if threshold is not None:
                return Condition(key, threshold, threshold if self.clear is None else self.clear)
        return None

    def rules(self) -> Found:
        """Mistakes that involve several of its keys."""
        yield from self._conditions()
        yield from self._windows()
        yield from self._labels()
        yield from self._clear()
        known = ("value", *self.labels)
        for field in unknown_fields(self.summary, known):
            yield ("summary",), f"{{{field}}} is no label or value; {hint(field, known)}"

    def _conditions(self) -> Found:
        keys = (*COMPARISONS, "absent")
        given = [key for key in keys if getattr(self, key.replace("-", "_")) is not None]
        if not given:
            yield (), f"it has no condition; write one of {', '.join(keys)}"
        for key in given[1:]:
            yield (key,), f"{given[0]} and {key} do not go together; write two rules"

    def _windows(self) -> Found:
        if self.rate is not None and self.increase is not None:
            yield ("increase",), "rate and increase do not go together"
        if self.increase is not None and self.of.kind != "counter":
            yield ("increase",), f"{self.signal} is a {self.of.kind}; increase is for counters; write rate"
        if self.absent is not None:
            given = [key for key in ("rate", "increase", "by") if getattr(self, key)]
            for key in [*given, *(["combine"] if self.combine != "each" else [])]:
                yield (key,), f"absent takes no {key}: it is about the signal as a whole"

    def _labels(self) -> Found:
        for label in sorted(set(self.where) - set(self.of.labels)):
            yield ("where", label), _no_label(label, self.of)
        for at, label in enumerate(self.by):
            if label not in self.of.labels:
                yield ("by", at), _no_label(label, self.of)
        if self.by and self.combine == "each":
            yield ("by",), "by goes with combine: sum, max or min"

    def _clear(self) -> Found:
        condition = self.condition
        if self.clear is None or condition is None:
            if self.clear is not None and self.absent is not None:
                yield ("clear",), "absent takes no clear"
            return
        worse_upwards = WORSE_UPWARDS.get(condition.comparison)
        if worse_upwards is None:
            yield (
                ("clear",),
                f"{condition.comparison} takes no clear: use it with above, at-least, below or at-most",
            )
        elif (self.clear > condition.threshold) if worse_upwards else (self.clear < condition.threshold):
            side = "below" if worse_upwards else "above"
            yield (
                ("clear",),
                f"{self.clear:g} is worse than the threshold; write a value {side} {condition.threshold:g}",
            )


def _no_label(label: str, signal: Signal) -> str:
    if not signal.labels:
        return f"{signal.name} has no labels"
    return f"{signal.name} has no label {label}; {hint(label, signal.labels)}"
