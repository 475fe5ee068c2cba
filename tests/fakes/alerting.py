"""Alert rules and samples for tests, in a few words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import yaml

from kaput.core import SECOND
from kaput.monitor.alerts.engine import Engine, Transition
from kaput.monitor.alerts.rules import AlertRules, from_text
from kaput.monitor.signals import Sample

UP = "kaput_broker_up"
LAG = "kaput_mirror_lag_seconds"
NAN = math.nan


def rules_of(*rules: dict[str, object], **settings: object) -> AlertRules:
    """Rules from dicts; what a test leaves out of one is filled in."""
    defaults = {"severity": "page", "summary": "it is {value}", "why": "Because."}
    document = {**settings, "rules": [defaults | rule for rule in rules]}
    return from_text("rules.yaml", yaml.safe_dump(document))


def lag_rule(**keys: object) -> dict[str, object]:
    """A rule on one gauge: above 10, with a label set for each mirror."""
    return {"name": "lag", "signal": LAG, "above": 10} | {
        key.replace("_", "-").strip("-"): value for key, value in keys.items()
    }


def sample(value: float, at_s: float, name: str = LAG, **labels: str) -> Sample:
    """One sample, `at_s` seconds after the epoch."""
    return Sample(name, value, round(at_s * SECOND), labels)


def played(rules: AlertRules, values: Sequence[float | None], every_s: float = 1) -> list[str]:
    """What becomes of one series of values, one each second, None: no sample. `3 firing`, ..."""
    steps = [
        [] if value is None else [sample(value, at * every_s, mirror="m")] for at, value in enumerate(values)
    ]
    return changes(stepped(rules, steps, every_s))


def stepped(rules: AlertRules, steps: Iterable[Sequence[Sample]], every_s: float = 1) -> list[Transition]:
    """The transitions of an engine that is given these samples, one list each second."""
    engine = Engine(rules)
    return [
        each
        for at, samples in enumerate(steps)
        for each in engine.step(samples, round(at * every_s * SECOND))
    ]


def changes(transitions: Iterable[Transition]) -> list[str]:
    """`3 firing`: the second, the change, and an exclamation mark if it is announced."""
    return [f"{each.at_ns / SECOND:g} {each.change}{'!' * each.announce}" for each in transitions]
