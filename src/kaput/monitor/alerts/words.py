"""A rule's condition as a sentence."""

from __future__ import annotations

from kaput.monitor.alerts.rule import Rule
from kaput.scenario.values import format_duration

_COMPARISONS = {
    "above": "is above {0:.15g}",
    "at-least": "is {0:.15g} or more",
    "below": "is below {0:.15g}",
    "at-most": "is {0:.15g} or less",
    "other-than": "is not {0:.15g}",
}


def condition_words(rule: Rule) -> str:
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


def _value_words(rule: Rule) -> str:
    where = ", ".join(f"{label} {value}" for label, value in sorted(rule.where.items()))
    signal = f"{rule.signal}{f' of {where}' if where else ''}"
    if rule.combine != "each":
        names = {"sum": "the sum of", "max": "the largest", "min": "the smallest"}
        by = f" by {', '.join(rule.by)}" if rule.by else ""
        signal = f"{names[rule.combine]} {signal}{by}"
    if rule.rate is not None:
        return f"{signal}, per second over {format_duration(rule.rate)},"
    return f"{signal}, its increase in {format_duration(rule.increase)}," if rule.increase else signal
