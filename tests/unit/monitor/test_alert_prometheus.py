"""Rules for Prometheus and Alertmanager, as text. Whether these take them: test_alert_servers.py."""

from __future__ import annotations

import pytest
import yaml

from fakes.alerting import lag_rule, rules_of
from kaput.monitor.alerts.prometheus import alerting_rules, expression, inhibit_rules
from kaput.monitor.alerts.rules import as_go_template, builtin, filled

ACKED, LAG = "kaput_messages_acked_total", "kaput_mirror_lag_seconds"
ACKED_RULE = {"name": "low-rate", "signal": ACKED}
BLIND = {"name": "blind", "signal": "kaput_broker_up", "absent": "1m"}


@pytest.mark.parametrize(
    ("rule", "promql"),
    [
        (lag_rule(), "kaput_mirror_lag_seconds > 10"),
        (lag_rule(above=None, at_least=0.5), "kaput_mirror_lag_seconds >= 0.5"),
        (lag_rule(where={"mirror": 'a"b\\'}), 'kaput_mirror_lag_seconds{mirror="a\\"b\\\\"} > 10'),
        (lag_rule(rate="90s"), "deriv(kaput_mirror_lag_seconds[90s]) > 10"),
        (lag_rule(combine="max", by=["mirror"]), "max by (mirror) (kaput_mirror_lag_seconds) > 10"),
        (ACKED_RULE | {"rate": "30s", "combine": "sum", "below": 800}, f"sum(rate({ACKED}[30s])) < 800"),
        (ACKED_RULE | {"increase": "5m", "above": 0}, "increase(kaput_messages_acked_total[300s]) > 0"),
        (BLIND, "absent_over_time(kaput_broker_up[60s])"),
        (
            lag_rule(clear=5),
            f"({LAG} > 10) or (({LAG} unless {LAG} <= 5)"
            ' and on (mirror) ALERTS{alertname="Lag", alertstate="firing"})',
        ),
    ],
)  # fmt: skip
def test_condition_is_exported_as_promql(rule: dict[str, object], promql: str) -> None:
    (loaded,) = rules_of(rule)
    assert expression(loaded) == promql


def test_rule_is_exported_as_prometheus_alerting_rule() -> None:
    rules = rules_of(lag_rule(for_="1m", keep_firing_for="90s", summary="{mirror}: {value:percent}"))
    (found,) = yaml.safe_load(alerting_rules(rules))["groups"][0]["rules"]
    assert found == {
        "alert": "Lag",
        "expr": "kaput_mirror_lag_seconds > 10",
        "for": "60s",
        "keep_firing_for": "90s",
        "labels": {"severity": "page"},
        "annotations": {
            "summary": "{{ $labels.mirror }}: {{ $value | humanizePercentage }}",
            "description": "Because.",
        },
    }


def test_unless_is_exported_as_alertmanager_inhibit_rule() -> None:
    rules = rules_of(lag_rule(unless=[{"rule": "b", "equal": ["mirror"]}]), lag_rule(name="b"))
    assert yaml.safe_load(inhibit_rules(rules)) == {
        "inhibit_rules": [
            {
                "source_matchers": ['alertname="B"'],
                "target_matchers": ['alertname="Lag"'],
                "equal": ["mirror"],
            }
        ]
    }


def test_every_builtin_rule_is_exported() -> None:
    document = yaml.safe_load(alerting_rules(builtin()))
    assert len(document["groups"][0]["rules"]) == len(builtin().alert_rules)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{value}", "1,234"),
        ("{value:duration}", "20.6 min"),
        ("{value:percent}", "1.23e+05 %"),
        ("{topic} and {partition}", "t and ?"),
        ("{{topic}}", "{t}"),
    ],
)
def test_summary_template_is_filled(template: str, text: str) -> None:
    assert filled(template, {"topic": "t"}, 1234) == text


def test_label_value_is_not_expanded_as_template() -> None:
    """Whoever names a topic writes no template."""
    assert filled("{topic}", {"topic": "{value}"}, 1) == "{value}"
    assert as_go_template("{topic}") == "{{ $labels.topic }}"
