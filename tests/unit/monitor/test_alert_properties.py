"""What holds of the engine whatever the samples are: drawn rules, drawn samples, judged by other words."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from fakes.alerting import NAN, lag_rule, rules_of, sample, stepped
from kaput.core import SECOND
from kaput.monitor.alerts.engine import Engine, Transition
from kaput.monitor.alerts.rules import AlertRules
from kaput.monitor.signals import Sample

THRESHOLD, CLEAR = 10, 5
VALUES = st.lists(st.sampled_from([0, 5, 6, 10, 11, 20, NAN, None]), min_size=1, max_size=40)
SECONDS = st.integers(0, 6)


@st.composite
def rule_files(draw: st.DrawFn) -> AlertRules:
    """One rule on a gauge, above 10, that may have hysteresis."""
    rule = lag_rule(for_=draw(SECONDS), keep_firing_for=draw(SECONDS))
    if draw(st.booleans()):
        rule["clear"] = CLEAR
    return rules_of(rule, **{"stale-after": "1ms"})


def series(values: list[float | None]) -> list[list[Sample]]:
    """One sample a second, or none."""
    return [[] if value is None else [sample(value, at, mirror="m")] for at, value in enumerate(values)]


def known(values: list[float | None], first: int, last: int) -> list[float]:
    """The values that are known, from one second to another."""
    return [value for value in values[first : last + 1] if value is not None and not math.isnan(value)]


def at_s(transition: Transition) -> int:
    return transition.at_ns // SECOND


@given(rules=rule_files(), values=VALUES)
def test_alert_never_fires_before_for_has_elapsed(rules: AlertRules, values: list[float | None]) -> None:
    for each in stepped(rules, series(values)):
        if each.change == "firing":
            seen = known(values, at_s(each) - rules.alert_rules[0].for_ // 1000, at_s(each))
            assert at_s(each) >= rules.alert_rules[0].for_ // 1000
            assert all(value > THRESHOLD for value in seen) and values[at_s(each)] == seen[-1]


@given(rules=rule_files(), values=VALUES)
def test_alert_resolves_only_on_values_beyond_clear(rules: AlertRules, values: list[float | None]) -> None:
    """For as long as keep-firing-for, the last of them included; never by silence."""
    (rule,) = rules.alert_rules
    clear = THRESHOLD if rule.clear is None else rule.clear
    for each in stepped(rules, series(values)):
        if each.change == "resolved":
            seen = known(values, at_s(each) - rule.keep_firing_for // 1000, at_s(each))
            assert seen and all(value <= clear for value in seen) and values[at_s(each)] == seen[-1]


@given(rules=rule_files(), values=VALUES)
def test_only_valid_state_transitions_occur(rules: AlertRules, values: list[float | None]) -> None:
    after = {None: {"pending", "firing"}, "pending": {"firing", "inactive"}, "firing": {"resolved"}}
    last = None
    for each in stepped(rules, series(values)):
        assert each.change in after[last]
        last = None if each.change in ("resolved", "inactive") else each.change


@given(values=st.lists(st.floats(CLEAR + 0.001, 100), min_size=1, max_size=60))
def test_no_flapping_without_values_beyond_clear(values: list[float | None]) -> None:
    """No flapping, however often they cross the threshold."""
    changes = [each.change for each in stepped(rules_of(lag_rule(clear=CLEAR)), series(values))]
    assert changes in ([], ["firing"])


@given(
    values=st.lists(st.lists(st.sampled_from([0, 9, 11, NAN]), min_size=4, max_size=4), max_size=20),
    combine=st.sampled_from(["each", "sum", "max", "min"]),
    seed=st.integers(),
)
def test_sample_order_within_a_step_is_irrelevant(values: list[list[float]], combine: str, seed: int) -> None:
    """Nor does the order of the rules in the file."""
    steps = [
        [sample(value, at + number % 2 / 10, mirror=f"m{number // 2}") for number, value in enumerate(row)]
        for at, row in enumerate(values)
    ]
    mixed = [random.Random(seed + at).sample(row, len(row)) for at, row in enumerate(steps)]
    file = [lag_rule(combine=combine), lag_rule(combine=combine, name="other", for_="2s")]
    there, back = rules_of(*file), rules_of(*reversed(file))
    assert texts(stepped(there, steps)) == texts(stepped(back, mixed))


@given(rules=rule_files(), values=VALUES)
def test_replay_is_deterministic(rules: AlertRules, values: list[float | None]) -> None:
    assert texts(stepped(rules, series(values))) == texts(stepped(rules, series(values)))


def texts(transitions: list[Transition]) -> list[str]:
    """Comparable although some values are NaN."""
    return [repr(each) for each in transitions]


@given(
    rows=st.lists(st.tuples(st.booleans(), st.sampled_from([0, 3, NAN])), min_size=1, max_size=40),
    for_s=SECONDS,
)
def test_alert_inhibited_by_down_broker_is_not_announced(rows: list[tuple[bool, float]], for_s: int) -> None:
    """Never announced while the other fires, nor within `for` after it has ended; announced in pairs."""
    behind = {
        "name": "behind", "signal": "kaput_out_of_sync_replicas", "above": 0, "for": for_s,
        "unless": [{"rule": "down", "equal": ["broker"]}],
    }  # fmt: skip
    rules = rules_of(behind, {"name": "down", "signal": "kaput_broker_up", "at-most": 0})
    engine, down_at, announced = Engine(rules), None, False
    for at, (up, value) in enumerate(rows):
        samples = [
            sample(up, at, "kaput_broker_up", broker="1"),
            sample(value, at, "kaput_out_of_sync_replicas", broker="1"),
        ]
        found = [each for each in engine.step(samples, at * SECOND) if each.alert.rule.name == "behind"]
        down_at = at if not up else down_at
        for each in found:
            if each.announce and each.change != "resolved":
                assert up and (down_at is None or at - down_at >= for_s)
                assert not announced
            if each.announce and each.change == "resolved":
                assert announced
            announced = each.alert.announced and each.change != "resolved"


@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2000)), min_size=2, max_size=40),
    window_s=st.integers(1, 10),
)
def test_rate_never_exceeds_the_steepest_increase(steps: list[tuple[int, int]], window_s: int) -> None:
    """Neither resets nor uneven times make more of it than the steepest rise, or less than none."""
    rule = {"name": "rate", "signal": "kaput_unclean_elections_total", "rate": f"{window_s}s", "at-least": 0}
    engine, now, total, steepest = Engine(rules_of(rule)), 0, 0, 0.0
    for seconds, rise in steps:
        now += seconds + 1
        reset = rise % 7 == 0
        steepest = max(steepest, rise / (seconds + 1))
        total = rise if reset else total + rise
        engine.step([sample(total, now, "kaput_unclean_elections_total")], now * SECOND)
        for alert in engine.active:
            assert 0 <= alert.value <= steepest + 1e-9
