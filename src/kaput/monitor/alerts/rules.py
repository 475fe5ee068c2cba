"""Alert rules: which signal, which condition, for how long, how urgent, and why; and a file of them.

From top to bottom: a condition, the summary of an alert, a rule, all rules together, reading a file of them
(every mistake is reported with file, line, rule and key). Not here: how rules are evaluated (engine.py).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from kaput.core import MS
from kaput.errors import UsageError
from kaput.monitor.signals import SIGNALS, Signal
from kaput.scenario.block import Block, Found
from kaput.scenario.mistakes import Mistake, from_validation, in_lines_of
from kaput.scenario.nearest import hint
from kaput.scenario.source import FileKind, Source, dotted, parse, read
from kaput.scenario.values import DurationMs, DurationOrZeroMs, format_duration, no_bool

# By a rule's key: how a value is compared, and how PromQL writes it.
COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "above": (operator.gt, ">"),
    "at-least": (operator.ge, ">="),
    "below": (operator.lt, "<"),
    "at-most": (operator.le, "<="),
    "other-than": (operator.ne, "!="),
}
# In which direction values get worse; `other-than` has none, and so no hysteresis.
WORSE_UPWARDS = {"above": True, "at-least": True, "below": False, "at-most": False}


@dataclass(frozen=True)
class Condition:
    """When a value triggers an alert, and ends one (`clear` while it fires: hysteresis)."""

    comparison: str
    threshold: float
    clear: float

    def met(self, value: float) -> bool:
        return COMPARISONS[self.comparison][0](value, self.threshold)

    def cleared(self, value: float) -> bool:
        return not COMPARISONS[self.comparison][0](value, self.clear)


# A summary is a template with `{label}` and `{value}`, nothing else: `{value}` is a number, `{value:percent}`
# a ratio, `{value:duration}` seconds. Not str.format: a template must not reach into objects. The same
# templates are converted to Prometheus's.
_FIELD = re.compile(r"\{([a-z_]+)(?::(percent|duration))?\}")
_GO_FUNCTIONS = {"": "humanize", "percent": "humanizePercentage", "duration": "humanizeDuration"}


def unknown_fields(template: str, known: Collection[str]) -> list[str]:
    """Fields in braces that are not known, or are malformed."""
    named = [match[1] for match in _FIELD.finditer(template)]
    odd = re.findall(r"\{([^{}]*)\}?", _FIELD.sub("", template))
    return [*(name for name in named if name not in known), *odd]


def filled(template: str, labels: Mapping[str, str], value: float) -> str:
    """The sentence. A label that the alert does not have is shown as `?`."""
    return _FIELD.sub(
        lambda match: _value(value, match[2] or "") if match[1] == "value" else labels.get(match[1], "?"),
        template,
    )


def as_go_template(template: str) -> str:
    """The template for Prometheus's annotations."""

    def field(match: re.Match[str]) -> str:
        if match[1] != "value":
            return f"{{{{ $labels.{match[1]} }}}}"
        return f"{{{{ $value | {_GO_FUNCTIONS[match[2] or '']} }}}}"

    return _FIELD.sub(field, template)


def _value(value: float, how: str) -> str:
    if math.isnan(value):
        return "an unknown number"
    if how == "percent":
        return f"{value * 100:.3g} %"
    return duration(value) if how == "duration" else number(value)


def number(value: float) -> str:
    """1,234, 0.125, 12.3: at most three decimals, without insignificant ones."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """12.5 s, 14 min, 3 h, 12 days."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


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


def values_of(wanted: str | list[str]) -> list[str]:
    """The values of one label in `where`."""
    return [wanted] if isinstance(wanted, str) else wanted


def pattern(value: str) -> str:
    """A value in `where` as a regular expression that Python and Prometheus read alike."""
    return ".*".join(re.sub(r"([^A-Za-z0-9_-])", r"\\\1", part) for part in value.split("*"))


_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN_LABELS = ("alertname", "severity", "cluster")
RuleName = Annotated[str, AfterValidator(_check_name)]
Threshold = Annotated[float, BeforeValidator(no_bool), Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]


