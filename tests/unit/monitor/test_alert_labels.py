"""Rules for some topics and groups, and labels that say who is notified."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kaput.errors import UsageError
from kaput.monitor.alerts.channels import document
from kaput.monitor.alerts.engine import Engine
from kaput.monitor.alerts.prometheus import alerting_rules
from kaput.monitor.alerts.rules import AlertRules, from_text
from kaput.monitor.signals import Sample

LAG = "kaput_consumer_lag_records"


def rules(**more: Any) -> AlertRules:
    rule = {
        "name": "behind",
        "signal": LAG,
        "above": 5,
        "severity": "page",
        "summary": "s",
        "why": "w",
        **more,
    }
    return from_text("mine.yaml", yaml.safe_dump({"rules": [rule]}))


@pytest.mark.parametrize(
    ("where", "fires"),
    [
        ({"topic": "orders"}, {"orders"}),
        ({"topic": ["orders", "pay.ments"]}, {"orders", "pay.ments"}),
        ({"topic": "order*"}, {"orders", "orders-2"}),
        ({"topic": "*", "group": "billing"}, {"orders", "orders-2", "pay.ments", "payXments"}),
        ({"group": "audit"}, set()),
    ],
)
def test_where_may_have_several_values_and_patterns(where: dict[str, Any], fires: set[str]) -> None:
    topics = ("orders", "orders-2", "pay.ments", "payXments")
    samples = [Sample(LAG, 9, 1, {"group": "billing", "topic": t, "partition": "0"}) for t in topics]
    found = Engine(rules(where=where)).step(samples, 1)
    assert {each.alert.labels["topic"] for each in found} == fires


def test_prometheus_gets_the_same_labels_and_values() -> None:
    (group,) = yaml.safe_load(
        alerting_rules(rules(where={"topic": ["pay.ments", "order*"]}, labels={"team": "pay"}))
    )["groups"]
    assert group["rules"][0]["expr"] == LAG + '{topic=~"pay\\\\.ments|order.*"} > 5'
    assert group["rules"][0]["labels"] == {"severity": "page", "team": "pay"}


def test_labels_of_a_rule_are_in_its_alerts() -> None:
    sample = Sample(LAG, 9, 1, {"group": "billing", "topic": "orders", "partition": "0"})
    (transition,) = Engine(rules(labels={"team": "pay"})).step([sample], 1)
    assert document(transition)["labels"]["team"] == "pay"


@pytest.mark.parametrize("label", ["severity", "topic", "my team"])
def test_labels_that_cannot_be_are_named(label: str) -> None:
    with pytest.raises(UsageError, match=f"rule behind: labels.{label}: {label} is"):
        rules(labels={label: "x"})
