"""The same rules for Prometheus (alerting rules) and Alertmanager (inhibition): two YAML documents.

Prometheus evaluates them nearly as the engine does. The differences: `rate()` and `increase()` extrapolate to
the edges of their windows, and an alert whose series has no more samples is resolved. Inhibition is done by
Alertmanager, which announces a released alert at once. Hysteresis is an expression that checks whether the
alert already fires. A series that is NaN keeps an alert with `clear` firing, as in the engine.
"""

from __future__ import annotations

from typing import Any

import yaml

from kaput.monitor.alerts.rules import (
    COMPARISONS,
    AlertRule,
    AlertRules,
    Condition,
    as_go_template,
    pattern,
    values_of,
)
from kaput.scenario.values import format_duration

GROUP = "kaput"
_HEADER = "# Made by `kaput alerts rules --{made}`; change the rules, not this file.\n"


def alert_name(rule: str) -> str:
    """`low-send-rate` in Prometheus's style: LowSendRate."""
    return "".join(part.capitalize() for part in rule.split("-"))


def alerting_rules(rules: AlertRules) -> str:
    """A rules file for Prometheus 2.42 or newer (keep_firing_for)."""
    document = {"groups": [{"name": GROUP, "rules": [_alerting_rule(rule) for rule in rules]}]}
    return _HEADER.format(made="prometheus") + _yaml(document)


def inhibit_rules(rules: AlertRules) -> str:
    """The part of Alertmanager's configuration that silences alerts which others explain."""
    found = [
        {
            "source_matchers": [f'alertname="{alert_name(inhibitor.rule)}"'],
            "target_matchers": [f'alertname="{alert_name(rule.name)}"'],
            **({"equal": inhibitor.equal} if inhibitor.equal else {}),
        }
        for rule in rules
        for inhibitor in rule.unless
    ]
    return _HEADER.format(made="alertmanager") + _yaml({"inhibit_rules": found})


def expression(rule: AlertRule) -> str:
    """The condition in PromQL."""
    condition = rule.condition
    if condition is None:
        assert rule.absent is not None
        return f"absent_over_time({_selector(rule)}[{format_duration(rule.absent)}])"
    value = _value(rule)
    if rule.clear is None:
        return f"{value} {_comparison(condition)}"
    return f"({value} {_comparison(condition)}) or ({_not_cleared(rule, condition, value)})"


def _alerting_rule(rule: AlertRule) -> dict[str, Any]:
    document: dict[str, Any] = {"alert": alert_name(rule.name), "expr": expression(rule)}
    if rule.for_:
        document["for"] = format_duration(rule.for_)
    if rule.keep_firing_for:
        document["keep_firing_for"] = format_duration(rule.keep_firing_for)
    annotations = {"summary": as_go_template(_summary(rule)), "description": rule.why}
    return document | {"labels": {"severity": rule.severity, **rule.own_labels}, "annotations": annotations}


def _summary(rule: AlertRule) -> str:
    """absent_over_time() is always 1: the actual duration is unknown there."""
    if rule.absent is None:
        return rule.summary
    return rule.summary.replace("{value:duration}", format_duration(rule.absent)).replace("{value}", "1")


def _not_cleared(rule: AlertRule, condition: Condition, value: str) -> str:
    """The value is not good again, and the alert already fires. `unless`, not `and`: NaN is not good."""
    cleared = _comparison(Condition(_OPPOSITE[condition.comparison], condition.clear, condition.clear))
    fires = f'ALERTS{{alertname="{alert_name(rule.name)}", alertstate="firing"}}'
    return f"({value} unless {value} {cleared}) and on ({', '.join(rule.labels)}) {fires}"


_OPPOSITE = {"above": "at-most", "at-least": "below", "below": "at-least", "at-most": "above"}


def _comparison(condition: Condition) -> str:
    return f"{COMPARISONS[condition.comparison][1]} {condition.threshold:.15g}"


def _value(rule: AlertRule) -> str:
    selector = _selector(rule)
    if rule.rate is not None:
        function = "rate" if rule.of.kind == "counter" else "deriv"
        selector = f"{function}({selector}[{format_duration(rule.rate)}])"
    elif rule.increase is not None:
        selector = f"increase({selector}[{format_duration(rule.increase)}])"
    if rule.combine == "each":
        return selector
    return (
        f"{rule.combine} by ({', '.join(rule.by)}) ({selector})" if rule.by else f"{rule.combine}({selector})"
    )


def _selector(rule: AlertRule) -> str:
    matchers = ", ".join(_matcher(label, values_of(each)) for label, each in sorted(rule.where.items()))
    return f"{rule.signal}{{{matchers}}}" if matchers else rule.signal


def _matcher(label: str, values: list[str]) -> str:
    if len(values) == 1 and "*" not in values[0]:
        return f"{label}={_quoted(values[0])}"
    return f"{label}=~{_quoted('|'.join(pattern(value) for value in values))}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _yaml(document: Any) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