class Inhibitor(Block):
    """Another rule: while its alerts fire, this rule's alerts are not announced."""

    rule: RuleName
    """That rule's name."""
    equal: list[str] = Field(default=[])
    """Labels that both alerts must have with equal values; without any, every alert of that rule counts."""


class AlertRule(Block):
    """A condition on a signal that must hold `for` some time before anyone is notified."""

    name: RuleName
    """What the alert is called; unique in the file."""
    signal: Annotated[str, AfterValidator(_check_signal)]
    """What is observed (monitor/signals.py)."""
    where: dict[str, str | Annotated[list[str], Field(min_length=1)]] = Field(default={})
    """Only label sets with these values: one, or any of several; `*` is any text."""
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
    own_labels: dict[str, str] = Field(default={}, alias="labels")
    """Labels that its alerts get besides those of the signal: who is notified (`team: payments`)."""
    keep_firing_for: DurationOrZeroMs = 0
    """How long the value must be normal again before the alert is resolved."""
    severity: Literal["page", "ticket"]
    """page: wake someone; ticket: look at it when you are awake."""
    summary: Text
    """What to say, with {labels} and {value}, {value:percent} or {value:duration}."""
    why: Text
    """Why this should wake someone, or why not."""
    unless: list[Inhibitor] = Field(default=[])
    """Rules whose alerts explain this one."""

    @property
    def of(self) -> Signal:
        return SIGNALS[self.signal]

    @property
    def labels(self) -> Sequence[str]:
        if self.absent is not None:
            return ()
        return tuple(self.of.labels) if self.combine == "each" else tuple(self.by)

    def concerns(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set is one of those in `where`."""
        return all(
            any(re.fullmatch(pattern(each), labels.get(label, "")) for each in values_of(wanted))
            for label, wanted in self.where.items()
        )

    @property
    def condition(self) -> Condition | None:
        """The comparison; None for a rule on absence."""
        for key in COMPARISONS:
            threshold = getattr(self, key.replace("-", "_"))
            if threshold is not None:
                return Condition(key, threshold, threshold if self.clear is None else self.clear)
        return None

    def rules(self) -> Found:
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
        taken = {*self.of.labels, *_TAKEN_LABELS}
        for label in self.own_labels:
            if label in taken or _LABEL.fullmatch(label) is None:
                why = "is taken" if label in taken else "is no name of a label; write letters, digits and _"
                yield ("labels", label), f"{label} {why}"
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


class AlertRules(Block):
    """All rules that are evaluated together."""

    stale_after: DurationMs = 30_000
    """How old a sample may be and still count as current."""
    forget_after: DurationMs = 300_000
    """How long a label set may be without samples, while others of its signal have some, until it is gone."""
    alert_rules: Annotated[list[AlertRule], Field(min_length=1, alias="rules")]
    """The rules; their order does not matter."""

    def __iter__(self) -> Iterator[AlertRule]:  # type: ignore[override]
        return iter(self.alert_rules)

    @property
    def stale_ns(self) -> int:
        return self.stale_after * MS

    @property
    def forget_ns(self) -> int:
        return self.forget_after * MS

    @property
    def by_name(self) -> Mapping[str, AlertRule]:
        return {rule.name: rule for rule in self}

    def rules(self) -> Found:
        first: dict[str, int] = {}
        for at, rule in enumerate(self):
            if rule.name in first:
                yield ("rules", at, "name"), f"{rule.name} is also the name of another rule"
            first.setdefault(rule.name, at)
        for at, rule in enumerate(self):
            for place, inhibitor in enumerate(rule.unless):
                for key, text in self._inhibition(rule, inhibitor):
                    yield ("rules", at, "unless", place, *key), text

    def _inhibition(self, rule: AlertRule, inhibitor: Inhibitor) -> Found:
        other = self.by_name.get(inhibitor.rule)
        if other is None:
            yield ("rule",), f"no rule {inhibitor.rule}; {hint(inhibitor.rule, self.by_name)}"
            return
        for label in inhibitor.equal:
            for each in (rule, other):
                if label not in each.labels:
                    have = f"they have {', '.join(each.labels)}" if each.labels else "they have none"
                    yield ("equal",), f"alerts of {each.name} have no label {label}; {have}"
        if rule.name in self._explaining_rules(inhibitor.rule):
            yield ("rule",), f"{rule.name} and {inhibitor.rule} inhibit each other: both would be silent"

    def _explaining_rules(self, name: str) -> set[str]:
        """The rules that explain that one, directly or through others; itself included."""
        pending, found = [name], set()
        while pending:
            name = pending.pop()
            if name not in found and name in self.by_name:
                found.add(name)
                pending += [each.rule for each in self.by_name[name].unless]
        return found


_KIND = FileKind("file of alert rules", "kaput alerts show")


def load(path: Path) -> AlertRules:
    """The rules in a file. Raises UsageError with every mistake, one per line."""
    return from_text(str(path), read(path, _KIND))


def builtin() -> AlertRules:
    return from_text("builtin.yaml", builtin_text())


def builtin_text() -> str:
    return (files("kaput.monitor.alerts") / "builtin.yaml").read_text(encoding="utf-8")


def from_text(name: str, text: str) -> AlertRules:
    """The rules in a text; `name` is used in messages. Raises UsageError with every mistake."""
    source = parse(name, text, _KIND)
    rules, mistakes = _validated(source.data)
    lines = in_lines_of(source, mistakes, partial(_with_its_rule, source))
    if lines or rules is None:
        raise UsageError("\n".join(lines))
    return rules


def _validated(data: dict[Any, Any]) -> tuple[AlertRules | None, list[Mistake]]:
    try:
        rules = AlertRules.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        return None, from_validation(error, data, root=AlertRules)
    return rules, [Mistake(path, text) for path, text in rules.broken_rules()]


def _with_its_rule(source: Source, mistake: Mistake) -> str:
    """`rule offline-partitions: condition: ...`"""
    in_rule = mistake.path[:1] == ("rules",) and len(mistake.path) >= 2
    key = dotted(mistake.path[2:] if in_rule else mistake.path)
    places = [place for place in (_rule(mistake, source) if in_rule else "", key) if place]
    return ": ".join([*places, mistake.text])


def _rule(mistake: Mistake, source: Source) -> str:
    """`rule offline-partitions`, or its number from 1 if it has no name that can be printed."""
    if not isinstance(mistake.path[1], int):
        return ""
    rule = source.data["rules"][mistake.path[1]]
    name = rule.get("name") if isinstance(rule, dict) else None
    named = isinstance(name, str) and name.isprintable()
    return f"rule {name}" if named else f"rule number {mistake.path[1] + 1}"


_COMPARISONS = {
    "above": "is above {0:.15g}",
    "at-least": "is {0:.15g} or more",
    "below": "is below {0:.15g}",
    "at-most": "is {0:.15g} or less",
    "other-than": "is not {0:.15g}",
}


def condition_words(rule: AlertRule) -> str:
    """`the sum of kaput_messages_acked_total, per second over 30s, is below 800 for 10s (until 900)`."""
    condition = rule.condition
    if condition is None:
        assert rule.absent is not None
        return f"{rule.signal} is absent for {format_duration(rule.absent)}"
    held = f" for {format_duration(rule.for_)}" if rule.for_ else ""
    until = f" (until {rule.clear:.15g})" if rule.clear is not None else ""
    return (
        f"{_value_words(rule)} {_COMPARISONS[condition.comparison].format(condition.threshold)}{held}{until}"
    )


def _value_words(rule: AlertRule) -> str:
    where = ", ".join(f"{label} {' or '.join(values_of(each))}" for label, each in sorted(rule.where.items()))
    signal = f"{rule.signal}{f' of {where}' if where else ''}"
    if rule.combine != "each":
        names = {"sum": "the sum of", "max": "the largest", "min": "the smallest"}
        by = f" by {', '.join(rule.by)}" if rule.by else ""
        signal = f"{names[rule.combine]} {signal}{by}"
    if rule.rate is not None:
        return f"{signal}, per second over {format_duration(rule.rate)},"
    return f"{signal}, its increase in {format_duration(rule.increase)}," if rule.increase else signal
