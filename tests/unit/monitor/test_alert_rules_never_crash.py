"""Whatever is in a file of alert rules, loading ends in rules or in mistakes with their lines.

And rules that were loaded can be evaluated, put into words, and exported, whatever they are.
"""

from __future__ import annotations

import random
import re
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.alerting import stepped
from kaput.errors import UsageError
from kaput.monitor.alerts.prometheus import alerting_rules, inhibit_rules
from kaput.monitor.alerts.rules import builtin_text, condition_words, from_text
from kaput.monitor.signals import SIGNALS, Sample

WORDS = (
    "sum",
    "each",
    "10s",
    "0s",
    "page",
    "broker",
    "topic",
    "kaput_broker_up",
    "broker-down",
    "{value}",
    "{x",
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=8), st.dates(),
    st.sampled_from(WORDS),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(SCALARS, inner, max_size=3)),
    max_leaves=5,
)
KEYS = st.one_of(
    SCALARS,
    *map(
        st.just, ("name", "signal", "where", "rate", "increase", "combine", "by", "absent", "for", "unless")
    ),
    *map(st.just, ("above", "at-least", "below", "clear", "equal", "rule", "rules", "stale-after")),
)
NAMES = [signal.name for signal in SIGNALS.values() if signal.kind != "histogram"]


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in entries for place in [(node, key), *places(value)]]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(st.tuples(st.booleans(), KEYS, VALUES), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_mutated_builtin_rules_load_or_are_reported(changes: list[tuple[bool, Any, Any]], seed: int) -> None:
    data, chosen = yaml.safe_load(builtin_text()), random.Random(seed)
    for adds, key, value in changes:
        container, at = chosen.choice(places(data))
        if adds and isinstance(container, dict):
            container[key] = value
        else:
            container[at] = value
    try:
        rules = from_text("my.yaml", yaml.safe_dump(data))
    except UsageError as error:
        assert all(re.match(r"my\.yaml(:\d+)?: ", line) for line in str(error).splitlines() if line)
        return
    samples = [
        Sample(
            name, chosen.choice([0, 1, 5, 1e6, float("nan")]), at, dict.fromkeys(SIGNALS[name].labels, "1")
        )
        for at in range(3)
        for name in NAMES
    ]
    stepped(rules, [samples] * 3)
    assert all(condition_words(rule) for rule in rules)
    assert yaml.safe_load(alerting_rules(rules)) and yaml.safe_load(inhibit_rules(rules))


@given(text=st.one_of(st.text(max_size=60), VALUES.map(yaml.safe_dump)))
def test_arbitrary_text_loads_or_is_reported(text: str) -> None:
    try:
        from_text("my.yaml", text)
    except UsageError as error:
        assert str(error).startswith("my.yaml")
